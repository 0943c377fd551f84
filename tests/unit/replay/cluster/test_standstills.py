"""When the active controller may have heard late of brokers: it wrote no no-op records, or fenced many brokers."""

import pytest

from replay.cluster.facts import Clock, ClusterFacts, cluster_facts, fall_ms, fencings
from replay.cluster.state import LogShape, log_shape, resolve_cluster
from replay.terms.liveness import broker_sessions
from tests.support.records import batch
from tests.support.scenario import elr_levels, ms, sessions, up

NO_OPS = [500 * number for number in range(30)]
LAST = NO_OPS[-1]


@pytest.mark.parametrize(
    ("times", "epochs", "stood"),
    [
        # The session timeout is 9 s: it is heard of, and fences, 4.4 s late at most.
        ([*NO_OPS, LAST + 20_000, LAST + 20_500], [], [(LAST, LAST + 20_000)]),
        ([*NO_OPS, LAST + 4_000], [], []),
        ([*NO_OPS[:3], 60_000], [], [(NO_OPS[2], 60_000)]),
        # A controller that writes no no-op records may have had nothing to write, or have stood still.
        ([0, 10_000, 20_000], [], [(0, 10_000), (10_000, 20_000)]),
        # Its clock was set back.
        ([0, 500, 1_000, 300, 800, 1_300], [], [(1_000, 300)]),
        # Another one took over.
        ([*NO_OPS, *(LAST + 1_000 + at for at in NO_OPS)], [1] * 30 + [2] * 30, [(LAST, LAST + 1_000)]),
    ],
)
def test_a_controller_that_wrote_nothing_for_long_stood_still(
    times: list[int], epochs: list[int], stood: list[tuple[int, int]]
) -> None:
    state = resolve_cluster(shape_of(times, epochs or [1] * len(times)), [], [], {})
    assert cluster_facts("c", state, Clock(), None).fail_overs == stood


def shape_of(times: list[int], epochs: list[int]) -> LogShape:
    """A log of batches of one record with these times."""
    batches = [
        {**batch(number, number, epoch), "base_timestamp_ms": at}
        for number, (at, epoch) in enumerate(zip(times, epochs, strict=True))
    ]
    return log_shape(batches, [])


@pytest.mark.parametrize(
    ("times", "fell_ms"),
    [([], 0), ([0, 500, 500], 0), ([0, 60_000, 5_000, 4_000, 70_000, 69_000], 56_000), ([1_000, 60_000, 0], 60_000)],
)
def test_a_log_whose_times_go_back_was_written_by_a_wrong_clock(times: list[int], fell_ms: int) -> None:
    assert fall_ms(shape_of(times, [1] * len(times))) == fell_ms


@pytest.mark.parametrize(
    ("fenced", "busy"),
    [
        # 4.4 s late at most, the session timeout being 9 s.
        ([50, 54], []),
        ([50, 54, 58], [(50, 58)]),
        ([50, 55, 60], []),
        ([50, 54, 58, 70, 74, 78], [(50, 58), (70, 78)]),
        ([], []),
    ],
)
def test_brokers_that_are_fenced_one_after_the_other_wait_for_it(
    fenced: list[int], busy: list[tuple[int, int]]
) -> None:
    brokers = sessions(*up(*range(1, 7)), *(f"{at} fence {broker}" for broker, at in enumerate(fenced, 1)))
    assert list(fencings(brokers, 9_000)) == [(ms(first), ms(last)) for first, last in busy]


def test_a_controller_that_takes_over_amid_many_fencings_does_not_hide_that_they_were_late() -> None:
    brokers = sessions(*up(1, 2, at=0), "129 fence 1")
    late, amid = (ms(100), ms(130)), (ms(103), ms(104))
    for fail_overs in ([late], [late, amid]):
        session = broker_sessions(brokers, ms(200), 14_500, fail_overs).by_broker[1][0]
        assert session.alive_until_ms == ms(100) - 14_500


def test_a_clock_that_is_set_back_does_not_hide_a_silence() -> None:
    cluster = ClusterFacts("c", sessions(), elr_levels(), fail_overs=[(ms(50), ms(100)), (ms(120), ms(90))])
    assert cluster.heard_by_ms(ms(95)) == ms(100) + 14_500


def test_between_two_silences_that_are_close_a_broker_need_not_have_been_heard() -> None:
    brokers = sessions(*up(1, 2, at=0), "129 fence 1")
    for first, alive_ms in ((ms(112), ms(100)), (ms(105), ms(120))):
        silent = [(ms(100), first), (ms(120), ms(130))]
        session = broker_sessions(brokers, ms(200), 14_500, silent).by_broker[1][0]
        assert session.alive_until_ms == alive_ms - 14_500
