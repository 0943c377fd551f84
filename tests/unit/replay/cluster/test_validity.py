"""A state is never said to hold across a hole in the log."""

import pyarrow as pa
import pytest

from replay.arrow.schemas import PARTITION_HISTORY
from replay.cluster.log import LogRange, clip_validity
from replay.cluster.state import log_shape


def history(*rows: tuple[int, int | None]) -> pa.Table:
    return pa.Table.from_pylist(
        [{"offset": offset, "end_offset": end, "end_timestamp_ms": end} for offset, end in rows],
        schema=PARTITION_HISTORY,
    )


def ends(table: pa.Table) -> list[tuple[int | None, int | None]]:
    return list(zip(table["end_offset"].to_pylist(), table["end_timestamp_ms"].to_pylist(), strict=True))


def test_states_of_a_whole_log_stay_as_they_are() -> None:
    table = history((5, 9), (9, None))
    assert clip_validity(table, [LogRange(0, 20, None)], 20).equals(table)


@pytest.mark.parametrize("end", [99, None])
def test_a_state_ends_where_the_hole_begins(end: int | None) -> None:
    runs = [LogRange(0, 50, None), LogRange(80, 120, (80, 1))]
    clipped = clip_validity(history((5, 9), (9, end), (79, 100), (100, None)), runs, 120)
    assert ends(clipped) == [(9, 9), (50, None), (100, 100), (None, None)]


def test_a_log_that_goes_on_without_a_snapshot_ends_every_state() -> None:
    assert ends(clip_validity(history((5, None)), [LogRange(0, 50, None)], 120)) == [(50, None)]


def test_no_state_holds_from_the_logs_end_to_a_newer_snapshot() -> None:
    """A controller's log was copied before its newest snapshot, or its last segment was lost."""
    batch = {"epoch": 1, "base_offset": 0, "last_offset": 49, "crc": 1, "path": "a", "nodes": [1]}
    shape = log_shape([batch], [(80, 1)])
    clipped = clip_validity(history((5, 79), (79, None)), shape.runs, shape.log_end)
    assert ends(clipped) == [(50, None), (None, None)]
