"""The clock error that the evidence shows: records, or leader epochs, in files that were read before they were made."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.tables import EVIDENCE_FILES, LOG_END_OFFSETS
from jobs.views.in_duckdb import ask
from replay.arrow.schemas import PARTITION_HISTORY
from tests.support.scenario import UNCERTAINTY_MS, evidence, ms, offsets_table, states
from tests.unit.evidence.accounting import FUZZ

T = 1795221569450
FILE_COLUMNS = ("captured_at_ms", "uncertainty_ms", "last_timestamp_ms")
FileTimes = tuple[int | None, int | None, int | None]


def shown(files: list[FileTimes] | None = None, **tables: pa.Table) -> int:
    rows: list[dict[str, Any]] = [dict(zip(FILE_COLUMNS, row, strict=True)) for row in files or ()]
    given = {
        "evidence_files": pa.Table.from_pylist(rows, schema=EVIDENCE_FILES),
        "log_end_offsets": LOG_END_OFFSETS.empty_table(),
        "partition_history": PARTITION_HISTORY.empty_table(),
    }
    return int(ask("detect/clock_error", **given | tables)[0]["least_ms"] or 0)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([], 0),
        ([(T, 5000, T + 5000)], 0),
        ([(T, 5000, T + 5001)], 1),
        ([(T, 5000, T + 90), (T, 0, T + 90), (T, 10, T + 80)], 90),
        ([(None, None, T), (T, None, T + 9), (T, 0, None)], 0),
        ([(T, 0, 1 << 62), (0, 0, -1)], 0),
    ],
)
def test_a_record_that_is_later_than_its_copy_shows_a_clock_error(files: list[FileTimes], expected: int) -> None:
    assert shown(files) == expected


@FUZZ
@given(
    rounds=st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(0, 5000), st.integers(0, 10**6)), min_size=1, max_size=5
    ),
    ahead_ms=st.integers(-100_000, 100_000),
)
def test_the_least_clock_error_never_exceeds_the_real_one(rounds: list[tuple[int, int, int]], ahead_ms: int) -> None:
    """A simulated capture: the controller's clock is ahead; each round reads a log with a last record of some age."""
    files = [(T + at, 5000, T + at + read_after + ahead_ms - age) for at, read_after, age in rounds]
    assert 0 <= shown(files) <= max(0, ahead_ms)


@pytest.mark.parametrize(
    ("history", "line", "seconds"),
    [
        (("10 isr=1,2", "100 isr=2 leader=2"), "50 b1 e0@0 e1@80", 50),
        (("10 isr=1,2", "100 isr=2 leader=2"), "101 b1 e0@0 e1@80", 0),
        (("100 isr=1,2",), "50 b1 e0@0", 50),
        # It was opened before the snapshot; the ISR changed in it after the reading.
        (("10 checkpoint isr=1,2 epoch=5", "100 isr=1"), "50 b1 e0@0 e5@80", 0),
        (("10 isr=1,2", "60 checkpoint leader=2", "100 isr=1"), "50 b1 e0@0 e1@80", 0),
        (("10 checkpoint isr=1,2 epoch=5", "100 isr=1 leader=2"), "50 b1 e0@0 e6@80", 50),
        # Or in ZooKeeper.
        (("100 isr=1,2 epoch=5",), "50 b1 e0@0 e5@80", 0),
    ],
)
def test_only_an_epoch_that_the_log_opens_shows_a_clock_error(
    history: tuple[str, ...], line: str, seconds: int
) -> None:
    found = shown(log_end_offsets=offsets_table(evidence(line)), partition_history=states(*history))
    assert found == max(0, ms(seconds) - UNCERTAINTY_MS)


@pytest.mark.parametrize(
    ("begin", "other", "seconds"),
    [("10", "U", 50), ("10 checkpoint", "U", 0), ("10", "t", 0)],
)
def test_a_line_without_a_topic_id_counts_if_one_topic_alone_has_the_name(begin: str, other: str, seconds: int) -> None:
    histories = [states(f"{begin} isr=1,2", "100 isr=2 leader=2"), states("10 isr=1,2", topic_id="O" * 22, topic=other)]
    lines = offsets_table([{**row, "topic_id": None} for row in evidence("50 b1 e0@0 e1@80")])
    assert shown(log_end_offsets=lines, partition_history=pa.concat_tables(histories)) == max(
        0, ms(seconds) - UNCERTAINTY_MS
    )
