"""Keys of several columns as numbers: equal numbers for equal keys, and only for these."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality.columns import Rows, numbers, places, repeated, unknown

KEY = ("offset", "epoch", "name")
_INT64 = st.integers(min_value=-(2**63), max_value=2**63 - 1)
_keys = st.tuples(
    st.none() | st.integers(0, 3) | _INT64,
    st.none() | st.sampled_from([-(2**63), -1, 0, 2**31, 2**63 - 1]),
    st.none() | st.sampled_from(["", "a", "b"]),
)


def _rows(keys: list[tuple[Any, ...]], chunk: int) -> Rows:
    """The keys as a table in chunks of so many rows."""
    types = (pa.int64(), pa.int64(), pa.string())
    parts = [keys[at : at + chunk] for at in range(0, len(keys), chunk)]
    columns = [
        pa.chunked_array([pa.array([key[place] for key in part], kind) for part in parts], kind)
        for place, kind in enumerate(types)
    ]
    return Rows(pa.table(columns, names=list(KEY)))


@given(st.lists(_keys, max_size=12), st.lists(_keys, max_size=12), st.integers(1, 5))
def test_keys_are_found_as_python_finds_them(own: list[Any], others: list[Any], chunk: int) -> None:
    rows, known = _rows(own, chunk), _rows(others, chunk)
    assert repeated(rows, KEY).tolist() == [key in own[:at] for at, key in enumerate(own)]
    assert unknown(rows, KEY, (known, KEY)).tolist() == [key not in others for key in own]
    assert places(rows, KEY, known).tolist() == [others.index(key) if key in others else -1 for key in own]


@pytest.mark.parametrize("far", [2**31, 2**63 - 1])
def test_numbers_that_are_far_apart_and_many_columns_do_not_overflow(far: int) -> None:
    values = [0, far, None, 0, far, None, far - 1]
    (found,) = numbers([pa.chunked_array([pa.array(values, pa.int64())])] * 5)
    assert [found[at] == found[at + 3] for at in range(3)] == [True] * 3
    assert len(set(found.tolist())) == 4
    assert found.min() >= 0
