"""Stretches without a leader, or with one replica that must hold everything: where they begin and end, and why."""

from __future__ import annotations

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
from tests.support.scenario import TOPIC_ID, elr_levels, ms, running, sessions, states, together, up

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


def test_a_stretch_goes_on_while_nobody_leads_whatever_else_changes() -> None:
    history = states("10 isr=1,2 leader=1", "20 isr=2 leader=-1", "30 isr= elr=2 lke=1 leader=-1", "40 elr=")
    found = only(history, log_end=100)
    assert (found["start_offset"], found["end_offset"], found["severity"]) == (20, None, "medium")
    told = said(found)
    assert told["exposed_for_at_least"]["value"] == found["lasted_ms"] == ms(80)
    assert (found["lasted_at_least"], found["end_reason"]) == (True, "log_end")
    assert "exposed_at_log_end" in told
    # What it waits for is said of its end.
    assert told["leaderless_last_known"]["brokers"] == told["last_known_return"]["brokers"] == [1]


@pytest.mark.parametrize(
    ("state", "codes", "brokers"),
    [
        ("isr=2,3 elr= lke=", {"leaderless_isr", "clean_return"}, [2, 3]),
        ("isr=3 elr=1 lke=", {"leaderless_isr", "clean_return"}, [3]),
        ("isr= elr=1,3 lke=2", {"leaderless_elr", "clean_return"}, [1, 3]),
        ("isr= elr= lke=2", {"leaderless_last_known", "last_known_return"}, [2]),
        ("isr= elr= lke=", {"leaderless_nobody", "no_return"}, []),
        # Neither of two last known leaders is elected, nor is a broker -1.
        ("isr= elr= lke=2,3", {"leaderless_nobody", "no_return"}, [2, 3]),
        ("isr= elr= lke=-1", {"leaderless_nobody", "no_return"}, [-1]),
    ],
)
def test_what_it_waited_for(state: str, codes: set[str], brokers: list[int]) -> None:
    found = only(states("10 isr=1,2,3 leader=1", f"20 {state} leader=-1"))
    told = said(found)
    assert found["waits_for"] == ([] if "no_return" in codes else brokers)
    waits = {code for code in told if code.startswith("leaderless_") or code.endswith("_return")} - {"leaderless_means"}
    assert waits == codes
    assert all(told[code]["brokers"] in (brokers, None) for code in codes)


@pytest.mark.parametrize(
    ("after", "code", "reason"),
    [
        ("isr=2 leader=2", "ended_from_isr", "elected_from_isr"),
        ("isr=3 elr= leader=3 recovering", "ended_by_outsider", "elected_outsider"),
        ("removed", "exposed_until_removal", "removed"),
    ],
)
def test_who_ended_it(after: str, code: str, reason: str) -> None:
    found = only(states("10 isr=1,2 leader=1", "20 isr=2 leader=-1", f"30 {after}"))
    assert found["end_reason"] == reason
    told = said(found)
    ends = {"ended_from_isr", "ended_from_elr", "ended_by_outsider", "exposed_until_removal"}
    assert ends & set(told) == {code}
    assert told[code]["offset"] == found["end_offset"] == 30
    assert (found["recorded_leader"] is None) == (after == "removed")


def test_replicas_that_were_alive_could_have_been_elected_uncleanly() -> None:
    brokers = sessions(*up(1, 2, 3, at=1), "5 shutdown 2", "20 fence 1 batch=19", "25 fence 3")
    lost = states("10 isr=1 leader=1", "21 isr= elr=1 leader=-1 batch=19 unclean=false@broker")
    told = said(only(lost, brokers=brokers))
    assert told["replicas_alive"]["brokers"] == told["unclean_possible"]["brokers"] == [3]
    assert told["unclean_off"]["text"] == "broker"
    later = said(only(states("10 isr=1 leader=1", "30 isr= leader=-1 unclean=true@topic"), brokers=brokers))
    assert later["replicas_alive"]["brokers"] == []
    assert "unclean_possible" not in later
    assert later["unclean_on"]["text"] == "topic"
    assumed = said(only(states("10 isr= leader=-1 unclean=false@assumed_default")))
    assert (assumed["unclean_assumed"]["nature"], assumed["unclean_assumed"]["text"]) == ("assumption", "false")


def test_a_snapshot_in_between_begins_anew_and_what_ended_it_is_not_known() -> None:
    history = states(
        "10 isr=1 leader=1", "20 isr= elr=1 leader=-1", "50 checkpoint isr= elr=1", "60 isr=1 elr= leader=1"
    )
    first, second = (f for f in findings(history) if f["kind"] == LEADERLESS)
    assert (first["start_offset"], first["end_offset"], first["severity"]) == (20, None, "medium")
    assert {"exposed_into_hole", "exposed_for_at_least"} <= set(said(first))
    assert "exposed_at_log_end" not in said(first)
    assert (second["start_offset"], second["end_offset"], second["severity"]) == (50, 60, "medium")
    told = said(second)
    assert {"exposed_since_snapshot", "no_leader"} <= set(told)
    assert (told["exposed_for_at_least"]["nature"], told["exposed_for_at_least"]["value"]) == ("bound", ms(10))


def test_the_last_replica_is_the_only_member_of_isr_and_elr() -> None:
    found = only(LOST, LAST_REPLICA)
    assert (found["start_offset"], found["end_offset"], found["severity"]) == (20, 50, "low")
    assert found["recorded_leader"] is None
    told = said(found)
    assert told["last_replica"]["brokers"] == [1]
    assert (told["min_isr_in_force"]["value"], told["min_isr_in_force"]["text"]) == (2, "topic")
    assert {"last_replica_led_partly", "more_replicas"} <= set(told)
    assert told["more_replicas"]["brokers"] == [1, 2]
    assert told["exposed_for"]["value"] == ms(30)


@pytest.mark.parametrize(
    ("lines", "codes"),
    [
        (("10 isr=1,2 leader=1", "20 isr=1"), {"last_replica_led", "exposed_at_log_end"}),
        (("10 isr=1,2 leader=1", "20 isr=2 leader=-1"), {"last_replica_not_led", "exposed_at_log_end"}),
        (("10 isr=1,2 leader=1", "20 isr=1", "30 isr= leader=-1"), {"last_replica_led", "no_replica_left"}),
        (("10 isr=1 leader=1", "20 replicas=1"), {"last_replica_led", "single_replica"}),
        (("10 isr=1 leader=1", "20 removed"), {"last_replica_led", "exposed_until_removal"}),
        (("10 isr=1 leader=1", "20 isr=2 leader=2"), {"last_replica_led", "last_replica_at_end", "exposed_at_log_end"}),
        (("10 isr=1 leader=1 assumed",), {"last_replica_led", "exposed_at_log_end", "min_isr_assumed"}),
    ],
)
def test_how_the_last_replica_fared(lines: tuple[str, ...], codes: set[str]) -> None:
    found = only(states(*lines), LAST_REPLICA)
    always = {"last_replica", "exposed_for", "exposed_for_at_least", "min_isr_in_force", "last_replica_means"}
    assert set(said(found)) - always == codes
    assert found["severity"] == ("medium" if "exposed_at_log_end" in codes else "low")


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
