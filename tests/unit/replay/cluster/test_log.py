"""Branches, commitment, transactions and replayable stretches of the metadata log."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.cluster.branches import COMMITTED, UNCOMMITTED, Holders, Point, branches, commit_states, surviving
from replay.cluster.log import Hole, LogRange, Problem, in_runs, replayable_runs, transactions
from tests.support.window_table import lines_of
from tests.unit.test_oracle import decoded

VOTERS = frozenset({3000, 3001, 3002})


def held_by(*nodes: list[int]) -> Holders:
    """nodes: of each batch."""
    return Holders.of_column(pa.chunked_array([nodes], pa.list_(pa.int32())))


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def columns(batches: list[str]) -> tuple[list[Any], Holders]:
    """Epoch, base offset, last offset and holders of batches, "1 0-4 3000,3001" each."""
    words = [batch.replace("-", " ").split() for batch in batches]
    return [np.array([int(row[n]) for row in words]) for n in range(3)], held_by(*(numbers(row[3]) for row in words))


# Batches by epoch and base offset, and which are kept (+).
KEPT = """\
a later epoch cuts off what it overwrites: 1 0; 1 5; 1 9; 3 9; 3 12 -> ++-++
order of batches does not matter and epochs may be skipped: 7 9; 1 9; 4 20; 1 0 -> +--+
an epoch that wrote nothing further on keeps everything: 1 0; 2 4; 3 8 -> +++
"""


@pytest.mark.parametrize(("batches", "expected"), lines_of(KEPT))
def test_batches_that_survive(batches: list[str], expected: str) -> None:
    epoch, base = np.array([batch.split() for batch in batches], dtype=np.int64).T
    assert "".join("+" if kept else "-" for kept in surviving(epoch, base)) == expected


def test_no_batches() -> None:
    assert surviving(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []


def test_two_controllers_diverge_in_a_real_capture() -> None:
    """Node 3001 was cut off as the leader of epoch 1 and wrote offsets 46 to 51, which the others replaced in epoch
    3."""
    batches = decoded("diverge").batches
    epoch = np.array([b["epoch"] for b in batches])
    base = np.array([b["base_offset"] for b in batches])
    keep = surviving(epoch, base)
    lost = [b for b, k in zip(batches, keep.tolist(), strict=True) if not k]
    assert {b["epoch"] for b in lost} == {1}
    assert {tuple(b["nodes"]) for b in lost} == {(3001,)}
    assert min(b["base_offset"] for b in lost) == 46
    assert max(b["last_offset"] for b in lost) == 51
    live = sorted((b["base_offset"], b["last_offset"]) for b, k in zip(batches, keep.tolist(), strict=True) if k)
    assert all(after[0] == before[1] + 1 for before, after in pairwise(live))
    last = np.array([b["last_offset"] for b in batches])
    states = commit_states(epoch, base, last, held_by(*(b["nodes"] for b in batches)), VOTERS).to_pylist()
    assert {s for s, k in zip(states, keep.tolist(), strict=True) if not k} == {UNCOMMITTED}
    assert COMMITTED in states


# Batches, points of which something is known (offset/epoch@holders), and what is known of each batch.
COMMITS = """\
a majority commits everything up to its last batch: 1 0-4 3000; 1 5-9 3000,3001;
    1 10-11 3000 -> committed committed unknown
holders that are no voters do not count: 1 0-4 3000,1,2,4 -> unknown
a majority holds it, and yet the missing voter may hold a later epoch's log that replaces it (Raft, figure 8):
    1 0-4 3000,3001; 2 5-6 3000 -> unknown unknown
with every voter's log at hand an earlier epoch counts: 1 0-4 3000,3001,3002; 1 5-6 3000,3001;
    2 7-7 3000 -> committed committed unknown
a snapshot proves commitment: no voters; point 5/1; 1 0-4 3000,3001,3002; 1 5-9 3000,3001,3002 -> committed unknown
an unknown quorum proves nothing: no voters; 1 0-4 3000,3001,3002; 1 5-9 3000,3001,3002 -> unknown unknown
a point says nothing of a log that may have been replaced before it: point 20/3; 1 0-9 3001;
    3 20-29 3000 -> unknown unknown
nor of one node's log that was not captured up to there: point 20/3; 1 0-9 3000; 3 20-29 3000 -> unknown unknown
a node that holds the snapshot has the log before it: point 20/3@3001; 1 0-9 3001; 1 10-19 3001 -> committed committed
another node that holds it says nothing: point 20/3@3000; 1 0-9 3001; 1 10-19 3001 -> unknown unknown
a high watermark of a later epoch does not reach a log without that epoch: point 155/3; 1 0-51 3001 -> unknown
a cut off batch is uncommitted whoever holds it: 1 0-4 3000,3001; 1 5-6 3000,3001;
    2 5-5 3002 -> committed uncommitted unknown
"""


@pytest.mark.parametrize(("lines", "expected"), lines_of(COMMITS))
def test_what_is_committed(lines: list[str], expected: str) -> None:
    points = []
    for line in (line for line in lines if line.startswith("point ")):
        place, _, holder = line.removeprefix("point ").partition("@")
        points.append(Point(*map(int, place.split("/")), frozenset(numbers(holder) if holder else [])))
    shown, holders = columns([line for line in lines if line[0].isdigit()])
    voters = frozenset[int]() if "no voters" in lines else VOTERS
    assert commit_states(*shown, holders, voters, tuple(points)).to_pylist() == expected.split()


# Markers, and the offsets below 20 that do not count.
TRANSACTIONS = """\
ended transactions count and aborted ones do not: 2 BEGIN; 5 END; 8 BEGIN; 10 ABORT -> 8,9,10
a transaction that the log ends in is not applied: 17 BEGIN -> 17,18,19 open_transaction@17
a nested begin drops the open transaction only: 2 BEGIN; 5 BEGIN; 7 END -> 2,3,4 nested_transaction@5
a stray end is reported and drops nothing: 3 END -> stray_transaction_end@3
so is a stray abort: 3 ABORT -> stray_transaction_end@3
"""


@pytest.mark.parametrize(("markers", "expected"), lines_of(TRANSACTIONS))
def test_transactions(markers: list[str], expected: str) -> None:
    rows = [(int(offset), f"{what}_TRANSACTION_RECORD") for offset, what in (line.split() for line in markers)]
    resolved = transactions(rows, [LogRange(0, 20, None)])
    offsets = np.arange(20)
    dropped = [",".join(map(str, offsets[~resolved.visible(offsets)]))]
    assert [word for word in dropped if word] + shown(resolved.problems) == expected.split()


def shown(problems: list[Problem]) -> list[str]:
    return [f"{problem.kind}@{problem.offset}" for problem in problems]


# Stretches of batches, snapshots, records that cannot be applied (hole), and the runs (start-end, the snapshot's end).
RUNS = """\
a log from the start needs no snapshot: 0-99 -> 0-100
it uses none inside: 0-99; snapshot 50 -> 0-100
it uses the bootstrap snapshot: 0-99; snapshot 0; snapshot 50 -> 0-100/0
a late start replays from the first snapshot: 40-99; snapshot 40; snapshot 80 -> 40-100/40 unknown_prefix@0
a late start replays from the first snapshot inside: 40-99; snapshot 60; snapshot 80 -> 60-100/60 unknown_prefix@0
a late start without a snapshot gives nothing: 40-99 -> no_snapshot@40
nor with one before it: 40-99; snapshot 30 -> no_snapshot@40
behind a gap state is known again from the next snapshot: 0-49; 60-99; snapshot 20;
    snapshot 70 -> 0-50 70-100/70 offset_gap@50 unknown_prefix@50
a gap without a snapshot behind it: 0-49; 60-99; snapshot 20 -> 0-50 offset_gap@50 no_snapshot@60
a snapshot newer than the log is a state of its own: 0-49; snapshot 90 -> 0-50 90-90/90 unobserved@50
so is one without a log: snapshot 90 -> 90-90/90 unobserved@0
a snapshot before a stretch that cannot be replayed is no state to go on from: 0-49; 60-99;
    snapshot 55 -> 0-50 offset_gap@50 no_snapshot@60
a snapshot at the log's end is not newer: 0-49; snapshot 50 -> 0-50
a record that cannot be applied ends what is known: 0-99; hole 40 -> 0-40 unreadable_record@40 no_snapshot@41
a snapshot behind it makes the state known again: 0-99; hole 40;
    snapshot 60 -> 0-40 60-100/60 unreadable_record@40 unknown_prefix@40
two records that cannot be applied: 0-99; hole 40; hole 41;
    snapshot 42 -> 0-40 42-100/42 unreadable_record@40 unreadable_record@41 unknown_prefix@41
the last record may be the one: 0-99; hole 99 -> 0-99 unreadable_record@99
"""


@pytest.mark.parametrize(("lines", "expected"), lines_of(RUNS))
def test_replayable_runs(lines: list[str], expected: str) -> None:
    base, last = [], []
    for first, final in (map(int, line.split("-")) for line in lines if line[0].isdigit()):
        middle = (first + final) // 2
        base += [first, middle + 1]
        last += [middle, final]
    of = {word: [int(line.split()[1]) for line in lines if line.startswith(word)] for word in ("snapshot", "hole")}
    found, problems = replayable_runs(
        np.array(base, dtype=np.int64),
        np.array(last, dtype=np.int64),
        [(end, 1) for end in of["snapshot"]],
        [Hole(offset, 1, "not known") for offset in of["hole"]],
    )
    runs = [f"{r.start}-{r.end}" + ("" if r.snapshot is None else f"/{r.snapshot[0]}") for r in found]
    assert runs + shown(problems) == expected.split()


def test_offsets_in_runs() -> None:
    assert in_runs(np.array([0, 9, 10, 19, 20]), [LogRange(0, 10, None), LogRange(15, 20, (15, 1))]).tolist() == [
        True,
        True,
        False,
        True,
        False,
    ]


def test_problems_say_what_to_expect() -> None:
    (problem,) = replayable_runs(np.array([40]), np.array([50]), [])[1]
    assert problem == Problem("no_snapshot", 40, "offsets 40 to 50 follow no captured snapshot: their state is unknown")


# Batches of nodes 1, 2 and 3, and the branches: epoch@offset, nodes, batches by number.
PARTING = """\
logs part at the end of the last epoch that both have: 1 0-45 1,2,3; 1 46-49 2; 1 50-51 2; 3 46-60 1,3 -> 1@46 2 1,2
a suffix of an epoch of its own parts in the epoch before: 1 0-45 1,2; 2 46-49 2; 3 46-60 1 -> 1@46 2 1
two nodes that were cut off at different times have a branch each: 1 0-9 1,2,3; 1 10-12 1; 2 10-19 2,3; 2 20-22 2;
    3 20-29 3 -> 1@10 1 1 2@20 2 3
where the log before was not captured the point has no epoch: 1 46-49 2; 3 46-60 1 -> -1@46 2 0
"""


@pytest.mark.parametrize(("batches", "expected"), lines_of(PARTING))
def test_where_logs_part(batches: list[str], expected: str) -> None:
    (epoch, base, last), holders = columns(batches)
    found = branches(epoch, base, last, holders)
    parts = ((f"{b.epoch}@{b.offset}", ",".join(map(str, b.nodes)), ",".join(map(str, b.batches))) for b in found)
    assert " ".join(word for part in parts for word in part) == expected
