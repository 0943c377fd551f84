"""Replicas whose log or high watermark went back: what shows it, what explains it, and what does not count."""

import tarfile
from functools import cache
from typing import Any

import pytest

from replay.arrow.schemas import FINDINGS, sorted_history
from replay.cluster.facts import ClusterFacts
from replay.controller.transitions import Bucket
from replay.findings.replica_losses import CHECKPOINT_LOST, LOG_TRUNCATION, truncations
from replay.findings.statements import prose
from tests.support.detection import cluster_of, with_topic_ids
from tests.support.detection import statements as said
from tests.support.paths import capture
from tests.support.pure import decode, replayed
from tests.support.scenario import elr_levels, evidence, offsets_table, running, states, up
from tests.support.window_table import Entry, beside, entries, holds, inputs

Row = dict[str, Any]
ALL_UP = "; ".join(up(1, 2, 3, at=0))
USUAL = "elr; session 1000; interval 5000"
WORDS = {LOG_TRUNCATION: "cut", CHECKPOINT_LOST: "mark"}


@pytest.mark.parametrize("entry", entries(beside(__file__), USUAL), ids=lambda entry: entry.name)
def test_findings(entry: Entry) -> None:
    for story, answer in entry.cases:
        history, rows, cluster, *_ = inputs(story)
        found = truncations(Bucket(history, cluster), rows).findings.to_pylist()
        parts = [] if answer == "nothing" else answer.split("; ")
        expected = [part for part in parts if part.split()[0] in WORDS.values()]
        assert len(found) == len(expected), story
        for row, part in zip(found, expected, strict=True):
            kind = f"{WORDS[row['kind']]} {row['verdict']} {row['severity']}"
            values = f"{kind} {row['value_before']}..{row['value_after']}"
            assert part in (kind, values, f"{kind} at {row['election_offset']}"), (story, values)
        assert [part for part in parts if part not in expected and not holds(found[0], part)] == [], story


def of_broker_2(rows: list[Row]) -> list[Row]:
    """What is found beside a history in which nothing happens."""
    history = states("10 isr=1,2,3 leader=1", "900 isr=1,2,3")
    return truncations(Bucket(history, ClusterFacts("c", running(1, 2, 3), elr_levels())), offsets_table(rows)).findings


def test_a_log_that_ends_lower_without_an_election_lost_records_by_itself() -> None:
    brokers = ALL_UP.replace("0 ", "1 ") + "; 35 register 2 new"
    story = f"{USUAL}; log-end ?; {brokers}; 10 isr=1,2,3 leader=1; 900 isr=1,2,3; 20 b2 leo=50 e0@0"
    history, rows, cluster, *_ = inputs(f"{story}; 30 b2 leo=100; 40 b2 leo=80")
    (finding,) = truncations(Bucket(history, cluster), rows).findings.to_pylist()
    assert (finding["kind"], finding["verdict"], finding["severity"]) == (LOG_TRUNCATION, "proven", "high")
    assert (finding["start_offset"], finding["end_offset"], finding["election_offset"]) == (10, 10, None)
    assert finding["loss_min"] is finding["loss_max"] is finding["unacked_max"] is None
    told = said(finding)
    assert (told["log_end_before"]["value"], told["log_end_before"]["brokers"]) == (100, [2])
    assert (told["log_end_after"]["value"], told["tail_lost"]["value"]) == (80, 20)
    assert told["log_end_before"]["text"] == "1970-01-01 00:00:30.000 UTC"
    assert told["restarted_between"]["offset"] == 35
    assert {"no_election_explains", "lost_by_itself", "one_copy_less"} <= set(told)
    assert finding["explanation"] == prose(finding["reason"])
    assert [(e["role"], e["value"], e["offset"]) for e in finding["evidence"]] == [
        ("before", 100, None),
        ("after", 80, None),
        ("state_before", None, 10),
        ("state_after", None, 10),
    ]
    assert (finding["broker_id"], finding["value_before"], finding["value_after"]) == (2, 100, 80)


def test_rows_of_nobody_or_of_another_source_say_nothing() -> None:
    """A high watermark of another kind of source is none of a checkpoint file's."""
    rows = evidence("20 b2 leo=50 e0@0", "30 b2 leo=100", "40 b2 leo=80")
    nobody = [{**row, "broker_id": None} if row["log_end_offset"] == 80 else row for row in rows]
    marks = [{**row, "source": f"other{row['high_watermark']}"} for row in evidence("80 b2 hw=100", "90 b2 hw=0")]
    for given in (nobody, marks, []):
        assert of_broker_2(given).equals(FINDINGS.empty_table())


@pytest.mark.parametrize("behind", [{20, 60}, {100}])
def test_the_longer_one_counts_while_a_replica_moves_between_directories(behind: set[int]) -> None:
    shown = ("30 b2 leo=100", "40 b2 leo=100", "40 b2 leo=20", "50 b2 leo=60", "50 b2 leo=100")
    rows = evidence("20 b2 leo=50 e0@0", *shown)
    assert len(of_broker_2([{**r, "path": "z"} if r["log_end_offset"] in behind else r for r in rows])) == 0


@cache
def real(name: str) -> list[Row]:
    decoded = decode(capture(name))
    history, state = replayed(name)
    table = sorted_history(history.table)
    offsets = with_topic_ids(decoded.offsets, table)
    return truncations(Bucket(table, cluster_of(decoded, state)), offsets).findings.to_pylist()


# (topic, partition, broker) -> (lost at least, severity), as it follows from what was done to the clusters.
# unclean: broker 3 led ledger-0 and -2 to 150, was killed, and broker 1 was elected with 80. audit-1 had 130; broker
# 2's copy lost its tail on disk while it was down, it was elected with 100, and brokers 3 and 4 cut theirs back.
# churn: broker 1 led t2-6 to 21, was killed, and broker 2 was elected with 15. Other tails that were cut on disk were
# fetched anew before anybody looked. elr and diverge: nobody lost anything.
CUT = {
    "unclean": {
        ("audit", 1, 2): (20, "high"),
        ("audit", 1, 3): (30, "low"),
        ("audit", 1, 4): (30, "low"),
        ("ledger", 0, 3): (70, "low"),
        ("ledger", 2, 3): (70, "low"),
    },
    "elr": {},
    "churn": {("t2", 6, 1): (6, "low")},
    "diverge": {},
}


@pytest.mark.parametrize("name", CUT)
def test_real_clusters_lost_the_tails_that_they_lost(name: str) -> None:
    rows = real(name)
    assert {(r["kind"], r["verdict"]) for r in rows} <= {(LOG_TRUNCATION, "proven")}
    assert {
        (r["topic"], r["partition"], r["evidence"][0]["broker_id"]): (said(r)["tail_lost"]["value"], r["severity"])
        for r in rows
    } == CUT[name]
    assert len({r["finding_id"] for r in rows}) == len(rows)


@pytest.mark.parametrize("name", ["unclean", "churn"])
def test_evidence_points_at_the_bytes_that_hold_the_value(name: str) -> None:
    with tarfile.open(capture(name)) as tar:
        checked = 0
        for row in (e for finding in real(name) for e in finding["evidence"] if e["source"] != "partition_history"):
            data = tar.extractfile(f"{name}/{row['path']}").read()
            line = data[row["position"] :].split(b"\n", 1)[0]
            assert float(line.split()[-1]) == row["value"], (row, line)
            checked += 1
        assert checked >= 2 * len(CUT[name])
