"""Compression codecs: what comes out is what went in, and never more than the bound."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.errors import DecodeError
from evidence.wire.compression import MAX_OUTPUT_BYTES, decompress, with_header_checksum
from tests.support import writer
from tests.unit.evidence.accounting import FUZZ

CODECS = [("gzip", False), ("snappy", False), ("snappy", True), ("lz4", False), ("zstd", False)]
TEXT = b"the quick brown fox jumps over the lazy dog " * 2000


@pytest.mark.parametrize(("codec", "xerial"), CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT])
def test_what_was_compressed_comes_back(codec: str, xerial: bool, data: bytes) -> None:
    assert decompress(codec, writer.compress(codec, data, xerial)) == data


def test_the_checksum_of_an_lz4_header_is_made_right() -> None:
    frame = writer.compress("lz4", TEXT)
    assert not frame[4] & 0x08
    spoiled = frame[:6] + bytes([frame[6] ^ 0xFF]) + frame[7:]
    with pytest.raises(DecodeError, match="lz4"):
        decompress("lz4", spoiled)
    assert with_header_checksum(spoiled) == frame
    sized = frame[:4] + bytes([frame[4] | 0x08, frame[5]]) + len(TEXT).to_bytes(8, "little") + b"?" + frame[7:]
    assert decompress("lz4", with_header_checksum(sized)) == TEXT


@pytest.mark.parametrize("cut", range(16))
def test_an_lz4_header_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(DecodeError):
        decompress("lz4", with_header_checksum(writer.compress("lz4", TEXT)[:cut]))


def test_uncompressed_data_is_handed_through() -> None:
    assert decompress("none", TEXT) == TEXT


@pytest.mark.parametrize(("codec", "xerial"), CODECS)
@pytest.mark.parametrize("cut", [1, 3, 20])
def test_data_that_is_cut_off_is_refused(codec: str, xerial: bool, cut: int) -> None:
    with pytest.raises(DecodeError, match=codec) as caught:
        decompress(codec, writer.compress(codec, TEXT, xerial)[:-cut])
    assert caught.value.reason == "bad_compression"


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        *((codec, writer.compress(codec, TEXT, xerial) + b"\x01\x02") for codec, xerial in CODECS),
        *((codec, writer.compress("gzip", TEXT)) for codec in ("snappy", "lz4", "zstd")),
        *((codec, writer.compress("zstd", TEXT)) for codec in ("snappy", "lz4", "gzip")),
        ("gzip", zlib.compress(TEXT)),
    ],
)
def test_data_with_bytes_after_its_end_or_of_another_codec_is_refused(codec: str, data: bytes) -> None:
    with pytest.raises(DecodeError):
        decompress(codec, data)


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_bomb_by_ratio_is_refused(codec: str) -> None:
    bomb = writer.compress(codec, bytes(20 << 20))
    assert len(bomb) * 1000 < 21 << 20
    with pytest.raises(DecodeError, match="grows past") as caught:
        decompress(codec, bomb)
    assert caught.value.reason == "decompression_bomb"


@pytest.mark.parametrize(("codec", "xerial"), [("snappy", True), ("snappy", False), ("lz4", False)])
def test_a_bomb_by_size_is_refused(codec: str, xerial: bool) -> None:
    with pytest.raises(DecodeError) as caught:
        decompress(codec, writer.compress(codec, bytes(MAX_OUTPUT_BYTES + 1), xerial))
    assert caught.value.reason == "decompression_bomb"


def test_a_snappy_block_is_not_believed_when_it_claims_a_great_size() -> None:
    with pytest.raises(DecodeError, match="claims 4294967295 bytes") as caught:
        decompress("snappy", b"\xff\xff\xff\xff\x0f" + b"\x00" * 20)
    assert caught.value.reason == "decompression_bomb"


def test_the_blocks_of_a_snappy_stream_share_one_bound() -> None:
    block = bytes(pa.compress(bytes(40 << 20), codec="snappy", asbytes=True))
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + 2 * (struct.pack(">i", len(block)) + block)
    with pytest.raises(DecodeError, match="claims 41943040 bytes, 25165824 are allowed") as caught:
        decompress("snappy", framed)
    assert caught.value.reason == "decompression_bomb"


def test_a_small_batch_of_equal_records_is_no_bomb() -> None:
    data = b"\x0e\x00\x00\x00\x01\x00\x00\x00" * 12_000
    packed = writer.compress("zstd", data)
    assert len(data) > 1000 * len(packed)
    assert decompress("zstd", packed) == data


def size_or_reason(codec: str, data: bytes) -> int | str:
    try:
        return len(decompress(codec, data))
    except DecodeError as error:
        return error.reason


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@FUZZ
@given(data=st.binary(max_size=60), at=st.integers(0, 200), mask=st.integers(1, 255))
def test_damaged_data_is_refused_or_yields_bounded_bytes(codec: str, data: bytes, at: int, mask: int) -> None:
    packed = writer.compress(codec, TEXT[:500])
    for damaged in (data, writer.flip(packed, at % len(packed), mask)):
        outcome = size_or_reason(codec, damaged)
        assert outcome in ("bad_compression", "decompression_bomb") or 0 <= int(outcome) <= 1000 * 1024
