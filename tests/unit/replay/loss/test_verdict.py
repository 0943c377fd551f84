"""Verdicts on small incidents, above all: what must not be called proven, and what must not be called excluded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from replay.arrow.schemas import FINDINGS
from replay.bucket import detect
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import Clock, ClusterFacts
from replay.findings.statements import prose
from tests.support.detection import statements, windows_of
from tests.support.scenario import elr_levels, evidence, ms, offsets_table, sessions, states, together, up
from tests.support.window_table import Entry, beside, entries, inputs, window

Row = dict[str, Any]

# Each cluster fences a broker a second after it was heard of last.
USUAL = "session 0; elr; log-end 10000; judged 40"


@pytest.mark.parametrize("entry", entries(beside(__file__), USUAL), ids=lambda entry: entry.name)
def test_window(entry: Entry) -> None:
    entry.check()


UP = "; ".join(up(1, 2, 3, at=0))
ALIVE = f"{UP}; 22 register 2 j2; 22 unfence 2"
UNCLEAN = "10 isr=1,2,3 leader=1; 20 isr=1; 30 isr= elr=1 leader=-1; 40 isr=2 elr= leader=2 recovering; "
UNCLEAN += "60 isr=2,3 recovered"
LOST = "25 b1 hw=150 e0@0; 50 b2 hw=80 e0@0 e2@80"


def rows_of(story: str, **place: Any) -> list[Row]:
    return evidence(*story.split("; "), **place)


def partition(number: int = 0) -> pa.Table:
    return states(*UNCLEAN.split("; "), partition=number)


def cluster(name: str = "c", **known: Any) -> ClusterFacts:
    times = {"session_timeout_ms": 0, "checkpoint_interval_ms": 1_000}
    return ClusterFacts(name, sessions(*ALIVE.split("; ")), elr_levels(), Clock(0), **times, **known)


def test_a_restart_from_before_elr_was_turned_on_is_not_vouched_for() -> None:
    brokers = sessions("0 register 1 a", "0 unfence 1", "29 fence 1", "35 register 1 b", "36 unfence 1")
    history = states("10 isr=1,2 leader=1", "20 isr=1", "30 leader=-1", "40 leader=1", "60 isr=1,2")
    (finding,) = windows_of(history, offsets_table([]), ClusterFacts("c", brokers, elr_levels(False, (38, True))))
    assert finding["verdict"] == "undetermined"


@pytest.mark.parametrize("other", [{"topic_id": "U" * 22}, {"partition": 1}])
@pytest.mark.parametrize("mine", [0, 1])
def test_evidence_of_another_topic_id_or_partition(mine: int, other: dict[str, Any]) -> None:
    shown = LOST.split("; ")
    rows = evidence(shown[mine]) + evidence(shown[1 - mine], **other)
    assert [f["verdict"] for f in windows_of(partition(), offsets_table(rows), cluster())] == ["possible"]


@pytest.mark.parametrize(("time", "expected"), [("50", "proven"), ("80", "possible")])
def test_without_a_known_end_of_the_log_the_last_record_is_it(time: str, expected: str) -> None:
    rows = rows_of(f"25 b1 hw=150 e0@0; {time} b2 isr=1 leo=60")
    assert [f["verdict"] for f in windows_of(partition(), offsets_table(rows), cluster())] == [expected]


@pytest.mark.parametrize("value", [5_000, 80])
def test_a_file_of_a_directory_that_is_no_longer_in_log_dirs_says_nothing(value: int) -> None:
    """A new disk took its place. The old one is still mounted, and has a high watermark of an earlier topic."""
    rows = rows_of("25 b1 hw=80 e0@0; 50 b2 hw=80 e0@0 e2@80")
    old = [{**row, "path": "25/b1/old/replication_offset", "high_watermark": value} for row in rows[:2]]
    old = [row for row in old if row["source"] == "replication_offset"]
    known = cluster(log_end_ms=ms(10_000))
    one = {b: [replace(s, log_dirs=["d"]) for s in own] for b, own in known.brokers.states.items()}
    (window,) = windows_of(partition(), offsets_table([*rows, *old]), replace(known, brokers=BrokerTimeline(one)))
    assert (window["verdict"], window["high_watermark_min"]) == ("possible", 80)


def test_a_file_with_a_line_missing_gives_no_exact_log_end() -> None:
    rows = [r for r in rows_of(LOST) if r["leader_epoch"] != 0]
    (finding,) = windows_of(partition(), offsets_table(rows), cluster())
    assert (finding["verdict"], finding["loss_min"], finding["first_lost_offset"]) == ("proven", 70, None)


# Predictions.

SEEN = f"{UNCLEAN}; {ALIVE}; 25 b1 hw=150 leo=150 e0@0; 50 b2 hw=80 e0@0 e2@80"


def policies(story: str) -> dict[str, Row]:
    """What each policy does at the judged election."""
    *known, _, judged = inputs(f"{USUAL}; {story}")
    found = detect(*known).counterfactuals.to_pylist()
    return {row["policy"].removeprefix("unclean_recovery_"): row for row in found if row["offset"] == judged}


def test_policies_are_asked_about_every_window() -> None:
    story = f"{SEEN}; 31 fence 1; 35 b2 leo=80 e0@0; 36 b3 leo=100 e0@0"
    rows = policies(story)
    assert {p: (r["outcome"], r["leader"], r["differs"], r["loss_min"]) for p, r in rows.items()} == {
        "aggressive": ("elected", 3, True, 50),
        "balanced": ("waits", None, None, None),
        "all_replicas": ("elected", 1, True, 0),
        "none": ("waits", None, None, None),
        "last_known_leader": ("waits", None, None, None),
    }
    finding = window(f"{USUAL}; {story}")
    assert (finding["would_be_leader"], finding["policy"]) == (1, "unclean_recovery_all_replicas")
    assert "Prediction:" in finding["explanation"]


@pytest.mark.parametrize(
    ("shown", "policy", "expected"),
    [
        # A log that may have grown since it was seen bounds nothing from below.
        ("31 fence 1; 26 b2 leo=80 e0@0; 27 b3 leo=100 e0@0", "aggressive", {"leader": 3, "loss_min": 0}),
        # A sight without an epoch hides no earlier one that tells it.
        ("31 fence 1; 35 b2 leo=80 e0@0; 36 b3 leo=100 e0@0", "aggressive", {"leader": 3, "log_end_offset": 100}),
        (
            "31 fence 1; 35 b2 leo=80 e0@0; 36 b3 leo=100 e0@0; 38 b3 leo=101",
            "aggressive",
            {"leader": 3, "log_end_offset": 100},
        ),
        # The last leader may go on writing without knowing better.
        (
            "35 b1 leo=120 e0@0; 36 b2 leo=80 e0@0; 36 b3 leo=70 e0@0",
            "all_replicas",
            {"leader": 1, "log_end_offset": 120, "loss_min": 0},
        ),
        # The recorded leader has the finding's bounds.
        ("31 fence 1; 31 fence 3; 35 b2 leo=80 e0@0", "aggressive", {"leader": 2, "loss_min": 70, "differs": False}),
        # A log that goes on from the last leader's is bounded from above.
        (
            "31 fence 1; 31 fence 2; 28.5 b1 isr=1 under=1 leo=150; 36 b3 leo=100 e0@0",
            "aggressive",
            {"leader": 3, "loss_max": 50},
        ),
    ],
)
def test_what_a_policy_would_have_done(shown: str, policy: str, expected: Row) -> None:
    row = policies(f"{SEEN}; {shown}")[policy]
    assert {name: row[name] for name in expected} == expected


def test_only_a_log_that_goes_on_from_the_last_leaders_is_bounded_from_above() -> None:
    older = UNCLEAN.replace("leader=1;", "leader=1 epoch=3;", 1)
    shown = "28.5 b1 hw=150 isr=1 under=1 leo=150 e0@0; 36 b3 leo=100 e0@0; 50 b2 hw=80 e0@0 e2@80"
    row = policies(f"{older}; {ALIVE}; 31 fence 1; 31 fence 2; {shown}")["aggressive"]
    assert (row["leader"], row["loss_max"]) == (3, None)


@pytest.mark.parametrize(
    ("more", "most"), [("", None), ("; 22 b3 e0@0 e1@90", 0), ("; 24 b3 heads=99:100/1", 0)], ids=str
)
def test_a_log_end_may_be_from_before_the_follower_truncated_for_the_epoch_that_its_file_shows(
    more: str, most: int | None
) -> None:
    """Broker 3 had 100 offsets, then 90, and then some of those of broker 1, which led from 90 on."""
    history = (
        "10 isr=1,2,3 leader=2; 20 isr=1,3 leader=1; 25 isr=1; 30 isr= elr=1 leader=-1; 40 isr=2 leader=2 recovering"
    )
    shown = "28.5 b1 hw=98 isr=1 under=1 leo=100 e0@0 e1@90; 23 b3 leo=100 e0@0 e1@90; 50 b2 e0@0 e3@80"
    row = policies(f"{history}; {ALIVE}; 31 fence 1; 31 fence 2; {shown}{more}")["aggressive"]
    assert (row["leader"], row["loss_max"]) == (3, most)


@pytest.mark.parametrize(
    ("brokers", "most"), [(ALIVE, 0), ("1 register 1 a; 2 unfence 1; 201 fence 1", None)], ids=["ran on", "killed"]
)
def test_a_log_whose_broker_stopped_since_it_was_seen_is_not_bounded_from_above(brokers: str, most: int | None) -> None:
    """Broker 1 was killed at 200, when it was last seen at 100: what it did not flush is gone when it comes back."""
    history = "10 isr=1,2,3; 20 isr=1 elr=2; 200 isr= elr=1,2 lke=1 leader=-1; 210 isr=3 elr= leader=3 recovering"
    shown = "15 b1 hw=4 leo=4 e0@0; 16 b2 leo=3 e0@0; 17 b3 leo=3 e0@0; 100 b1 hw=3 isr=1 under=1 leo=4 e0@0"
    row = policies(f"{history}; {brokers}; {shown}; judged 210; log-end 300")["all_replicas"]
    assert (row["outcome"], row["loss_max"]) == ("elected", most)


# The whole.


def test_findings_ids_are_stable_and_differ_by_place() -> None:
    again = ("100 isr= elr=2 leader=-1", "110 isr=3 elr= leader=3 recovering", "120 isr=2,3")
    both = together(states(*UNCLEAN.split("; "), *again), partition(1))
    found = [detect(both, offsets_table([]), cluster(name)).findings.to_pylist() for name in ("c", "c", "d")]
    first, second, other = ([f["finding_id"] for f in rows] for rows in found)
    assert first == second
    assert len(set(first)) == len(first)
    assert sum(f["kind"] == "hwm_regression" for f in found[0]) == 3
    assert not set(other) & set(first)


def test_partitions_do_not_share_evidence_or_lineage() -> None:
    rows = rows_of(LOST) + rows_of("25 b1 hw=90; 50 b2 e0@0 e2@85", partition=1)
    found = windows_of(together(partition(), partition(1)), offsets_table(rows), cluster())
    assert [(f["partition"], f["verdict"], f["loss_min"]) for f in found] == [(0, "proven", 70), (1, "proven", 5)]


def test_no_history_no_findings() -> None:
    empty = detect(states(), offsets_table(rows_of(LOST)), cluster())
    assert (len(empty.findings), len(empty.elections), len(empty.counterfactuals)) == (0, 0, 0)
    assert empty.findings.schema == FINDINGS


def test_more_than_64_replicas() -> None:
    many = ",".join(str(b) for b in range(1, 71))
    history = f"10 replicas={many} isr={many}; 20 isr=1; 30 isr= elr=1 leader=-1; 40 isr=70 elr= leader=70"
    brokers = "; ".join(up(1, 70, at=0))
    found = window(f"{USUAL}; {history}; {brokers}; 25 b1 hw=150 e0@0; 50 b70 e0@0 e2@80")
    assert (found["verdict"], found["loss_min"]) == ("proven", 70)


# The reason, as data.


def test_the_reason_is_data_and_the_prose_is_made_of_it() -> None:
    finding = window(f"{USUAL}; {UNCLEAN}; {ALIVE}; {LOST}")
    said = statements(finding)
    assert (said["elected"]["brokers"], said["elected"]["offset"]) == ([2], 40)
    assert (said["high_watermark_at_least"]["value"], said["lost_at_least"]["value"]) == (150, 70)
    natures = {"outsider": "fact", "high_watermark_at_least": "bound", "lost_open": "bound", "clocks": "assumption"}
    assert {code: said[code]["nature"] for code in natures} == natures
    assert prose(finding["reason"]) == finding["explanation"]
    assert "Proven: at least 70 acknowledged offsets are gone" in finding["explanation"]
    assert (finding["severity"], finding["recorded_leader"]) == ("critical", 2)
    assert (finding["start_offset"], finding["end_offset"]) == (30, 60)


@pytest.mark.parametrize(
    ("topic", "meanings"),
    [("__consumer_offsets", ["consumer_offsets"]), ("__transaction_state", ["transaction_state"]), ("t", [])],
)
def test_kafkas_own_topics_are_called_out(topic: str, meanings: list[str]) -> None:
    rows = offsets_table(rows_of("50 b2 e0@0 e2@80", topic=topic))
    (finding,) = windows_of(states(*UNCLEAN.split("; "), topic=topic), rows, cluster(log_end_ms=ms(100)))
    assert [s["code"] for s in finding["reason"] if s["nature"] == "meaning"] == meanings
    assert finding["severity"] == ("high" if meanings else "medium")
