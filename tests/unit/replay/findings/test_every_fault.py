"""A real metadata log with faults of its continuity and its snapshots, and which states come of it. What comes of each
fault by itself: tests/unit/replay/cluster (docs/fault_tests.csv).

The log is the bundled capture's (three controllers, snapshots at 80, 162 and 248). Faults are put into what was decoded
from it, so that everything else is as Kafka wrote it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from replay.cluster.log import clip_validity
from replay.findings.faults import rival_snapshots
from tests.support.paths import capture
from tests.support.pure import Decoded, cluster_state, decode, history_of

Row = dict[str, Any]
LAST_SNAPSHOT = 248


@pytest.fixture(scope="module")
def whole() -> Decoded:
    return decode(capture("unclean"))


def without(decoded: Decoded, gone: Callable[[int], bool], **changed: Any) -> Decoded:
    """The log without the batches whose base offset is `gone`."""
    return replace(
        decoded,
        batches=[b for b in decoded.batches if not gone(b["base_offset"])],
        records=[r for r in decoded.records if not gone(r["batch_base_offset"])],
        **changed,
    )


def states(decoded: Decoded) -> list[Row]:
    history, state = history_of(decoded)
    return clip_validity(history.table, state.shape.runs, state.shape.log_end).to_pylist()


def problems(decoded: Decoded) -> list[tuple[str, int]]:
    return [(p.kind, p.offset) for p in cluster_state(decoded).problems]


def without_origin(rows: list[Row]) -> list[Row]:
    dropped = ("capture", "path", "sha256", "position", "batch_base_offset", "origin")
    return [{k: v for k, v in row.items() if k not in dropped} for row in rows]


def test_22_state_is_unknown_from_a_gap_up_to_the_next_snapshot(whole: Decoded) -> None:
    holed = without(whole, lambda base: 100 <= base < 110)
    found = problems(holed)
    gap = next(offset for kind, offset in found if kind == "offset_gap")
    assert 100 <= gap < 110
    rows = states(holed)
    assert not [r for r in rows if gap <= r["offset"] < 161]
    assert all(r["end_offset"] <= gap for r in rows if r["offset"] < gap)
    behind = [r for r in states(whole) if r["offset"] >= 162]
    assert without_origin([r for r in rows if r["offset"] >= 162]) == without_origin(behind)


def test_30_a_log_that_begins_behind_a_snapshot_begins_with_it(whole: Decoded) -> None:
    tail = without(whole, lambda base: base < LAST_SNAPSHOT)
    assert "no_snapshot" not in [kind for kind, _ in problems(tail)]
    # Which controller is active, and so whose static file counts, is not in a snapshot.
    source = "unclean_leader_election_enable_source"
    behind = [[r for r in states(log) if r["offset"] >= LAST_SNAPSHOT] for log in (tail, whole)]
    both = [[{k: v for k, v in r.items() if k != source} for r in without_origin(rows)] for rows in behind]
    assert both[0] == both[1] != []
    assert {r[source] for r in behind[0]} == {"topic", "assumed_default"}


def test_31_a_snapshot_behind_the_logs_end_is_a_jump(whole: Decoded) -> None:
    head = without(whole, lambda base: base >= 170)
    end = head.batches[-1]["last_offset"] + 1
    assert ("unobserved", end) in problems(head)
    rows = states(head)
    assert not [r for r in rows if end <= r["offset"] < LAST_SNAPSHOT - 1]
    known = {(r["topic_id"], r["partition"]) for r in rows if r["offset"] == LAST_SNAPSHOT - 1}
    assert len(known) == len({(r["topic_id"], r["partition"]) for r in states(whole) if r["offset"] < LAST_SNAPSHOT})


def test_29_snapshots_of_one_offset_and_two_epochs_are_told() -> None:
    found = rival_snapshots([(80, 1), (162, 1), (162, 3)])
    assert [(p.kind, p.offset) for p in found] == [("two_snapshots", 162)]
    assert "epochs 1, 3" in found[0].message
