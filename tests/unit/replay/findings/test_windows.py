"""Detection on real captures of clusters that were broken on purpose, against what was measured while it was done."""

from __future__ import annotations

import hashlib
import tarfile
from base64 import urlsafe_b64decode
from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from replay.bucket import Detected, detect
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.state import ClusterState
from replay.partitions.elections import RISKY
from tests.support.detection import cluster_of
from tests.support.paths import capture
from tests.support.pure import history_of
from tests.unit.test_oracle import decoded

Row = dict[str, Any]

CAPTURES = ["unclean", "elr", "churn", "diverge"]

# (topic, partition) -> (acknowledged offsets that were lost, the first of them)
LOST = {
    "unclean": {("ledger", 0): (70, 80), ("ledger", 2): (70, 80), ("audit", 1): (30, 100)},
    "elr": {},
    "churn": {("t2", 6): (6, 15)},
    "diverge": {},
}


@cache
def inputs(name: str) -> tuple[pa.Table, pa.Table, ClusterState]:
    """History, offsets with topic ids, cluster state. A topic name that several topics had is left without an id."""
    history, state = history_of(decoded(name))
    ids = defaultdict(set)
    for row in history.table.select(["topic", "topic_id"]).to_pylist():
        ids[row["topic"]].add(row["topic_id"])
    rows = decoded(name).offsets.to_pylist()
    for row in rows:
        if row["topic_id"] is None and len(ids[row["topic"]]) == 1:
            (row["topic_id"],) = ids[row["topic"]]
    return history.table, pa.Table.from_pylist(rows, schema=decoded(name).offsets.schema), state


def run(name: str, error_ms: int = 0) -> Detected:
    history, offsets, state = inputs(name)
    return detect(history, offsets, cluster_of(decoded(name), state, error_ms))


@cache
def detected(name: str) -> Detected:
    return run(name)


def proven(found: Detected) -> dict[tuple[str, int], Row]:
    rows = [f for f in found.findings.to_pylist() if (f["kind"], f["verdict"]) == ("hwm_regression", "proven")]
    return {(f["topic"], f["partition"]): f for f in rows}


@pytest.mark.parametrize("name", CAPTURES)
def test_loss_bounds_hold_what_was_measured(name: str) -> None:
    found = proven(detected(name))
    assert set(found) == set(LOST[name])
    for place, (lost, first) in LOST[name].items():
        finding = found[place]
        assert finding["loss_min"] <= lost
        assert finding["loss_max"] is None or finding["loss_max"] >= lost
        assert finding["first_lost_offset"] in (None, first)
        assert finding["high_watermark_min"] - finding["log_end_max"] == finding["loss_min"]
        stated = {s["code"]: s["value"] for s in finding["reason"]}
        assert finding["clock_error_ms"] == stated["clocks"]


@pytest.mark.parametrize("name", CAPTURES)
def test_every_election_in_a_window_has_a_finding_and_nothing_else(name: str) -> None:
    findings = [f for f in detected(name).findings.to_pylist() if f["kind"] == "hwm_regression"]
    places = [(f["topic_id"], f["partition"], f["election_offset"]) for f in findings]
    assert len(set(places)) == len(places)
    elections = {(e["topic_id"], e["partition"], e["offset"]): e for e in detected(name).elections.to_pylist()}
    assert all(elections[p]["leader"] >= 0 for p in places)
    risky = {p for p, e in elections.items() if e["cause"] in RISKY}
    assert bool(risky) == (name in ("unclean", "churn"))
    assert risky <= set(places)
    for finding in findings:
        assert finding["start_offset"] <= finding["election_offset"]
        assert finding["end_offset"] is None or finding["end_offset"] >= finding["election_offset"]


@pytest.mark.parametrize("name", CAPTURES)
def test_uncleanly_elected_leaders_are_recovering(name: str) -> None:
    for row in detected(name).elections.to_pylist():
        if row["cause"] in RISKY:
            assert row["leader_recovery_state"] == "RECOVERING"


def test_unclean_recovery_would_have_picked_the_longest_log() -> None:
    found = proven(detected("unclean"))
    picks = {place: (f["recorded_leader"], f["would_be_leader"]) for place, f in found.items()}
    assert picks == {("ledger", 0): (1, 3), ("ledger", 2): (1, 3), ("audit", 1): (2, 3)}


@pytest.mark.parametrize("name", CAPTURES)
def test_again_gives_the_same_findings(name: str) -> None:
    again = run(name)
    assert again.findings.to_pylist() == detected(name).findings.to_pylist()
    assert again.counterfactuals.to_pylist() == detected(name).counterfactuals.to_pylist()


@pytest.mark.parametrize("name", ["unclean", "churn"])
def test_a_larger_clock_error_never_proves_more(name: str) -> None:
    proofs = [set(proven(run(name, error_ms))) for error_ms in (0, 2_000, 20_000, 10_000_000)]
    assert all(after <= before for before, after in pairwise(proofs))
    assert proofs[-1] == set()


@cache
def members(name: str) -> dict[str, bytes]:
    with tarfile.open(capture(name)) as archive:
        files = ((m.name, archive.extractfile(m)) for m in archive.getmembers() if m.isfile())
        return {path: handle.read() for path, handle in files if handle}


def bytes_of(name: str, row: Row) -> bytes:
    (data,) = [d for path, d in members(name).items() if path == row["path"] or path.endswith(f"/{row['path']}")]
    assert hashlib.sha256(data).hexdigest() == row["sha256"]
    return data[row["position"] :]


@pytest.mark.parametrize("name", ["unclean", "churn"])
def test_evidence_points_at_the_bytes_that_say_so(name: str) -> None:
    checked = set()
    for finding in proven(detected(name)).values():
        for row in finding["evidence"]:
            data = bytes_of(name, row)
            line = data.split(b"\n", 1)[0].decode("utf-8", "replace")
            if row["source"] == "partition_history":
                assert urlsafe_b64decode(f"{finding['topic_id']}==") in data[:128]
            elif row["source"] == "leader_epoch":
                assert line == f"{row['leader_epoch']} {row['value']}"
            elif row["source"] == "replication_offset":
                assert line == f"{finding['topic']} {finding['partition']} {row['value']}"
            else:
                assert f'topic="{finding["topic"]}"' in line
                assert float(line.rsplit(" ", 1)[1]) == row["value"]
            checked.add((row["source"], row["role"]))
    roles = {"high_watermark_floor", "leader_log_end", "window_start", "state_before", "election", "replica_last_seen"}
    assert roles <= {role for _, role in checked}
    assert {"partition_history", "leader_epoch", "replication_offset", "jmx_exporter"} == {s for s, _ in checked}


def test_without_any_broker_records_nobody_is_a_candidate() -> None:
    history, offsets, state = inputs("unclean")
    cluster = replace(cluster_of(decoded("unclean"), state), brokers=BrokerTimeline())
    found = detect(history, offsets, cluster)
    # Whose file it was, and which process wrote a line, is not known without them.
    assert proven(found) == {}
    assert {tuple(e["candidates"]) for e in found.elections.to_pylist()} == {()}
