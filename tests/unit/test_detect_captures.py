"""Detection on real captures without Spark: what was lost is proven, what was not is not, and the bytes say so."""

from __future__ import annotations

import tarfile
from collections import defaultdict
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from replay.bucket import Detected, detect
from tests.support.detection import cluster_of
from tests.support.paths import capture
from tests.support.pure import Decoded, decode, history_of

# (topic, partition) -> (lost acknowledged offsets, first of them), as measured when the clusters were broken.
LOST: dict[str, dict[tuple[str, int], tuple[int, int]]] = {
    "unclean": {("ledger", 0): (70, 80), ("ledger", 2): (70, 80), ("audit", 1): (30, 100)},
    "elr": {},
    "churn": {("t2", 6): (6, 15)},
    "diverge": {},
    "unclean-4.4.0": {
        ("ledger", 0): (70, 80),
        ("ledger", 2): (70, 80),
        ("audit", 1): (30, 80),
        ("legacy", 1): (30, 50),
    },
}
# What is shown without the nodes' own logs, where that is less: the last high watermark was read when the leader had
# been killed, alone in the ISR. Another process may have led in its own eyes by then, with a mark that nobody ever had.
SHOWN = {"unclean-4.4.0": {("ledger", 0): 30, ("ledger", 2): 30, ("legacy", 1): 0}}


@cache
def decoded(name: str) -> Decoded:
    return decode(capture(name))


def run(name: str, clock_error_ms: int = 0, keep: str | None = None) -> Detected:
    """Detection with topic ids filled in by name; keep: only the offset rows of this source."""
    given = decoded(name)
    history, state = history_of(given)
    names = defaultdict(set)
    for row in history.table.select(["topic", "topic_id"]).to_pylist():
        names[row["topic"]].add(row["topic_id"])
    rows = []
    for row in given.offsets.to_pylist():
        known = names.get(row["topic"], set())
        topic_id = row["topic_id"] or (next(iter(known)) if len(known) == 1 else None)
        if topic_id and keep in (None, row["source"]):
            rows.append({**row, "topic_id": topic_id})
    offsets = pa.Table.from_pylist(rows, schema=given.offsets.schema)
    return detect(history.table, offsets, cluster_of(given, state, clock_error_ms))


def proven(found: Detected) -> dict[tuple[str, int], dict[str, Any]]:
    return {(f["topic"], f["partition"]): f for f in windows(found) if f["verdict"] == "proven"}


def windows(found: Detected) -> list[dict[str, Any]]:
    return [f for f in found.findings.to_pylist() if f["kind"] == "hwm_regression"]


@pytest.mark.parametrize("name", LOST)
def test_proven_are_exactly_the_partitions_that_lost_records(name: str) -> None:
    found = proven(run(name))
    shown = {place: lost for place, (lost, _) in LOST[name].items()} | SHOWN.get(name, {})
    assert {place: f["loss_min"] for place, f in found.items()} == {place: n for place, n in shown.items() if n}
    for place in found:
        lost, first = LOST[name][place]
        # Where the leader before may have been two processes it is not known what the logs shared.
        assert found[place]["first_lost_offset"] in (None, first)
        assert found[place]["loss_max"] is None or found[place]["loss_max"] >= lost


@pytest.mark.parametrize("name", ["unclean", "churn", "unclean-4.4.0"])
def test_evidence_points_at_the_bytes_that_hold_the_value(name: str) -> None:
    with tarfile.open(capture(name)) as tar:
        checked = 0
        for finding in proven(run(name)).values():
            for row in finding["evidence"]:
                if row["source"] == "partition_history":
                    continue
                data = tar.extractfile(f"{name}/{row['path']}").read()
                line = data[row["position"] :].split(b"\n", 1)[0]
                assert float(line.split()[-1]) == row["value"], (row, line)
                checked += 1
        assert checked >= 2 * len(LOST[name])


@pytest.mark.parametrize("source", ["replication_offset", "leader_epoch"])
def test_nothing_is_proven_from_one_kind_of_evidence_alone(source: str) -> None:
    assert proven(run("unclean", keep=source)) == {}


def test_the_exporter_alone_proves_what_a_leader_had_that_was_alone() -> None:
    """It shows the log end of both, and that the high watermark was the log end of the one."""
    found = proven(run("unclean", keep="jmx_exporter"))
    assert {place: f["loss_min"] for place, f in found.items()} == {("ledger", 0): 70, ("ledger", 2): 70}
    assert all("floor_leader_alone" in {s["code"] for s in f["reason"]} for f in found.values())


def test_clocks_that_may_be_wrong_by_more_than_the_incident_prove_nothing() -> None:
    assert proven(run("unclean", clock_error_ms=3_600_000)) == {}


def test_findings_have_stable_ids() -> None:
    first, second = (run("churn").findings["finding_id"].to_pylist() for _ in range(2))
    assert first == second
    assert len(set(first)) == len(first)


def test_no_finding_mixes_prediction_into_the_verdict() -> None:
    for finding in windows(run("unclean")):
        assert (finding["would_be_leader"] is None) == (finding["policy"] is None)
        assert finding["would_be_leader"] != finding["recorded_leader"]
        if finding["would_be_leader"] is not None:
            assert "Prediction:" in finding["explanation"]
