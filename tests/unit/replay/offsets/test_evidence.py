"""What single pieces of evidence bound."""

import random
from typing import Any

import pytest

from replay.cluster.facts import Clock
from replay.offsets.evidence import PROPAGATION_MS, index_rows, last_seen, log_end_ceiling
from tests.support.scenario import UNCERTAINTY_MS, evidence, ms
from tests.support.window_table import Entry, beside, entries

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


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_what_is_known_of_a_log(entry: Entry) -> None:
    assert PROPAGATION_MS == 1_000
    for story, answer in entry.cases:
        items = story.split("; ")
        rows = index_rows(evidence(*(item for item in items if item.split()[0] not in ("seen", "error"))))
        clock = Clock(sum(int(item.split()[1]) for item in items if item.startswith("error")))
        if "seen" in items:
            found = last_seen(rows, 2, ms(50), clock)
            shown = "None" if found is None else f"{found.log_end_offset} {found.last_written_leader_epoch}"
        else:
            shown = str(log_end_ceiling(rows, 3, 4, (ms(10) + PROPAGATION_MS, ms(100)), lambda _: True, clock).value)
        assert shown == answer, story


@pytest.mark.parametrize("shown", ["e0@0 e4@", "isr=1 leo="])
def test_what_may_be_of_a_later_process_is_no_bound(shown: str) -> None:
    """It may have less than the process that was elected."""
    rows = index_rows(evidence(f"20 b3 {shown}80", f"30 b3 {shown}60"))
    early = log_end_ceiling(rows, 3, 4, (0, ms(100)), lambda row: row["captured_at_ms"] < ms(25), EXACT)
    assert early.value == 80


def test_a_source_that_names_the_last_written_epoch_needs_no_other() -> None:
    """GetReplicaLogInfo and a replica's own log say it themselves."""
    rows = [{**row, "last_written_leader_epoch": 7} for row in evidence("20 b2 leo=80")]
    found = last_seen(index_rows([*rows, *evidence("20 b2 e0@0 e2@60")]), 2, ms(50), Clock(0))
    assert found is not None
    assert (found.log_end_offset, found.last_written_leader_epoch) == (80, 7)


def test_a_tool_that_names_no_broker_is_no_replica() -> None:
    """kafka-get-offsets prints the leader's high watermark, whoever that was."""
    found = index_rows(evidence("20 any hw=80", "? any hw=90"))
    assert ([row["high_watermark"] for row in found.told], found.high_watermarks) == ([80], [])


def test_the_index_does_not_depend_on_the_order_of_rows() -> None:
    rows = evidence("10 b2 leo=50 hw=40 e0@0 e1@3", "10 b1 leo=50 hw=45 e0@0", "? b1 e0@0 e1@4", "12 b2 leo=60 e0@0")
    mixed = list(rows)
    random.Random(3).shuffle(mixed)
    assert index_rows(mixed) == index_rows(rows)
