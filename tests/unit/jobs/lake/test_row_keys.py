"""New and equal rows by key, against the same asked row by row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from jobs.lake.row_keys import matches, new_rows

SCHEMA = pa.schema([("n", pa.int64()), ("name", pa.string()), ("other", pa.int32())])
KEY = ("n", "name")
Row = dict[str, Any]

rows = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.sampled_from([None, -1, 0, 1, (1 << 63) - 1]),
            "name": st.sampled_from([None, "", "a", "b"]),
            "other": st.integers(0, 9),
        }
    ),
    max_size=12,
)


def by_hand(added: list[Row], known: list[Row]) -> list[Row]:
    seen = {tuple(row[k] for k in KEY) for row in known}
    new = []
    for row in added:
        key = tuple(row[k] for k in KEY)
        if key not in seen:
            new.append(row)
            seen.add(key)
    return new


def table(found: list[Row], encoded: bool, chunks: int = 1) -> pa.Table:
    made = pa.Table.from_pylist(found, schema=SCHEMA)
    if encoded:
        made = made.set_column(1, "name", made["name"].dictionary_encode())
    step = max(1, -(-len(made) // chunks))
    return pa.concat_tables([made.slice(at, step) for at in range(0, len(made), step)]) if len(made) else made


@given(added=rows, known=rows, encoded=st.booleans(), chunks=st.integers(1, 3))
def test_new_rows(added: list[Row], known: list[Row], encoded: bool, chunks: int) -> None:
    found = new_rows(table(added, encoded, chunks), table(known, encoded=False), KEY)
    assert found.to_pylist() == by_hand(added, known)


@given(rows=rows, known=rows, encoded=st.booleans(), chunks=st.integers(1, 3))
def test_matches(rows: list[Row], known: list[Row], encoded: bool, chunks: int) -> None:
    """Row by row: a row of `known` with the same key, if there is one. Null equals null."""
    found = matches(table(rows, encoded, chunks), table(known, encoded=False), KEY)
    keys = [tuple(row[k] for k in KEY) for row in known]
    assert len(found) == len(rows)
    for row, at in zip(rows, found.tolist(), strict=True):
        key = tuple(row[k] for k in KEY)
        assert keys[at] == key if key in keys else at == -1
