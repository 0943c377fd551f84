"""The compiled decoder against the reader that is the reference: the same rows and the same damage, on any bytes."""

import io
import lzma
import mmap
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.capture.files import open_capture
from evidence.errors import CaptureError
from evidence.limits import MAX_TIME_MS
from evidence.metadata_log import columns, compiled_reader, partition_kernel
from evidence.metadata_log.columns import DECODED, decode_arrow
from evidence.metadata_log.compiled_reader import CompiledDecoder
from evidence.metadata_log.inspect import inspect_file, print_file
from evidence.metadata_log.rows import ByteRange, to_json, work_of
from evidence.metadata_log.scan import scan_files
from tests.support import writer
from tests.support.golden import cases
from tests.support.log_text import log_of
from tests.support.paths import ORACLE, controllers
from tests.support.writer import batch, flip, int32s, record, tagged, uvarint

Row = dict[str, Any]
NEVER = 1 << 60
PARTITION_TYPES = ("PARTITION_CHANGE_RECORD", "PARTITION_RECORD")
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
UUIDS = st.binary(min_size=16, max_size=16)


def whole(data: bytes) -> ByteRange:
    return ByteRange(Path("log"), "log", "00", "metadata_segment", 0, len(data))


def rows(data: bytes, work: ByteRange, compiled_from: int) -> list[Row]:
    found = pa.Table.from_batches(decode_arrow(data, work, "c", compiled_from), schema=DECODED).to_pylist()
    return sorted(found, key=lambda r: (r["position"] is None, r["position"] or 0, r["offset"] or 0, str(r["damage"])))


def outcome(data: bytes, compiled_from: int) -> list[Row] | str:
    """The rows, or the error that ends them."""
    try:
        return rows(data, whole(data), compiled_from)
    except CaptureError as error:
        return str(error)


def printed_both_ways(data: bytes) -> None:
    """What `inspect` prints, with the compiled loops and without: the JSON of the rows."""
    with tempfile.NamedTemporaryFile(prefix='a "quoted" ü', suffix=".log") as file:
        path = Path(file.name)
        path.write_bytes(data)
        for show_secrets in (False, True):
            rows_ = list(inspect_file(path, show_secrets))
            expected = "".join(to_json(row) + "\n" for row in rows_).encode("utf-8", "backslashreplace")
            for compiled_from in (0, NEVER):
                out = io.BytesIO()
                assert print_file(path, out, show_secrets, compiled_from) == any("error" not in row for row in rows_)
                assert out.getvalue() == expected


def same_both_ways(data: bytes) -> list[Row] | str:
    found = outcome(data, 0)
    assert found == outcome(data, NEVER)
    printed_both_ways(data)
    return found


def compiled(data: bytes, work: ByteRange | None = None) -> int:
    """How many records the compiled loops took; what they gave is valid Arrow."""
    decoder = CompiledDecoder(data, work or whole(data), "c")
    for found in decoder.decode():
        found.validate(full=True)
    return decoder.compiled_rows


def in_columns(found: list[Row] | str) -> int:
    """How many rows the compiled loops are to give: those of NoOpRecords, and of partition records without text."""
    assert not isinstance(found, str)
    return sum(r["type"] == "NO_OP_RECORD" or (r["type"] in PARTITION_TYPES and r["payload"] is None) for r in found)


def array(values: list[int] | None) -> bytes:
    return b"\x00" if values is None else int32s(values)


def uuids(values: list[bytes] | None) -> bytes:
    return b"\x00" if values is None else uvarint(len(values) + 1) + b"".join(values)


lists = st.lists(INT32, max_size=5)
maybe = st.none() | lists


@st.composite
def partition_records(draw: st.DrawFn) -> bytes:
    """A PartitionRecord of any version, its tagged fields given or left out, defaults too."""
    version = draw(st.integers(0, 2))
    body = struct.pack(">i", draw(INT32)) + draw(UUIDS) + b"".join(array(draw(lists)) for _ in range(4))
    body += struct.pack(">iii", draw(st.just(-2) | INT32), draw(INT32), draw(INT32))
    body += uuids(draw(st.lists(UUIDS, max_size=4))) if version else b""
    tags = {0: struct.pack(">b", draw(st.just(0) | st.integers(-128, 127)))}
    tags |= {1: array(draw(maybe)), 2: array(draw(maybe))} if version == 2 else {}
    kept = draw(st.sets(st.sampled_from(sorted(tags))))
    return writer.frame(3, version, body + tagged({t: tags[t] for t in kept}))


def change_tags(draw: st.DrawFn, version: int) -> dict[int, bytes]:
    tags = {t: array(draw(maybe)) for t in (0, 2, 3, 4)}
    tags |= {1: struct.pack(">i", draw(st.just(-2) | INT32)), 5: struct.pack(">b", draw(st.integers(-2, 2)))}
    tags |= {6: array(draw(maybe)), 7: array(draw(maybe))} if version == 2 else {}
    tags |= {8: uuids(draw(st.none() | st.lists(UUIDS, max_size=4)))} if version else {}
    return tags


@st.composite
def change_records(draw: st.DrawFn) -> bytes:
    version = draw(st.integers(0, 2))
    tags = change_tags(draw, version)
    kept = draw(st.sets(st.sampled_from(sorted(tags))))
    body = struct.pack(">i", draw(INT32)) + draw(UUIDS) + tagged({t: tags[t] for t in kept})
    return writer.frame(5, version, body)


@st.composite
def disordered_records(draw: st.DrawFn) -> bytes:
    """A PartitionChangeRecord with tags in any order, some of them more than once."""
    version = draw(st.integers(0, 2))
    tags = change_tags(draw, version)
    kept = draw(st.lists(st.sampled_from(sorted(tags)), max_size=6))
    section = uvarint(len(kept)) + b"".join(uvarint(t) + uvarint(len(tags[t])) + tags[t] for t in kept)
    return writer.frame(5, version, struct.pack(">i", draw(INT32)) + draw(UUIDS) + section)


plain = partition_records() | change_records() | st.just(writer.no_op())
others = st.sampled_from([writer.topic("orders"), writer.config("min.insync.replicas", "2")])


@settings(max_examples=25)
@given(
    st.lists(plain | others, min_size=1, max_size=12),
    st.integers(-5, 5),
    st.one_of(st.integers(0, 1 << 40), st.just((1 << 63) - 25)),
    st.sampled_from([writer.TIMESTAMP_MS, 0, -1, 10, -(10**14), MAX_TIME_MS - 60]),
)
def test_any_records_are_read_the_same_both_ways(values: list[bytes], step: int, base: int, time: int) -> None:
    records = b"".join(record(v, i, timestamp_delta=step * i) for i, v in enumerate(values))
    data = batch(values, base, timestamp_ms=time)
    data += batch(values, base + len(values), records=records, count=len(values), timestamp_ms=time)
    found = same_both_ways(data)
    assert len(found) == 2 * len(values)
    assert not any(r["damage"] for r in found)
    assert compiled(data) == (in_columns(found) if time <= writer.TIMESTAMP_MS else 0)


@settings(max_examples=25)
@given(st.lists(disordered_records(), min_size=1, max_size=4))
def test_tags_may_come_in_any_order(values: list[bytes]) -> None:
    assert len(same_both_ways(batch(values))) == len(values)


@settings(max_examples=25)
@given(st.lists(plain | others, min_size=1, max_size=12), st.integers(1, 5), st.integers(60, 400), st.integers(1, 4))
def test_groups_may_end_anywhere(values: list[bytes], records: int, size: int, per_batch: int) -> None:
    """Batches that are larger than a group go to the reader."""
    groups = [values[i : i + per_batch] for i in range(0, len(values), per_batch)]
    batches = [batch(group, per_batch * i) for i, group in enumerate(groups)]
    data = b"".join(batches)
    small = sum(compiled(part) for part in batches if len(part) <= size)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_GROUP_RECORDS": records, "_GROUP_BYTES": size}.items():
            patch.setattr(compiled_reader, name, value)
        patch.setattr(columns, "_CHUNK_ROWS", 1)
        assert len(same_both_ways(data)) == len(values)
        decoder = CompiledDecoder(data, whole(data), "c")
        assert all(len(found) < records + per_batch for found in decoder.decode())
    assert decoder.compiled_rows == small


ODD = [*map(bytes.fromhex, ("00", "01", "7f", "80", "ff", "8000", "ffffffff0f", "ffffffff7f", "ff" * 9))]


@st.composite
def altered(draw: st.DrawFn, data: bytes) -> bytes:
    """One bit or byte is another, cut out or put in, or the data end there."""
    at = draw(st.integers(0, len(data) - 1))
    kind = draw(st.sampled_from(["flip", "set", "cut", "insert", "end"]))
    if kind == "flip":
        return flip(data, at, 1 << draw(st.integers(0, 7)))
    odd = b"" if kind in ("cut", "end") else draw(st.sampled_from(ODD))
    return data[:at] + odd + (b"" if kind == "end" else data[at + (kind != "insert") :])


@settings(max_examples=40)
@given(st.lists(plain, min_size=1, max_size=4), st.data())
def test_damaged_records_are_damaged_the_same_both_ways(values: list[bytes], data: st.DataObject) -> None:
    """The CRC is made right: the record parser itself sees them."""
    records = b"".join(record(v, i) for i, v in enumerate(values))
    for _ in range(data.draw(st.integers(1, 3))):
        records = data.draw(altered(records)) or records
    same_both_ways(batch(records=records, count=len(values)) + batch(values, len(values)))


@settings(max_examples=25)
@given(st.lists(plain, min_size=1, max_size=3), st.data())
def test_damaged_values_are_damaged_the_same_both_ways(values: list[bytes], data: st.DataObject) -> None:
    """As above with the record's own lengths made right: the fields themselves are wrong."""
    found = same_both_ways(batch([data.draw(altered(value)) for value in values]))
    assert len(found) == len(values)


@settings(max_examples=25)
@given(st.data(), st.booleans())
def test_damaged_heads_end_the_range_the_same_both_ways(data: st.DataObject, crc_fixed: bool) -> None:
    """A head is altered after the file was framed, with its CRC fixed or not."""
    parts = [batch([writer.partition_change(n)] * 2, 2 * n) for n in range(3)]
    at = data.draw(st.integers(0, 60))
    bad = flip(parts[1], at, 1 << data.draw(st.integers(0, 7)))
    if crc_fixed and at not in range(17, 21):
        bad = bad[:17] + struct.pack(">I", writer.crc32c(bad[21:])) + bad[21:]
    same_both_ways(parts[0] + bad + parts[2])


@pytest.mark.parametrize("size", [1, 60])
def test_a_crc_that_does_not_hold_is_an_error(size: int) -> None:
    good = batch([writer.partition_change()] * size)
    assert compiled(good * 2) == 2 * size
    for at in (len(good) + 25, 2 * len(good) - 1):
        assert "CRC32C" in same_both_ways(flip(good * 2, at))


@settings(max_examples=25)
@given(plain, st.integers(1, 1000), st.sampled_from([0, 1, 2]))
def test_a_wrong_record_count_is_no_reason_to_read_elsewhere(value: bytes, count: int, more: int) -> None:
    records = record(value, 0) + b"\x00" * more
    same_both_ways(batch(records=records, count=count))


@pytest.mark.parametrize("case", cases("unusual_records"), ids=lambda case: case["what"])
def test_what_is_unusual_is_left_to_the_reader(case: dict[str, str]) -> None:
    data = log_of(f"batch {case['record']}")
    same_both_ways(data)
    assert compiled(data) == 0


def test_batches_of_other_kinds_stand_between() -> None:
    time = writer.TIMESTAMP_MS
    data = log_of(
        "control 2 leader_change; batch change change base_offset=1; batch change base_offset=3 codec=gzip; "
        f"batch change base_offset=4 attributes=8 max_timestamp_ms={time + 9}; "
        f"batch change base_offset=5 timestamp_ms={MAX_TIME_MS}; batch base_offset=6 count=1 codec=zstd; "
        f"batch{' change' * 60} base_offset=7"
    )
    found = same_both_ways(data)
    assert [r["offset"] for r in found if r["offset"] is not None][:6] == [0, 1, 2, 3, 4, 5]
    assert compiled(data) == 62


@pytest.mark.parametrize(
    ("name", "count"), [("every-record.log", 126), ("every-record-4.4.0.log", 129), ("every-record-seed-7.log.xz", 371)]
)
def test_every_record_type_of_kafkas_own_log(name: str, count: int) -> None:
    raw = (ORACLE / name).read_bytes()
    data = lzma.decompress(raw) if name.endswith(".xz") else raw
    found = same_both_ways(data)
    assert compiled(data) == in_columns(found) == count


@pytest.mark.parametrize("name", ["unclean", "diverge"])
def test_real_segments_and_snapshots(name: str, tmp_path: Path) -> None:
    """Every partition record and NoOpRecord that a controller wrote is read by the compiled loops."""
    with open_capture(controllers(name, tmp_path)) as opened:
        for work in work_of(scan_files(opened.files)):
            data = work.source.read_bytes()
            found = rows(data, work, NEVER)
            assert found == rows(data, work, 0)
            printed_both_ways(data)
            assert compiled(data, work) == in_columns(found)


def test_bytes_may_lie_in_a_memory_map() -> None:
    data = batch([writer.partition_change(n) for n in range(40)])
    mapped = mmap.mmap(-1, len(data))
    mapped[:] = data
    work: Any = mapped
    assert rows(work, whole(data), 0) == rows(work, whole(data), NEVER) == rows(data, whole(data), NEVER)
    assert compiled(work) == 40


def test_without_a_place_for_the_cache_it_compiles_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_place(cache: bool = False, **options: Any) -> Callable[..., Any]:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.jit(nopython=True, **options)

    monkeypatch.setattr(numba, "njit", no_place)
    assert partition_kernel.compiled(lambda value: value + 1)(1) == 2
