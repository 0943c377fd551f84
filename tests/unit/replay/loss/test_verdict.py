"""Verdicts on small incidents, above all: what must not be called proven, and what must not be called excluded."""

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
from tests.support.window_table import Entry, beside, entries, inputs, lines_of, window

Row = dict[str, Any]

# Each cluster fences a broker a second after it was heard of last.
USUAL = "session 0; elr; log-end 10000; judged 40"


@pytest.mark.parametrize("entry", entries(beside(__file__, "windows"), USUAL), ids=lambda entry: entry.name)
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


@pytest.mark.parametrize(("story", "answer"), lines_of(beside(__file__, "policies")))
def test_what_policies_would_have_done(story: list[str], answer: str) -> None:
    *known, _, judged = inputs("; ".join((USUAL, *story)))
    rows = {row["policy"]: row for row in detect(*known).counterfactuals.to_pylist() if row["offset"] == judged}
    for policy, *values in (part.split() for part in answer.split("; ")):
        row = rows[policy if policy in rows else f"unclean_recovery_{policy}"]
        assert [f"{name}={row[name]}" for name, _, _ in (v.partition("=") for v in values)] == values


def test_a_window_names_the_policy_that_would_have_lost_less() -> None:
    story = f"{UNCLEAN}; {ALIVE}; {LOST.replace('hw=150', 'hw=150 leo=150')}; 31 fence 1; 35 b2 leo=80 e0@0"
    finding = window(f"{USUAL}; {story}; 36 b3 leo=100 e0@0")
    assert (finding["would_be_leader"], finding["policy"]) == (1, "unclean_recovery_all_replicas")
    assert "Prediction:" in finding["explanation"]


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
    assert (len(empty.findings), len(empty.counterfactuals)) == (0, 0)
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
