"""Branches, commitment, transactions and replayable stretches of the metadata log."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.cluster.branches import COMMITTED, UNCOMMITTED, Holders, Point, branches, commit_states, surviving
from replay.cluster.log import Hole, LogRange, Problem, in_runs, replayable_runs, transactions
from tests.support.window_table import beside, lines_of
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


@pytest.mark.parametrize(("batches", "expected"), lines_of(beside(__file__, "kept")))
def test_batches_that_survive(batches: list[str], expected: str) -> None:
    words = [batch.replace("-", " ").split() for batch in batches]
    rows = np.array([(row[0], row[1], row[-1]) for row in words], dtype=np.int64)
    assert "".join("+" if kept else "-" for kept in surviving(*rows.T)) == expected


def test_no_batches() -> None:
    assert surviving(*np.zeros((3, 0), dtype=np.int64)).tolist() == []


def test_two_controllers_diverge_in_a_real_capture() -> None:
    """Node 3001 was cut off as the leader of epoch 1 and wrote offsets 46 to 51, which the others replaced in epoch
    3."""
    batches = decoded("diverge").batches
    epoch = np.array([b["epoch"] for b in batches])
    base = np.array([b["base_offset"] for b in batches])
    last = np.array([b["last_offset"] for b in batches])
    keep = surviving(epoch, base, last)
    lost = [b for b, k in zip(batches, keep.tolist(), strict=True) if not k]
    assert {b["epoch"] for b in lost} == {1}
    assert {tuple(b["nodes"]) for b in lost} == {(3001,)}
    assert min(b["base_offset"] for b in lost) == 46
    assert max(b["last_offset"] for b in lost) == 51
    live = sorted((b["base_offset"], b["last_offset"]) for b, k in zip(batches, keep.tolist(), strict=True) if k)
    assert all(after[0] == before[1] + 1 for before, after in pairwise(live))
    states = commit_states(epoch, base, last, held_by(*(b["nodes"] for b in batches)), VOTERS).to_pylist()
    assert {s for s, k in zip(states, keep.tolist(), strict=True) if not k} == {UNCOMMITTED}
    assert COMMITTED in states


@pytest.mark.parametrize(("lines", "expected"), lines_of(beside(__file__, "commits")))
def test_what_is_committed(lines: list[str], expected: str) -> None:
    points = []
    for line in (line for line in lines if line.startswith("point ")):
        place, _, holder = line.removeprefix("point ").partition("@")
        points.append(Point(*map(int, place.split("/")), frozenset(numbers(holder) if holder else [])))
    shown, holders = columns([line for line in lines if line[0].isdigit()])
    voters = frozenset[int]() if "no voters" in lines else VOTERS
    assert commit_states(*shown, holders, voters, tuple(points)).to_pylist() == expected.split()


@pytest.mark.parametrize(("markers", "expected"), lines_of(beside(__file__, "transactions")))
def test_transactions(markers: list[str], expected: str) -> None:
    rows = [(int(offset), f"{what.upper()}_TRANSACTION_RECORD") for offset, what in (line.split() for line in markers)]
    resolved = transactions(rows, [LogRange(0, 20, None)])
    offsets = np.arange(20)
    dropped = [",".join(map(str, offsets[~resolved.visible(offsets)]))]
    assert [word for word in dropped if word] + shown(resolved.problems) == expected.split()


def shown(problems: list[Problem]) -> list[str]:
    return [f"{problem.kind}@{problem.offset}" for problem in problems]


@pytest.mark.parametrize(("lines", "expected"), lines_of(beside(__file__, "runs")))
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


@pytest.mark.parametrize(("batches", "expected"), lines_of(beside(__file__, "parting")))
def test_where_logs_part(batches: list[str], expected: str) -> None:
    (epoch, base, last), holders = columns(batches)
    found = branches(epoch, base, last, holders)
    parts = ((f"{b.epoch}@{b.offset}", ",".join(map(str, b.nodes)), ",".join(map(str, b.batches))) for b in found)
    assert " ".join(word for part in parts for word in part) == expected
