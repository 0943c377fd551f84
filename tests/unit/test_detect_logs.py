"""Verdicts of real captures in which nodes' own logs and boot ids were copied, compared with what was truly lost."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from replay.bucket import detect
from replay.cluster.state import ClusterState
from tests.support.detection import cluster_of, events_of, windows, with_topic_ids
from tests.support.paths import capture, captured_file
from tests.support.pure import Decoded, decode, replayed

Row = dict[str, Any]

# (topic, partition) -> (offsets below the high watermark that were lost, first of them), as measured.
LOST: dict[str, dict[tuple[str, int], tuple[int, int]]] = {
    "logs-3.9.1": {("led", 0): (30, 20)},
    "logs-4.0.2": {("led", 0): (30, 20)},
    "logs-4.1.1": {("led", 0): (30, 20)},
    "logs-unclean": {("ledger", 0): (70, 80), ("ledger", 2): (70, 80), ("audit", 1): (30, 80), ("legacy", 0): (30, 50)},
    "logs-churn": {("t1", 2): (12, 15), ("t5", 4): (21, 0)},
    # Three acknowledged records, from 57 on, and a few more that were acknowledged by the leader alone.
    "logs-session": {("pair", 0): (3, 57), ("pair", 3): (3, 57)},
}
# (decided windows, all windows) without and with logs and boot ids.
DECIDED = {
    "logs-3.9.1": (0, 3, 3),
    "logs-4.0.2": (0, 3, 3),
    "logs-4.1.1": (0, 3, 3),
    "logs-unclean": (7, 11, 11),
    "logs-churn": (17, 19, 20),
    # A lone leader was killed, lost its end and was elected again: nothing shows what it had promised.
    "logs-session": (0, 0, 2),
}


@cache
def played(name: str) -> tuple[Decoded, pa.Table, ClusterState]:
    decoded = decode(capture(name))
    history, state = replayed(name)
    return decoded, history.table, state


@cache
def found(name: str) -> pa.Table:
    decoded, history, state = played(name)
    events, cluster = events_of(decoded, state, history), cluster_of(decoded, state, history=history)
    return detect(history, with_topic_ids(decoded.offsets, history), cluster, None, events).findings


@cache
def judged(name: str) -> list[Row]:
    return windows(found(name))


def judged_without_logs(name: str) -> list[Row]:
    """Nor boot ids."""
    decoded, history, state = played(name)
    cluster = replace(cluster_of(decoded, state), boots={})
    return windows(detect(history, with_topic_ids(decoded.offsets, history), cluster).findings)


@pytest.mark.parametrize("name", LOST)
def test_no_verdict_is_wrong(name: str) -> None:
    for window in judged(name):
        lost, first = LOST[name].get((window["topic"], window["partition"]), (0, None))
        if window["verdict"] == "proven":
            assert 0 < window["loss_min"] <= lost
            assert window["first_lost_offset"] in (None, first)
            assert window["loss_max"] is None or window["loss_max"] >= lost
    lossless = {(w["topic"], w["partition"]) for w in judged(name)} - {
        (w["topic"], w["partition"]) for w in judged(name) if w["verdict"] != "excluded"
    }
    assert not lossless & set(LOST[name])


@pytest.mark.parametrize("name", LOST)
def test_no_line_contradicts_a_log_that_is_as_it_was_written(name: str) -> None:
    assert "log_line_mismatch" not in found(name)["kind"].to_pylist()


@pytest.mark.parametrize("name", LOST)
def test_the_share_of_decided_windows(name: str) -> None:
    rows_of = judged_without_logs(name), judged(name)
    counts = [sum(w["verdict"] in ("proven", "excluded") for w in rows) for rows in rows_of]
    assert (*counts, len(judged(name))) == DECIDED[name]


def test_logs_bound_a_loss_exactly() -> None:
    exact = {
        (name, w["topic"], w["partition"]): (w["loss_min"], w["loss_max"], w["first_lost_offset"])
        for name in ("logs-unclean", "logs-churn")
        for w in judged(name)
        if w["loss_max"] and w["loss_min"] == w["loss_max"]
    }
    assert exact == {("logs-unclean", "audit", 1): (30, 30, 80), ("logs-churn", "t5", 4): (21, 21, 0)}


@pytest.mark.parametrize("name", ["logs-4.0.2", "logs-unclean", "logs-churn"])
def test_evidence_points_at_the_line(name: str) -> None:
    cited = 0
    for window in judged(name):
        for row in window["evidence"]:
            if row["path"].endswith(".log") and "/logs/" in f"/{row['path']}":
                line = captured_file(name, row["path"])[row["position"] :].split(b"\n", 1)[0].decode()
                assert str(row["value"]) in line
                cited += 1
    assert cited >= 3
