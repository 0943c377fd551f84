"""The ranges of record offsets that checks look offsets up in, against ranges counted one by one."""

from functools import cache
from itertools import groupby

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from quality.check import digests

# Blocks of 64 are what the query counts by.
OFFSETS = st.one_of(st.none(), st.integers(0, 300), st.integers(2**62, 2**62 + 70))
RECORDS = st.lists(st.tuples(OFFSETS, st.sampled_from(["committed", "uncommitted", None])), max_size=150)
ALL_OF_A_BLOCK = [(offset, "committed") for offset in range(60, 130)]


def ranges(records: list[tuple[int | None, str | None]]) -> list[tuple[int, int, bool]]:
    found = []
    for uncommitted in (False, True):
        offsets = sorted({o for o, state in records if o is not None and (state == "uncommitted") == uncommitted})
        for _, run in groupby(enumerate(offsets), lambda place: place[1] - place[0]):
            own = [offset for _, offset in run]
            found.append((own[0], own[-1], uncommitted))
    return found


@cache
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@given(RECORDS.flatmap(lambda records: st.sampled_from([records, records + ALL_OF_A_BLOCK])))
def test_ranges_of_record_offsets(records: list[tuple[int | None, str | None]]) -> None:
    offsets, states = [offset for offset, _ in records], [state for _, state in records]
    rows = {"offset": pa.array(offsets, pa.int64()), "commit_state": pa.array(states, pa.string())}
    connection().register("metadata_records", pa.table(rows))
    assert sorted(connection().execute(digests()["record_offsets"]).fetchall()) == sorted(ranges(records))
