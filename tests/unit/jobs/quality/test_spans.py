"""Spans have every value once, and digests of pieces make the digest of the whole."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from jobs.lake.data_files import DataFile
from jobs.quality.spans import Span, spans
from quality.columns import NULL
from quality.digests import DIGESTS, RECORD_OFFSETS


def file(lowest: int | None, highest: int | None, rows: int) -> DataFile:
    return DataFile("f", 1, rows, lowest, highest)


@given(
    st.lists(st.tuples(st.integers(-(10**12), 10**12), st.integers(0, 10**6), st.integers(1, 1000))), st.integers(1, 9)
)
def test_spans_have_every_value_once(about: list[tuple[int, int, int]], count: int) -> None:
    files = [file(low, low + length, rows) for low, length, rows in about]
    found = spans(files, count)
    assert 1 <= len(found) <= count
    for each in files:
        values = np.array([NULL, each.lowest, each.highest, (each.lowest + each.highest) // 2])
        inside = np.array([span.has(values) for span in found])
        assert (inside.sum(axis=0) == 1).all()
        assert all(span.may_be_in(each) for span, has in zip(found, inside, strict=True) if has.any())


def test_spans_have_equally_many_rows_and_skip_files() -> None:
    files = [file(at * 100, at * 100 + 99, 100) for at in range(10)]
    found = spans(files, 5)
    assert found == [Span(None, 200), Span(200, 400), Span(400, 600), Span(600, 800), Span(800, None)]
    assert [sum(span.may_be_in(each) for each in files) for span in found] == [10, 2, 2, 2, 2]
    assert all(span.may_be_in(file(None, None, 3)) for span in found)
    assert spans([file(None, None, 3)], 5) == [Span()]


@given(st.lists(st.tuples(st.integers(0, 40) | st.none(), st.sampled_from(["committed", "uncommitted"]))), st.data())
def test_a_digest_of_pieces_is_that_of_the_whole(rows: list[tuple[int | None, str]], data: st.DataObject) -> None:
    digest = DIGESTS[RECORD_OFFSETS]
    table = pa.table({"offset": pa.array([o for o, _ in rows], pa.int64()), "commit_state": [s for _, s in rows]})
    table = table.set_column(1, "commit_state", table["commit_state"].cast(pa.string()))
    cut = data.draw(st.integers(0, len(rows)))
    pieces = [digest.of(table.slice(0, cut)), digest.of(table.slice(cut))]
    assert digest.merged(pa.concat_tables(pieces)) == digest.of(table)
    held = {
        (offset, each["uncommitted"])
        for each in digest.of(table).to_pylist()
        for offset in range(max(each["first"], -1), each["last"] + 1)
    }
    assert held == {(offset, s == "uncommitted") for offset, s in rows if offset is not None}
