"""What checks see of neighbouring rows, against the definition."""

from itertools import groupby

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from quality.steps import with_steps
from replay.arrow.schemas import CODES

KEY = ("name", "number", "offset")
NUMBERS = st.one_of(st.none(), st.integers(0, 2))
ROWS = st.lists(st.tuples(st.sampled_from(["b", "a", None]), NUMBERS, st.integers(0, 3)), max_size=9)


def by_definition(rows: list[tuple[str | None, int | None, int]]) -> list[tuple[bool, bool]] | None:
    subjects = [subject for subject, _ in groupby(row[:2] for row in rows)]
    if len({*subjects}) < len(subjects):
        return None
    follows = [number > 0 and rows[number - 1][:2] == row[:2] for number, row in enumerate(rows)]
    if any(later and rows[number - 1][2] > rows[number][2] for number, later in enumerate(follows)):
        return None
    return [(later, rows.count(row) > 1) for row, later in zip(rows, follows, strict=True)]


@given(ROWS.flatmap(lambda rows: st.sampled_from([rows, sorted(rows, key=str)])), st.sampled_from([pa.string(), CODES]))
def test_follows_and_twice(rows: list[tuple[str | None, int | None, int]], texts: pa.DataType) -> None:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    types = (texts, pa.int32(), pa.int64())
    halves = (pa.chunked_array([c[:4], c[4:]], t) for c, t in zip(columns, types, strict=True))
    found = with_steps(pa.table([*halves], names=KEY), KEY)
    steps = None if found is None else [*zip(*(found[name].to_pylist() for name in ("follows", "twice")), strict=True)]
    assert steps == by_definition(rows)
