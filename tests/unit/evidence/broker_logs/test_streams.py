"""Compressed logs: whole, of several members, cut off, damaged, bombs."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from evidence.broker_logs import streams
from evidence.broker_logs.streams import TextStream, codec_of, lines_at

TEXT = b"".join(b"[2026-11-21 00:00:00,%03d] INFO line %d (a.B)\n" % (i % 1000, i) for i in range(20_000))


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


def read(tmp_path: Path, data: bytes, chunk_bytes: int = 1 << 16) -> tuple[bytes, TextStream]:
    path = tmp_path / "log"
    path.write_bytes(data)
    stream = TextStream(path, chunk_bytes)
    chunks = list(stream)
    assert all(len(chunk) <= chunk_bytes for chunk in chunks)
    return b"".join(chunks), stream


@pytest.mark.parametrize(
    "data",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:7777]) + gzip.compress(TEXT[7777:]),
        gzip.compress(TEXT[:7777]) + b"\0" * 700 + gzip.compress(TEXT[7777:]) + b"\0" * 512,
        zstd(TEXT),
        zstd(TEXT[:7777]) + zstd(TEXT[7777:]),
        b"",
    ],
    ids=["text", "gzip", "members", "padding", "zstd", "frames", "empty"],
)
def test_whole_files(tmp_path: Path, data: bytes) -> None:
    text, stream = read(tmp_path, data)
    assert text == (TEXT if data else b"")
    assert stream.broken_at is None
    assert stream.codec == codec_of(data)


@pytest.mark.parametrize("packed", [gzip.compress(TEXT), zstd(TEXT)], ids=["gzip", "zstd"])
@pytest.mark.parametrize("part", [0.2, 0.9, 0.999])
def test_a_file_that_is_cut_off(tmp_path: Path, packed: bytes, part: float) -> None:
    data = packed[: int(len(packed) * part)]
    text, stream = read(tmp_path, data)
    assert TEXT.startswith(text)
    assert stream.broken_at is not None
    assert 0 <= stream.broken_at <= len(data)
    assert stream.reason


@pytest.mark.parametrize("packed", [gzip.compress(TEXT), zstd(TEXT)], ids=["gzip", "zstd"])
def test_a_file_that_is_damaged(tmp_path: Path, packed: bytes) -> None:
    middle = len(packed) // 2
    damaged = packed[:middle] + bytes(b ^ 0xFF for b in packed[middle : middle + 50]) + packed[middle + 50 :]
    text, stream = read(tmp_path, damaged)
    # Arrow writes no checksums into zstd, as the zstd command does: what still unpacks may be other text.
    assert text != TEXT
    assert stream.broken_at is not None or codec_of(packed) == "zstd"
    assert 0 <= (stream.broken_at or 0) <= len(damaged)


def test_a_bomb_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LEAST_BYTES", 1 << 20)
    path = tmp_path / "server.log"
    path.write_bytes(gzip.compress(b"\n" * (8 << 20)))
    stream = TextStream(path, ratio=10)
    assert len(b"".join(stream)) <= 1 << 20
    assert stream.broken_at == 0
    assert stream.reason == "unpacks to more than 1048576 bytes, which limits.compression_ratio = 10 allows"


@pytest.mark.parametrize("packed", [TEXT, gzip.compress(TEXT), zstd(TEXT)], ids=["plain", "gzip", "zstd"])
@pytest.mark.parametrize("chunk_bytes", [7, 1 << 12, 1 << 23])
def test_lines_by_position(tmp_path: Path, packed: bytes, chunk_bytes: int) -> None:
    path = tmp_path / "log"
    path.write_bytes(packed)
    lines = TEXT.splitlines(keepends=True)
    starts = {number: sum(map(len, lines[:number])) for number in (0, 1, 2, 700, 19_999)}
    found = lines_at(path, [*starts.values(), starts[1], len(TEXT)], 100, chunk_bytes)
    assert found == {at: lines[number].rstrip() for number, at in starts.items()}
    assert lines_at(path, [0], 10, chunk_bytes) == {0: TEXT[:10]}
