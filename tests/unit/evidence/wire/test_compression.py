"""Compression codecs: what comes out is what went in, and never more than the bound."""

import struct
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.errors import DecodeError
from evidence.wire.compression import MAX_OUTPUT_BYTES, decompress
from tests.support import writer
from tests.unit.evidence.accounting import FUZZ

CODECS = [("gzip", False), ("snappy", False), ("snappy", True), ("lz4", False), ("zstd", False)]
TEXT = b"the quick brown fox jumps over the lazy dog " * 2000


@pytest.mark.parametrize(("codec", "xerial"), CODECS)
@pytest.mark.parametrize("data", [b"", b"x", TEXT])
def test_what_was_compressed_comes_back(codec: str, xerial: bool, data: bytes) -> None:
    assert decompress(codec, writer.compress(codec, data, xerial)) == data


def test_uncompressed_data_is_handed_through() -> None:
    assert decompress("none", TEXT) == TEXT


PACKED = [(codec, writer.compress(codec, TEXT, xerial)) for codec, xerial in CODECS]
BLOCK = bytes(pa.compress(bytes(40 << 20), codec="snappy", asbytes=True))
STREAM = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@pytest.mark.parametrize(
    ("codec", "data", "reason", "message"),
    [
        *((codec, data[:-cut], "bad_compression", codec) for codec, data in PACKED for cut in (1, 3, 20)),
        *((codec, data + b"\x01\x02", "bad_compression", codec) for codec, data in PACKED),
        # Of another codec.
        *((codec, dict(PACKED)["gzip"], "", "") for codec in ("snappy", "lz4", "zstd")),
        *((codec, dict(PACKED)["zstd"], "", "") for codec in ("snappy", "lz4", "gzip")),
        ("gzip", zlib.compress(TEXT), "bad_compression", "gzip"),
        # A snappy block is not believed when it claims a great size; those of a stream share one bound.
        ("snappy", b"\xff\xff\xff\xff\x0f" + bytes(20), "decompression_bomb", "claims 4294967295 bytes"),
        (
            "snappy",
            STREAM + 2 * (struct.pack(">i", len(BLOCK)) + BLOCK),
            "decompression_bomb",
            "claims 41943040 bytes, 25165824 are allowed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_data_of_a_codec_is_refused(codec: str, data: bytes, reason: str, message: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decompress(codec, data)
    assert message in str(caught.value)
    assert reason in ("", caught.value.reason)


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
