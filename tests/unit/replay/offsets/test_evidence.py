"""What single pieces of evidence bound."""

from __future__ import annotations

import random
from typing import Any

import pytest

from replay.cluster.facts import Clock
from replay.offsets.evidence import PROPAGATION_MS, index_rows, last_seen, log_end_ceiling
from tests.support.scenario import UNCERTAINTY_MS, evidence, ms

EXACT = Clock(0)


def row(at_ms: int | None, uncertainty_ms: int | None = UNCERTAINTY_MS) -> dict[str, Any]:
    return {"captured_at_ms": at_ms, "uncertainty_ms": uncertainty_ms}


@pytest.mark.parametrize(
    ("error_ms", "time_ms", "before", "after"),
    [
        (0, 10_500, False, False),
        (0, 10_501, True, False),
        (0, 10_000, False, False),
        (0, 9_999, False, True),
        (300, 10_800, False, False),
        (300, 10_801, True, False),
        (300, 9_700, False, False),
        (300, 9_699, False, True),
    ],
)
def test_order_holds_for_the_whole_interval_and_both_clocks(
    error_ms: int, time_ms: int, before: bool, after: bool
) -> None:
    clock = Clock(error_ms)
    assert clock.surely_before(row(10_000), time_ms) == before
    assert clock.surely_after(row(10_000), time_ms) == after


def test_a_value_without_a_time_is_neither_before_nor_after() -> None:
    assert not EXACT.surely_before(row(None, None), 10**15)
    assert not EXACT.surely_after(row(None, None), 0)


def test_an_unknown_uncertainty_is_none() -> None:
    assert EXACT.surely_before(row(10_000, None), 10_001)


# The winner's log end: at most.


def ceiling(*lines: str, term: tuple[float, float] = (10, 100), error_ms: int = 0) -> int | None:
    span = (ms(term[0]) + PROPAGATION_MS, ms(term[1]))
    return log_end_ceiling(index_rows(evidence(*lines)), 3, 4, span, lambda _: True, Clock(error_ms)).value


@pytest.mark.parametrize("shown", ["e0@0 e4@", "isr=1 leo="])
def test_what_may_be_of_a_later_process_is_no_bound(shown: str) -> None:
    """It may have less than the process that was elected."""
    rows = index_rows(evidence(f"20 b3 {shown}80", f"30 b3 {shown}60"))
    early = log_end_ceiling(rows, 3, 4, (0, ms(100)), lambda row: row["captured_at_ms"] < ms(25), EXACT)
    assert early.value == 80


def test_own_line_first_then_the_least_of_everything() -> None:
    assert ceiling("20 b3 e0@0 e4@80", "20 b2 e0@0 e4@70", "30 b3 isr=3 leo=60") == 80
    assert ceiling("20 b2 e0@0 e4@90", "20 b1 e0@0 e4@85") == 85
    assert ceiling("20 b2 e0@0 e4@90", "30 b3 isr=3 leo=88") == 88


def test_an_own_line_that_deletion_moved_up_is_still_a_bound() -> None:
    assert ceiling("20 b3 e4@95", "20 b2 e0@0 e4@90") == 90
    assert ceiling("20 b3 e4@95") == 95


def test_lines_of_other_epochs_say_nothing() -> None:
    assert ceiling("20 b3 e0@0 e3@70 e5@90") is None


@pytest.mark.parametrize(
    ("time", "counts"),
    [(9, False), (10.9, False), (11, False), (11.001, True), (99.4, True), (99.5, False), (101, False)],
)
def test_its_log_end_counts_only_while_it_surely_led(time: float, counts: bool) -> None:
    assert PROPAGATION_MS == 1_000
    assert ceiling(f"{time} b3 isr=3 leo=88") == (88 if counts else None)


def test_clock_error_shrinks_the_term() -> None:
    assert ceiling("13 b3 isr=3 leo=88", error_ms=1_000) == 88
    assert ceiling("13 b3 isr=3 leo=88", error_ms=2_000) is None
    assert ceiling("98 b3 isr=3 leo=88", error_ms=1_500) is None


def test_a_log_end_of_zero_and_other_replicas_log_ends_are_no_bound() -> None:
    assert ceiling("20 b3 isr=3 leo=0", "20 b2 leo=5") is None
    assert ceiling("20 b3 isr=3 leo=0", "30 b3 isr=3 leo=88") == 88


# A replica as it was last seen.


def seen(*lines: str, before: float = 50, error_ms: int = 0) -> tuple[int, int | None] | None:
    replica = last_seen(index_rows(evidence(*lines)), 2, ms(before), Clock(error_ms))
    return None if replica is None else (replica.log_end_offset, replica.last_written_leader_epoch)


def test_the_last_log_end_with_the_epoch_of_the_same_round() -> None:
    assert seen("10 b2 leo=50 e0@0", "20 b2 leo=80 e0@0 e2@60", "60 b2 leo=90 e0@0 e2@60 e3@80") == (80, 2)
    assert seen("20 b2 leo=80 e0@0", "49.5 b2 leo=85 e0@0") == (80, 0)
    assert seen("20 b2 leo=80", "40 b2 leo=85", error_ms=10_000) == (80, None)


def test_an_epoch_that_was_opened_and_not_written_is_not_the_last_written() -> None:
    assert seen("20 b2 leo=80 e0@0 e2@80") == (80, 0)


def test_epochs_of_another_round_are_not_mixed_in() -> None:
    assert seen("10 b2 e0@0 e2@40", "20 b2 leo=80") == (80, None)


def test_a_source_that_names_the_last_written_epoch_needs_no_other() -> None:
    """GetReplicaLogInfo and a replica's own log say it themselves."""
    rows = [{**row, "last_written_leader_epoch": 7} for row in evidence("20 b2 leo=80")]
    found = last_seen(index_rows([*rows, *evidence("20 b2 e0@0 e2@60")]), 2, ms(50), Clock(0))
    assert found is not None
    assert (found.log_end_offset, found.last_written_leader_epoch) == (80, 7)


def test_a_tool_that_names_no_broker_is_no_replica() -> None:
    """kafka-get-offsets prints the leader's high watermark, whoever that was."""
    rows = [{**row, "broker_id": None} for row in evidence("20 b2 hw=80")]
    assert index_rows(rows).high_watermarks == []


def test_never_seen() -> None:
    assert seen("20 b1 leo=80", "60 b2 leo=90", "? b2 leo=95") is None


def test_the_index_does_not_depend_on_the_order_of_rows() -> None:
    rows = evidence("10 b2 leo=50 hw=40 e0@0 e1@3", "10 b1 leo=50 hw=45 e0@0", "? b1 e0@0 e1@4", "12 b2 leo=60 e0@0")
    mixed = list(rows)
    random.Random(3).shuffle(mixed)
    assert index_rows(mixed) == index_rows(rows)
