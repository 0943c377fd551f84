"""Branches, commitment, transactions and replayable stretches of the metadata log."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from replay.cluster.branches import COMMITTED, UNCOMMITTED, UNKNOWN, Holders, Point, branches, commit_states, surviving
from replay.cluster.log import Hole, LogRange, Problem, in_runs, replayable_runs, transactions
from tests.unit.test_oracle import decoded

VOTERS = frozenset({3000, 3001, 3002})


def held_by(*nodes: list[int]) -> Holders:
    """nodes: of each batch."""
    return Holders.of_column(pa.chunked_array([nodes], pa.list_(pa.int32())))


def kept(*batches: tuple[int, int]) -> list[bool]:
    epoch, base = (np.array(c, dtype=np.int64) for c in zip(*batches, strict=True))
    return surviving(epoch, base).tolist()


def commits(
    *batches: tuple[int, int, int, list[int]], voters: frozenset[int] = VOTERS, points: tuple[Point, ...] = ()
) -> list[str]:
    """batches: (epoch, base offset, last offset, holders)."""
    epoch, base, last, holders = zip(*batches, strict=True)
    columns = (np.array(column) for column in (epoch, base, last))
    return commit_states(*columns, held_by(*holders), voters, points).to_pylist()


def test_a_later_epoch_cuts_off_what_it_overwrites() -> None:
    assert kept((1, 0), (1, 5), (1, 9), (3, 9), (3, 12)) == [True, True, False, True, True]


def test_order_of_batches_does_not_matter_and_epochs_may_be_skipped() -> None:
    assert kept((7, 9), (1, 9), (4, 20), (1, 0)) == [True, False, False, True]


def test_an_epoch_that_wrote_nothing_further_on_keeps_everything() -> None:
    assert kept((1, 0), (2, 4), (3, 8)) == [True, True, True]
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


def test_a_majority_commits_everything_up_to_its_last_batch() -> None:
    assert commits((1, 0, 4, [3000]), (1, 5, 9, [3000, 3001]), (1, 10, 11, [3000])) == [COMMITTED, COMMITTED, UNKNOWN]


def test_holders_that_are_no_voters_do_not_count() -> None:
    assert commits((1, 0, 4, [3000, 1, 2, 4])) == [UNKNOWN]


def test_an_entry_of_an_earlier_epoch_is_not_committed_by_counting_its_holders_alone() -> None:
    """Raft, figure 8: a majority holds it, and yet the missing voter may hold a later epoch's log that replaces it."""
    assert commits((1, 0, 4, [3000, 3001]), (2, 5, 6, [3000])) == [UNKNOWN, UNKNOWN]


def test_with_every_voters_log_at_hand_an_earlier_epoch_counts() -> None:
    batches = ((1, 0, 4, [3000, 3001, 3002]), (1, 5, 6, [3000, 3001]), (2, 7, 7, [3000]))
    assert commits(*batches) == [COMMITTED, COMMITTED, UNKNOWN]


def test_a_snapshot_proves_commitment_and_an_unknown_quorum_proves_nothing() -> None:
    batches = ((1, 0, 4, [3000, 3001, 3002]), (1, 5, 9, [3000, 3001, 3002]))
    assert commits(*batches, voters=frozenset(), points=(Point(5, 1),)) == [COMMITTED, UNKNOWN]
    assert commits(*batches, voters=frozenset()) == [UNKNOWN, UNKNOWN]


def test_a_point_says_nothing_of_a_log_that_does_not_lead_to_it() -> None:
    """Offsets 5 to 9 of epoch 1 may be the suffix that epoch 3 replaced: the log between was not captured."""
    batches = ((1, 0, 9, [3001]), (3, 20, 29, [3000]))
    assert commits(*batches, points=(Point(20, 3),)) == [UNKNOWN, UNKNOWN]
    same_node = ((1, 0, 9, [3000]), (3, 20, 29, [3000]))
    assert commits(*same_node, points=(Point(20, 3),)) == [UNKNOWN, UNKNOWN]


def test_a_node_that_holds_the_snapshot_has_the_log_before_it() -> None:
    batches = ((1, 0, 9, [3001]), (1, 10, 19, [3001]))
    assert commits(*batches, points=(Point(20, 3, frozenset({3001})),)) == [COMMITTED, COMMITTED]
    assert commits(*batches, points=(Point(20, 3, frozenset({3000})),)) == [UNKNOWN, UNKNOWN]


def test_a_high_watermark_of_a_later_epoch_does_not_reach_a_log_without_that_epoch() -> None:
    """Only the cut off leader's log was captured; the quorum's tool was asked later."""
    assert commits((1, 0, 51, [3001]), points=(Point(155, 3),)) == [UNKNOWN]


def test_a_cut_off_batch_is_uncommitted_whoever_holds_it() -> None:
    assert commits((1, 0, 4, [3000, 3001]), (1, 5, 6, [3000, 3001]), (2, 5, 5, [3002])) == [
        COMMITTED,
        UNCOMMITTED,
        UNKNOWN,
    ]


BEGIN, END, ABORT = "BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"


def visible(*markers: tuple[int, str], log_end: int = 20) -> tuple[list[int], list[tuple[str, int]]]:
    resolved = transactions(markers, [LogRange(0, log_end, None)])
    offsets = np.arange(log_end)
    return offsets[~resolved.visible(offsets)].tolist(), [(p.kind, p.offset) for p in resolved.problems]


def test_ended_transactions_count_and_aborted_ones_do_not() -> None:
    assert visible((2, BEGIN), (5, END), (8, BEGIN), (10, ABORT)) == ([8, 9, 10], [])


def test_a_transaction_that_the_log_ends_in_is_not_applied() -> None:
    assert visible((17, BEGIN)) == ([17, 18, 19], [("open_transaction", 17)])


def test_a_nested_begin_drops_the_open_transaction_only() -> None:
    assert visible((2, BEGIN), (5, BEGIN), (7, END)) == ([2, 3, 4], [("nested_transaction", 5)])


@pytest.mark.parametrize("kind", [END, ABORT])
def test_a_stray_end_is_reported_and_drops_nothing(kind: str) -> None:
    assert visible((3, kind)) == ([], [("stray_transaction_end", 3)])


def test_no_transactions() -> None:
    assert visible() == ([], [])


def runs(
    *stretches: tuple[int, int], snapshots: list[tuple[int, int]] | None = None
) -> tuple[list[tuple[int, int, int | None]], list[tuple[str, int]]]:
    """stretches: first and last offset of batches, here cut in two each. Gives (start, end, snapshot's end) and
    problems."""
    base, last = [], []
    for first, final in stretches:
        middle = (first + final) // 2
        base += [first, middle + 1]
        last += [middle, final]
    found, problems = replayable_runs(np.array(base, dtype=np.int64), np.array(last, dtype=np.int64), snapshots or [])
    shown = [(r.start, r.end, None if r.snapshot is None else r.snapshot[0]) for r in found]
    return shown, [(p.kind, p.offset) for p in problems]


def test_a_log_from_the_start_needs_no_snapshot() -> None:
    assert runs((0, 99)) == ([(0, 100, None)], [])
    assert runs((0, 99), snapshots=[(50, 1)]) == ([(0, 100, None)], [])


def test_a_log_from_the_start_uses_the_bootstrap_snapshot() -> None:
    assert runs((0, 99), snapshots=[(0, 0), (50, 1)]) == ([(0, 100, 0)], [])


def test_a_late_start_replays_from_the_first_snapshot_inside() -> None:
    assert runs((40, 99), snapshots=[(40, 1), (80, 2)]) == ([(40, 100, 40)], [("unknown_prefix", 0)])
    assert runs((40, 99), snapshots=[(60, 1), (80, 2)]) == ([(60, 100, 60)], [("unknown_prefix", 0)])


def test_a_late_start_without_a_snapshot_gives_nothing() -> None:
    assert runs((40, 99)) == ([], [("no_snapshot", 40)])
    assert runs((40, 99), snapshots=[(30, 1)]) == ([], [("no_snapshot", 40)])


def test_behind_a_gap_state_is_known_again_from_the_next_snapshot() -> None:
    found, problems = runs((0, 49), (60, 99), snapshots=[(20, 1), (70, 1)])
    assert found == [(0, 50, None), (70, 100, 70)]
    assert problems == [("offset_gap", 50), ("unknown_prefix", 50)]


def test_a_gap_without_a_snapshot_behind_it() -> None:
    assert runs((0, 49), (60, 99), snapshots=[(20, 1)]) == ([(0, 50, None)], [("offset_gap", 50), ("no_snapshot", 60)])


def test_a_snapshot_newer_than_the_log_is_a_state_of_its_own() -> None:
    assert runs((0, 49), snapshots=[(90, 3)]) == ([(0, 50, None), (90, 90, 90)], [("unobserved", 50)])
    found, problems = replayable_runs(np.array([], dtype=np.int64), np.array([], dtype=np.int64), [(90, 3)])
    assert (found, [p.kind for p in problems]) == ([LogRange(90, 90, (90, 3))], ["unobserved"])


def test_a_snapshot_between_the_log_and_a_stretch_that_cannot_be_replayed_is_no_state_to_go_on_from() -> None:
    assert runs((0, 49), (60, 99), snapshots=[(55, 1)]) == ([(0, 50, None)], [("offset_gap", 50), ("no_snapshot", 60)])


def test_a_snapshot_at_the_logs_end_is_not_newer() -> None:
    assert runs((0, 49), snapshots=[(50, 1)]) == ([(0, 50, None)], [])


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


def parting(*batches: tuple[int, int, int, list[int]]) -> list[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    epoch, base, last, holders = zip(*batches, strict=True)
    found = branches(np.array(epoch), np.array(base), np.array(last), held_by(*holders))
    return [(b.epoch, b.offset, b.nodes, b.batches) for b in found]


def test_the_point_where_logs_part_is_the_end_of_the_last_epoch_that_both_have() -> None:
    assert parting((1, 0, 45, [1, 2, 3]), (1, 46, 49, [2]), (1, 50, 51, [2]), (3, 46, 60, [1, 3])) == [
        (1, 46, (2,), (1, 2))
    ]


def test_a_suffix_of_an_epoch_of_its_own_parts_in_the_epoch_before() -> None:
    assert parting((1, 0, 45, [1, 2]), (2, 46, 49, [2]), (3, 46, 60, [1])) == [(1, 46, (2,), (1,))]


def test_two_nodes_that_were_cut_off_at_different_times_have_a_branch_each() -> None:
    found = parting((1, 0, 9, [1, 2, 3]), (1, 10, 12, [1]), (2, 10, 19, [2, 3]), (2, 20, 22, [2]), (3, 20, 29, [3]))
    assert found == [(1, 10, (1,), (1,)), (2, 20, (2,), (3,))]


def test_where_the_log_before_was_not_captured_the_point_has_no_epoch() -> None:
    assert parting((1, 46, 49, [2]), (3, 46, 60, [1])) == [(-1, 46, (2,), (0,))]


def holed(end: int, holes: list[int], snapshots: list[tuple[int, int]]) -> tuple[list[tuple[int, int]], list[str]]:
    found, problems = replayable_runs(
        np.array([0]), np.array([end - 1]), snapshots, [Hole(h, 1, "not known") for h in holes]
    )
    return [(r.start, r.end) for r in found], [f"{p.kind}@{p.offset}" for p in problems]


def test_a_record_that_cannot_be_applied_ends_what_is_known() -> None:
    assert holed(100, [40], []) == ([(0, 40)], ["unreadable_record@40", "no_snapshot@41"])


def test_a_snapshot_behind_it_makes_the_state_known_again() -> None:
    assert holed(100, [40], [(60, 1)]) == ([(0, 40), (60, 100)], ["unreadable_record@40", "unknown_prefix@40"])
    assert holed(100, [40, 41], [(42, 1)]) == (
        [(0, 40), (42, 100)],
        ["unreadable_record@40", "unreadable_record@41", "unknown_prefix@41"],
    )


def test_the_last_record_may_be_the_one() -> None:
    assert holed(100, [99], []) == ([(0, 99)], ["unreadable_record@99"])
