"""Stretches without a leader, or with one replica that must hold everything: where they begin and end, and why."""

from collections import Counter
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow.schemas import FINDINGS, sorted_history
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import Clock, ClusterFacts
from replay.controller.transitions import Bucket
from replay.findings.exposures import LAST_REPLICA, LEADERLESS, exposure_findings
from replay.findings.statements import prose
from tests.support.detection import cluster_of
from tests.support.detection import statements as said
from tests.support.paths import capture
from tests.support.pure import decode, replayed
from tests.support.scenario import SESSION, TOPIC_ID, elr_levels, ms, running, sessions, states, together
from tests.support.window_table import Entry, beside, entries, holds

Row = dict[str, Any]
CAPTURES = ["unclean", "elr", "churn", "diverge"]


def cluster(brokers: BrokerTimeline | None = None, log_end: int | None = None) -> ClusterFacts:
    end = None if log_end is None else ms(log_end)
    return ClusterFacts("c", brokers or running(1, 2, 3), elr_levels(), Clock(), end)


def findings(history: pa.Table, **context: Any) -> list[Row]:
    """They say in prose what they say in data."""
    table = sorted_history(history)
    found: list[Row] = exposure_findings(Bucket(table, cluster(**context))).to_pylist()
    for finding in found:
        assert finding["explanation"] == prose(finding["reason"])
        assert "None" not in finding["explanation"]
        natures = [(s["nature"], prose([s])) for s in finding["reason"]]
        assert all((nature == "prediction") == ("Prediction:" in text) for nature, text in natures)
    return found


def only(history: pa.Table, kind: str = LEADERLESS, **context: Any) -> Row:
    (found,) = (f for f in findings(history, **context) if f["kind"] == kind)
    return found


LOST = states("10 isr=1,2,3 leader=1", "20 isr=1", "30 isr= elr=1 leader=-1", "45 isr=1 elr= leader=1", "50 isr=1,2")


def test_from_the_record_that_took_the_leader_to_the_one_that_gave_one() -> None:
    found = only(LOST)
    assert (found["start_offset"], found["end_offset"], found["recorded_leader"]) == (30, 45, 1)
    assert (found["start_timestamp_ms"], found["end_timestamp_ms"]) == (ms(30), ms(45))
    assert (found["verdict"], found["severity"], found["rule"]) == ("proven", "medium", LEADERLESS)
    assert found["election_offset"] is found["loss_min"] is found["loss_max"] is None
    told = said(found)
    assert told["leader_lost"]["brokers"] == [1]
    assert told["exposed_for"]["value"] == found["lasted_ms"] == 15_000
    assert (found["lasted_at_least"], found["end_reason"], found["waits_for"]) == (False, "elected_from_elr", [1])
    assert told["leaderless_elr"]["brokers"] == told["clean_return"]["brokers"] == [1]
    assert told["ended_from_elr"]["brokers"] == [1]
    assert "exposed_at_log_end" not in told
    assert [(e["role"], e["offset"], e["broker_id"]) for e in found["evidence"]] == [
        ("exposure_start", 30, -1),
        ("exposure_end", 45, 1),
    ]
    assert found["evidence"][0]["position"] == 30


ALWAYS = {"last_replica", "exposed_for", "exposed_for_at_least", "min_isr_in_force", "last_replica_means"}
ENDS = {"ended_from_isr", "ended_from_elr", "ended_by_outsider", "exposed_until_removal"}


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_exposure(entry: Entry) -> None:
    for story, answer in entry.cases:
        items = story.split("; ")
        events = [item for item in items if SESSION.match(item)]
        end = next((int(item.split()[1]) for item in items if item.startswith("log-end")), None)
        history = states(*(item for item in items if item[0].isdigit() and item not in events))
        kind = LAST_REPLICA if answer.startswith("last ") else LEADERLESS
        found = only(history, kind, brokers=sessions(*events) if events else None, log_end=end)
        told = said(found)
        waits = {code for code in told if code.startswith("leaderless_") or code.endswith("_return")}
        assert len(waits - {"leaderless_means"}) == 2 * (kind == LEADERLESS), story
        assert len(ENDS & set(told)) <= 1, story
        for part in answer.removeprefix("last ").split("; "):
            word, _, value = part.partition(" ")
            if word[0].isdigit():
                assert part == f"{found['start_offset']}-{found['end_offset'] or ''} {found['severity']}", story
            elif word == "ended":
                assert found["end_reason"] == value, story
            elif word == "waits":
                assert ",".join(map(str, found["waits_for"])) == value.replace("nobody", ""), story
            elif word == "codes":
                assert set(told) - ALWAYS == set(value.split(",")), story
            else:
                assert holds(found, part), (story, part)


def test_partitions_with_one_replica_and_sound_ones_give_nothing() -> None:
    assert findings(states("10 replicas=1 isr=1 leader=1", "20 isr=1")) == []
    assert findings(states("10 isr=1,2 leader=1", "20 isr=2 elr=1 leader=2", "30 removed")) == []
    empty = states("10 isr=1 leader=1").slice(0, 0)
    assert exposure_findings(Bucket(empty, cluster())).schema == FINDINGS


def test_partitions_do_not_run_into_each_other() -> None:
    lines = ("10 isr=1,2 leader=1", "20 isr=1 leader=-1")
    history = together(*(states(*lines, partition=p) for p in (0, 1)), states(*lines, topic_id="U" * 22))
    found = [f for f in findings(history) if f["kind"] == LEADERLESS]
    assert [(f["topic_id"], f["partition"], f["start_offset"]) for f in found] == [
        (TOPIC_ID, 0, 20),
        (TOPIC_ID, 1, 20),
        ("U" * 22, 0, 20),
    ]
    assert all("exposed_at_log_end" in said(f) for f in found)
    assert len({f["finding_id"] for f in found}) == 3


@cache
def real(name: str) -> tuple[pa.Table, pa.Table]:
    history, state = replayed(name)
    table = sorted_history(history.table)
    context = cluster_of(decode(capture(name)), state)
    return table, exposure_findings(Bucket(table, context))


# Every cluster was shut down at last: each of its partitions is leaderless when the log ends. What ended before that is
# the incident: all brokers of a partition killed (unclean, churn), or stopped one after the other (elr).
COUNTS = {
    "unclean": {(LEADERLESS, "medium"): 23, (LAST_REPLICA, "medium"): 5, (LAST_REPLICA, "low"): 19},
    "elr": {(LEADERLESS, "medium"): 15},
    "churn": {(LEADERLESS, "medium"): 57, (LAST_REPLICA, "medium"): 32, (LAST_REPLICA, "low"): 52},
    "diverge": {(LEADERLESS, "medium"): 16, (LAST_REPLICA, "medium"): 3},
}


@pytest.mark.parametrize("name", CAPTURES)
def test_what_real_clusters_went_through(name: str) -> None:
    history, found = real(name)
    assert Counter((f["kind"], f["severity"]) for f in found.to_pylist()) == COUNTS[name]
    last = {(r["topic_id"], r["partition"]): r for r in history.to_pylist()}
    open_ = [f for f in found.to_pylist() if f["kind"] == LEADERLESS and f["end_offset"] is None]
    assert len(open_) == sum(not r["removed"] for r in last.values())


def test_the_partition_that_an_administrator_recovered_waited_for_brokers_that_held_everything() -> None:
    """unclean, audit-1: its two ELR members were down, and an unclean election ended it with a third replica."""
    _, found = real("unclean")
    (row,) = (
        f
        for f in found.to_pylist()
        if (f["kind"], f["topic"], f["partition"]) == (LEADERLESS, "audit", 1) and f["end_offset"] is not None
    )
    told = said(row)
    assert told["leaderless_elr"]["brokers"] == [3, 4]
    assert told["ended_by_outsider"]["brokers"] == [2]
    assert (row["start_offset"], row["end_offset"], row["recorded_leader"]) == (202, 228, 2)
