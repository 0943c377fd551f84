"""Rows that come file by file are one table, in their order, and what a file says once costs next to nothing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence import tables
from evidence.offsets.columns import ENCODED, OffsetColumns
from tests.unit.evidence.offsets.support import read

Row = dict[str, Any]

VALUES = {
    "topic": st.sampled_from([None, "a", "b", "größe"]),
    "partition": st.one_of(st.none(), st.integers(0, (1 << 31) - 1)),
    "high_watermark": st.one_of(st.none(), st.integers(0, (1 << 63) - 1)),
    "broker_id": st.one_of(st.none(), st.integers(0, 9)),
    "path": st.one_of(st.none(), st.text("xyz/", max_size=3)),
}


def files(given_: list[str]) -> st.SearchStrategy[tuple[Row, list[Row]]]:
    """(what is the same in every row of a file, the rows) with columns `given_` in the rows."""
    rest = {name: values for name, values in VALUES.items() if name not in given_}
    rows = st.lists(st.fixed_dictionaries({name: VALUES[name] for name in given_}), max_size=5)
    return st.tuples(st.fixed_dictionaries({}, optional=rest), rows)


@settings(max_examples=80, deadline=None, database=None)
@given(
    st.lists(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, unique=True).flatmap(files), max_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.integers(1, 12),
)
def test_rows_and_columns_in_any_mixture_are_the_same_table(
    given_: list[tuple[Row, list[Row]]], as_columns: list[bool], chunk_rows: int
) -> None:
    made = OffsetColumns(chunk_rows)
    for (same, rows), is_columns in zip(given_, as_columns, strict=False):
        if is_columns:
            names = [field for field in ENCODED if rows and field.name in rows[0]]
            made.add_columns(same, pa.RecordBatch.from_pylist(rows, schema=pa.schema(names)))
        else:
            made.add_rows({**same, **row} for row in rows)
    found = made.table()
    expected = pa.Table.from_pylist(
        [{**same, **row} for same, rows in given_ for row in rows], schema=tables.LOG_END_OFFSETS
    )
    found.validate(full=True)
    assert found.schema == ENCODED
    assert found.cast(tables.LOG_END_OFFSETS).equals(expected)
    assert max((len(chunk) for chunk in found.to_batches()), default=0) < chunk_rows + max(chunk_rows, 5)


def checkpoint(count: int, broker: int = 1) -> bytes:
    lines = "".join(f"topic-{i // 50} {i % 50} {i * 7 + broker}\n" for i in range(count))
    return f"0\n{count}\n{lines}".encode()


def export(count: int) -> bytes:
    ends = ("kafka_log_Log_LogEndOffset", "kafka_log_Log_LogStartOffset")
    return "".join(
        f'{ends[i % 3 == 2]}{{partition="{i % 50}",topic="topic-{i // 50}",}} {float(i)}\n' for i in range(count)
    ).encode()


def test_a_value_costs_some_70_bytes_whatever_its_files_name_is(tmp_path: Path) -> None:
    folder = f"{'long-' * 40}/snapshots/1795221569450/broker-{{}}/"
    texts = {folder.format(b) + "replication-offset-checkpoint": checkpoint(5000, b) for b in range(4)}
    texts |= {folder.format(b) + "jmx.prom": export(5000) for b in range(4)}
    rows = read(tmp_path / "capture", texts)[0].log_end_offsets
    assert len(rows) == 40_000
    assert rows.get_total_buffer_size() / len(rows) < 100
