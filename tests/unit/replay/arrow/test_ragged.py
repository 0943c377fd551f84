"""Lists as matrices and back."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from replay.arrow.ragged import PAD, as_lists, members_of, ragged, sort_order, to_lengths, to_matrix

ids = st.one_of(st.integers(0, 6), st.sampled_from([-7, -1, 10_001, 10_002, 2**31 - 1, -(2**31)]))


def column(rows: list[list[int] | None]) -> pa.Array:
    return pa.array(rows, type=pa.list_(pa.int32()))


@given(st.lists(st.lists(ids, max_size=8), max_size=6))
def test_a_matrix_is_its_lists(rows: list[list[int]]) -> None:
    matrix = to_matrix(column(rows))
    assert as_lists(matrix).equals(column(rows))
    assert [members_of(row) for row in matrix] == rows


def test_each_row_of_a_mask_takes_its_values() -> None:
    mask = np.array([[True, False, True], [False, False, False], [False, True, False]])
    assert ragged(mask, pa.array(["a", "b", "c"])).to_pylist() == [["a", "b"], [], ["c"]]


def test_null_lists_are_empty() -> None:
    assert to_lengths(column([None, [], [1, 2]])).tolist() == [0, 0, 2]
    assert to_matrix(column([None, [4]])).tolist() == [[PAD], [4]]


def test_no_rows() -> None:
    assert to_matrix(column([])).shape == (0, 1)
    assert to_lengths(column([])).tolist() == []


def test_chunked_columns_read_as_one() -> None:
    chunked = pa.chunked_array([column([[1, 2]]), column([[3], None])])
    assert to_matrix(chunked).tolist() == [[1, 2], [3, PAD], [PAD, PAD]]


@given(st.lists(st.tuples(ids, st.integers(0, 3), st.integers(0, 1 << 40)), max_size=20), st.booleans())
def test_the_order_by_several_keys_is_that_of_lexsort(rows: list[tuple[int, int, int]], in_order: bool) -> None:
    first, second, third = np.array(sorted(rows) if in_order else rows, dtype=np.int64).reshape(-1, 3).T
    assert sort_order(first, second, third).tolist() == np.lexsort((third, second, first)).tolist()
