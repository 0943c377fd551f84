"""Where two logs part, compared with logs whose records are known; transactions; sides of a high watermark."""

from hypothesis import given
from hypothesis import strategies as st

from replay.offsets.parted_logs import (
    ABORTED,
    ABOVE,
    BELOW,
    COMMITTED,
    MAYBE,
    OPEN_TRANSACTION,
    TransactionMarkers,
    Watermark,
    election_that_parted,
    epoch_at,
    part_by_epochs,
    watermark,
)

# What leaders do: (broker, records it writes, who follows it to its end), each in an epoch of its own.
TERMS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.lists(st.integers(0, 2), max_size=2)), max_size=8)


def _starts(log: list[int], led: dict[int, int]) -> list[tuple[int, int]]:
    found = {epoch: at for at, epoch in reversed(list(enumerate(log)))}
    return sorted((found | led).items())


@given(terms=TERMS)
def test_the_parting_is_the_first_offset_with_another_record(terms: list[tuple[int, int, list[int]]]) -> None:
    logs: list[list[int]] = [[], [], []]
    led: list[dict[int, int]] = [{}, {}, {}]
    for epoch, (leader, count, followers) in enumerate(terms):
        led[leader][epoch] = len(logs[leader])
        logs[leader] += [epoch] * count
        for follower in set(followers) - {leader}:
            logs[follower] = list(logs[leader])
            led[follower] = dict(led[leader])
    for ours, mine in zip(logs, led, strict=True):
        for theirs, other in zip(logs, led, strict=True):
            same = next((at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
            expected = min(len(ours), len(theirs)) if same is None else same
            # A line of an epoch counts while the log reaches it: a follower truncates its lines with its log.
            lines = [
                _starts(log, {e: at for e, at in of.items() if at <= len(log)})
                for log, of in ((ours, mine), (theirs, other))
            ]
            assert [epoch_at(lines[0], at) for at in range(len(ours))] == ours
            parting, common = part_by_epochs(lines[0], len(ours), lines[1], len(theirs))
            assert parting == (expected if common is not None else 0)
            assert common is not None or expected == 0


def test_a_transaction_ends_with_the_next_marker_of_its_producer() -> None:
    of = TransactionMarkers({7: [(10, COMMITTED), (20, ABORTED)]}, {7: COMMITTED, 8: ABORTED})
    assert [of.of(7, at) for at in (5, 15, 25)] == [COMMITTED, ABORTED, COMMITTED]
    assert (of.of(8, 1), of.of(9, 1)) == (ABORTED, OPEN_TRANSACTION)


def test_sides_of_a_high_watermark() -> None:
    window = {"high_watermark_min": 60, "loss_min": 10, "loss_max": 15}
    known = watermark(window, 50)
    assert known == Watermark(60, 65)
    assert [known.side(at) for at in (59, 60, 64, 65)] == [BELOW, MAYBE, MAYBE, ABOVE]
    assert watermark({**window, "high_watermark_min": None, "loss_max": None}, 50) is None
    assert watermark({**window, "loss_max": None}, 50) == Watermark(60, None)
    # What contradicts itself bounds nothing from above.
    assert watermark({**window, "loss_max": 5}, 50) == Watermark(60, None)


def test_the_election_is_that_of_the_epoch_at_the_parting() -> None:
    elections = [
        {"leader_epoch": epoch, "leader": leader} for epoch, leader in ((1, -1), (2, 1), (3, -1), (4, 2), (5, 3))
    ]
    old, current = [(0, 0), (2, 40)], [(0, 0), (2, 40), (4, 60), (5, 70)]
    assert election_that_parted(elections, old, current, 60) == (elections[3], 60)
    # The log of an earlier leader: the high watermark of the window is that of another log.
    assert election_that_parted(elections, [(0, 0)], current, 60) is None
    assert election_that_parted(elections, old, current, 90) is None
    assert election_that_parted(elections[:2], old, current, 60) is None
