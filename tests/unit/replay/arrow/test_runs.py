"""Runs of rows, against plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.arrow import runs
from replay.arrow.ragged import PAD

MASKS = st.lists(st.booleans(), max_size=8)
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**63), 2**63 - 1)), max_size=8)


@given(MASKS)
def test_the_nearest_row_with_a_mark(mask: list[bool]) -> None:
    rows, found = range(len(mask)), np.array(mask, dtype=bool)
    marked = [row for row in rows if mask[row]]
    assert runs.last_true(found).tolist() == [max([-1, *(m for m in marked if m <= row)]) for row in rows]
    assert runs.last_true_before(found).tolist() == [max([-1, *(m for m in marked if m < row)]) for row in rows]
    assert runs.next_true(found).tolist() == [min([len(mask), *(m for m in marked if m >= row)]) for row in rows]


@given(ROWS)
def test_runs_of_a_sorted_key(rows: list[tuple[int, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    group, value = (np.array([row[side] for row in rows], dtype=np.int64) for side in (0, 1))
    before = [[other for other in rows[:number] if other[0] == row[0]] for number, row in enumerate(rows)]
    assert runs.run_starts(group).tolist() == [not earlier for earlier in before]
    assert runs.place_in_run(group).tolist() == [len(earlier) for earlier in before]
    highest = [max(v for _, v in [*earlier, row]) for earlier, row in zip(before, rows, strict=True)]
    assert runs.highest_so_far(group, value).tolist() == highest


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), max_size=8), st.lists(st.tuples(*[st.integers(0, 3)] * 2)))
def test_the_highest_value_known_before(known: list[tuple[int, ...]], places: list[tuple[int, ...]]) -> None:
    group, at, value = np.array(known, dtype=np.int64).reshape(-1, 3).T
    found = runs.highest_before((group, at, value), *np.array(places, dtype=np.int64).reshape(-1, 2).T)
    earlier = [[row[2] for row in known if row[0] == place[0] and row[1] < place[1]] for place in places]
    assert found.tolist() == [max(values, default=PAD) for values in earlier]


def test_ranges_and_runs_of_two_keys() -> None:
    which, row = runs.ranges(np.array([5, 0, 9]), np.array([2, 0, 1]))
    assert (which.tolist(), row.tolist()) == ([0, 0, 2], [5, 6, 9])
    assert runs.run_starts(np.array([1, 1, 1]), np.array(["a", "b", "b"])).tolist() == [True, True, False]


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(-3, 12)))
def test_places_by_a_table_are_those_of_a_search(among: list[int], values: list[int]) -> None:
    among, many = sorted(among), np.array(values * 12, dtype=np.int64)
    assert runs.places(np.array(among, dtype=np.int64), many).tolist() == np.searchsorted(among, many).tolist()
