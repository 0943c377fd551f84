"""New and equal rows by key; files sliced by topic: every bucket of topics reads its own rows."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.lake import row_groups
from jobs.lake.row_groups import WITHOUT_TOPIC, SlicedFile, Slices, TopicBucket, power_of_two, read_bucket, slice_count
from jobs.lake.row_keys import database, matches, new_rows
from jobs.lake.storage import Storage

SCHEMA = pa.schema([("n", pa.int64()), ("name", pa.string()), ("other", pa.int32())])
KEY = ("n", "name")
Keyed = dict[str, Any]

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


def by_hand(added: list[Keyed], known: list[Keyed]) -> list[Keyed]:
    seen = {tuple(row[k] for k in KEY) for row in known}
    new = []
    for row in added:
        key = tuple(row[k] for k in KEY)
        if key not in seen:
            new.append(row)
            seen.add(key)
    return new


def keyed(found: list[Keyed], encoded: bool, chunks: int = 1) -> pa.Table:
    made = pa.Table.from_pylist(found, schema=SCHEMA)
    if encoded:
        made = made.set_column(1, "name", made["name"].dictionary_encode())
    step = max(1, -(-len(made) // chunks))
    return pa.concat_tables([made.slice(at, step) for at in range(0, len(made), step)]) if len(made) else made


@given(added=rows, known=rows, encoded=st.booleans(), chunks=st.integers(1, 3))
def test_new_rows(added: list[Keyed], known: list[Keyed], encoded: bool, chunks: int) -> None:
    found = new_rows(keyed(added, encoded, chunks), keyed(known, encoded=False), KEY)
    assert found.to_pylist() == by_hand(added, known)


def test_a_query_takes_the_room_that_it_needs_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with database.__wrapped__() as connection:
        connection.execute("set memory_limit = '20MB'")
        connection.execute("create temp table t as select repeat('x', 50) || range as text from range(400_000)")
        assert [*tmp_path.glob("duckdb_temp_*")]


@given(rows=rows, known=rows, encoded=st.booleans(), chunks=st.integers(1, 3))
def test_matches(rows: list[Keyed], known: list[Keyed], encoded: bool, chunks: int) -> None:
    """Row by row: a row of `known` with the same key, if there is one. Null equals null."""
    found = matches(keyed(rows, encoded, chunks), keyed(known, encoded=False), KEY)
    keys = [tuple(row[k] for k in KEY) for row in known]
    assert len(found) == len(rows)
    for row, at in zip(rows, found.tolist(), strict=True):
        key = tuple(row[k] for k in KEY)
        assert keys[at] == key if key in keys else at == -1


FLAT, NESTED = ("topic_id",), ("change", "topic_id")
SCHEMAS = {
    FLAT: pa.schema([("n", pa.int64()), ("topic_id", pa.string())]),
    NESTED: pa.schema([("n", pa.int64()), ("change", pa.struct([("topic_id", pa.string())]))]),
}
Row = tuple[int, str | None]

counts = st.sampled_from([1, 2, 4, 16, 64])
topic_ids = st.sampled_from([None, "", "é", *(f"topic-{number}" for number in range(12))])


def table(rows: Sequence[Row], topics: tuple[str, ...]) -> pa.Table:
    numbers, ids = pa.array([n for n, _ in rows], pa.int64()), pa.array([t for _, t in rows], pa.string())
    if topics == FLAT:
        return pa.table({"n": numbers, "topic_id": ids})
    changes = pa.array([None if t is None else {"topic_id": t} for _, t in rows], SCHEMAS[NESTED].field("change").type)
    return pa.table({"n": numbers, "change": changes})


def write(storage: Storage, name: str, rows: pa.Table, topics: tuple[str, ...], count: int, step: int = 1000) -> None:
    file = SlicedFile(storage, name, SCHEMAS[topics], count, topics)
    for at in range(0, len(rows), step):
        file.write(rows.slice(at, step))
    assert file.close() == (Path(str(storage.root)) / name).stat().st_size


def read(storage: Storage, names: Sequence[str], topics: tuple[str, ...], count: int) -> list[list[int]]:
    """The numbers of the rows that each bucket reads, and of those without a topic."""
    slices, found = Slices(storage, names), []
    for bucket in (*(TopicBucket(number, count) for number in range(count)), WITHOUT_TOPIC):
        wanted = ["n", topics[0], "missing"]
        parts = list(read_bucket(storage, slices.parts(bucket), wanted, bucket, topics))
        as_codes = read_bucket(storage, slices.parts(bucket), wanted, bucket, topics, as_codes=True)
        assert [part.to_pylist() for part in parts] == [part.to_pylist() for part in as_codes]
        found.append([n for part in parts for n in part["n"].to_pylist()])
    return found


def bucket_of(topic_id: str, count: int) -> int:
    return crc32(topic_id.encode()) % count


@settings(max_examples=15)
@given(
    files=st.lists(st.tuples(st.lists(topic_ids, max_size=30), st.none() | counts, st.integers(1, 9)), max_size=4),
    buckets=counts,
    nested=st.booleans(),
    most=st.sampled_from([4, 1000]),
)
def test_every_row_comes_once_in_the_bucket_of_its_topic_or_without_one(
    files: list[tuple[list[str | None], int | None, int]], buckets: int, nested: bool, most: int
) -> None:
    """Files with different numbers of slices, and files of another program (None), which are not sliced. most: rows of
    a row group."""
    topics = NESTED if nested else FLAT
    rows: list[Row] = []
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_groups, "MOST_ROWS", most)
        storage, names = Storage(Path(folder)), []
        for number, (ids, slices, step) in enumerate(files):
            own: list[Row] = [(len(rows) + i, topic_id) for i, topic_id in enumerate(ids)]
            rows += own
            names.append(f"{number}.parquet")
            if slices is None:
                pq.write_table(table(own, topics), Path(folder) / names[-1], row_group_size=step)
            else:
                write(storage, names[-1], table(own, topics), topics, slices, step)
                footer = pq.read_metadata(Path(folder) / names[-1])
                assert all(footer.row_group(n).num_rows <= most for n in range(footer.num_row_groups))
        found = read(storage, names, topics, buckets)
    expected: list[list[int]] = [[] for _ in range(buckets + 1)]
    for n, topic_id in rows:
        expected[buckets if topic_id is None else bucket_of(topic_id, buckets)].append(n)
    assert [Counter(numbers) for numbers in found] == [Counter(numbers) for numbers in expected]


def test_a_bucket_reads_only_its_row_groups(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    rows: list[Row] = [(n, f"topic-{n}") for n in range(100)]
    write(storage, "a", table(rows, FLAT), FLAT, 16)
    slices = Slices(storage, ["a"])
    for count in (1, 4, 16, 64):
        read_groups, read_rows, read_bytes = [], 0, 0
        for number in range(count):
            (part,) = slices.parts(TopicBucket(number, count)) or [None]
            if part is not None:
                assert part.row_groups is not None
                read_groups += part.row_groups
                read_rows += part.rows
                read_bytes += part.size_bytes
                # Only where a slice holds several buckets must its rows be looked at.
                assert part.sure is (count <= 16)
        footer, times = pq.read_metadata(tmp_path / "a"), max(1, count // 16)
        assert Counter(read_groups) == Counter(list(range(footer.num_row_groups)) * times)
        sizes = [footer.row_group(number).total_byte_size for number in range(footer.num_row_groups)]
        assert (read_rows, read_bytes) == (100 * times, sum(sizes) * times)


def test_encoded_topic_ids_are_sliced_like_plain_ones() -> None:
    ids = pa.chunked_array([[None if n % 7 == 0 else f"topic-{n % 5}" for n in range(40)]])
    plain = row_groups.slices_of(ids, 8).tolist()
    assert row_groups.slices_of(ids.dictionary_encode(), 8).tolist() == plain
    assert [n == row_groups.NO_TOPIC for n in plain] == ids.is_null().to_pylist()


@pytest.mark.parametrize(
    ("least", "expected"), [(0, 1), (0.3, 1), (1, 1), (1.01, 2), (2, 2), (3, 4), (4, 4), (5, 8), (1000, 1024)]
)
def test_power_of_two(least: float, expected: int) -> None:
    assert power_of_two(least) == expected


def test_small_tables_have_one_slice_and_large_ones_not_too_many() -> None:
    assert [slice_count(rows) for rows in (0, 150_000, 150_001, 600_000, 10**10)] == [1, 1, 2, 4, 64]
