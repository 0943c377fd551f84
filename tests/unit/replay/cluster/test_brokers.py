"""Broker sessions: registration, fencing, controlled shutdown, restarts."""

import pytest

from replay.cluster.brokers import broker_timeline
from tests.support.records import change, record, register
from tests.support.scenario import ms, sessions


def test_a_broker_is_active_from_unfencing_to_fencing() -> None:
    timeline = sessions("1 register 1 a", "3 unfence 1", "8 fence 1", "9 unfence 1")
    assert [timeline.active(1, o) for o in range(11)] == [False] * 3 + [True] * 5 + [False] + [True] * 2


def test_controlled_shutdown_and_unregistration_end_it() -> None:
    assert not sessions("1 register 1 a", "3 unfence 1", "8 shutdown 1").active(1, 8)
    timeline = sessions("1 register 1 a", "3 unfence 1", "8 unregister 1")
    assert (timeline.active(1, 7), timeline.active(1, 8)) == (True, False)


def test_an_unknown_broker_is_not_active() -> None:
    assert not sessions("1 register 1 a").active(7, 9)


def test_the_old_fence_records() -> None:
    timeline = broker_timeline(
        [
            register(1, "a"),
            record(2, "UNFENCE_BROKER_RECORD", id=1, epoch=1),
            record(5, "FENCE_BROKER_RECORD", id=1, epoch=1),
        ]
    )
    assert [timeline.active(1, o) for o in (1, 2, 5)] == [False, True, False]


def test_a_change_that_says_nothing_changes_nothing() -> None:
    quiet = change(7, 1)
    timeline = broker_timeline([register(1, "a", fenced=False), quiet])
    assert timeline.active(1, 7)


def test_a_batch_is_one_event() -> None:
    """A controller's batch is applied as a whole: the election in it already sees the broker unfenced."""
    unfence = change(6, 1, batch=4, fenced=-1)
    timeline = broker_timeline([register(1, "a"), unfence])
    assert (timeline.active(1, 3), timeline.active(1, 4)) == (False, True)


def test_a_wrong_broker_epoch_is_reported_and_not_applied() -> None:
    stale = change(5, 77, fenced=1)
    timeline = broker_timeline([register(1, "a", fenced=False), stale])
    assert timeline.active(1, 9)
    assert [(p.kind, p.offset) for p in timeline.problems] == [("broker_epoch_mismatch", 5)]


def test_changes_of_a_broker_that_is_not_registered_are_reported() -> None:
    fence = record(2, "FENCE_BROKER_RECORD", id=1, epoch=1)
    gone = record(6, "UNREGISTER_BROKER_RECORD", brokerId=1, brokerEpoch=4)
    timeline = broker_timeline([fence, register(4, "a"), gone, {**gone, "offset": 7}])
    assert [(p.kind, p.offset) for p in timeline.problems] == [("unknown_broker", 2), ("unknown_broker", 7)]


def test_restarts_are_new_incarnations_within_the_offsets() -> None:
    timeline = sessions("1 register 1 a", "2 unfence 1", "5 register 1 b", "9 register 1 b", "12 register 1 c")
    assert [s.offset for s in timeline.restarts(1, -1)] == [1, 5, 12]
    assert [s.offset for s in timeline.restarts(1, 1, 11)] == [5]
    assert timeline.restarts(1, 4, 5)
    assert not timeline.restarts(1, 5, 11)
    assert not timeline.restarts(2, -1, 99)


def test_registering_again_after_unregistering_is_a_restart() -> None:
    timeline = sessions("1 register 1 a", "4 unregister 1", "6 register 1 a")
    assert timeline.restarts(1, 1, 6)
    assert not timeline.restarts(1, 1, 5)


def test_steady_means_active_in_one_incarnation_all_the_time() -> None:
    timeline = sessions(
        "1 register 1 a", "2 unfence 1", "20 fence 1", "21 unfence 1", "30 register 1 b", "31 unfence 1", "50 fence 1"
    )
    assert timeline.steady(1, ms(2), ms(19))
    assert not timeline.steady(1, ms(1), ms(19))
    assert not timeline.steady(1, ms(10), ms(20))
    assert not timeline.steady(1, ms(25), ms(35))
    assert timeline.steady(1, ms(31), ms(49))
    assert not timeline.steady(1, ms(0), ms(0))
    assert not timeline.steady(9, ms(31), ms(49))
    assert {(s.broker_id, s.offset) for s in timeline.latest()} == {(1, 50)}


@pytest.mark.parametrize(("later", "kept"), [("60 register 1 b d1,d2", True), ("60 register 1 b d1", False)])
def test_a_process_may_have_started_without_a_directory_long_before_it_registered(later: str, kept: bool) -> None:
    """The session before it was valid until it was fenced at 50."""
    timeline = sessions("1 register 1 a d1,d2", "2 unfence 1", "50 fence 1", later, "70 register 1 c d2")
    assert timeline.kept_log_dirs(1, ms(10), ms(40)) == kept
