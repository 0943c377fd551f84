"""Decompress a batch's records within limits. KRaft writes no compressed batches, but the format allows them; producers
do."""

import zlib

import pyarrow as pa

from evidence.errors import DecodeError

MAX_OUTPUT_BYTES = 64 << 20
MAX_RATIO = 1000

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16


def decompress(codec: str, data: bytes, most_bytes: int = 0) -> bytes:
    """The records section of a batch as bytes. codec: none, gzip, snappy (raw or xerial framing), lz4, zstd.

    Errors: DecodeError when the data is damaged, or its output exceeds min(64 MiB, 1000 x the input), where an input
    below 1 KiB counts as 1 KiB. most_bytes allows more: producers' data may be large and may repeat itself.
    """
    if codec == "none":
        return data
    limit = most_bytes or min(MAX_OUTPUT_BYTES, MAX_RATIO * max(len(data), 1 << 10))
    try:
        if codec == "gzip":
            inflater = zlib.decompressobj(wbits=31)
            out = inflater.decompress(data, limit + 1)
            if len(out) <= limit and (not inflater.eof or inflater.unused_data):
                raise DecodeError("bad_compression", "gzip data is cut off or has bytes after its end", 0)
        elif codec == "snappy":
            out = _snappy(data, limit)
        else:
            with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
                out = _read_bounded(stream, limit)
    except (zlib.error, OSError, pa.ArrowException, IndexError) as error:
        raise DecodeError("bad_compression", f"{codec} data cannot be decompressed: {error}", 0) from error
    if len(out) > limit:
        raise DecodeError("decompression_bomb", f"{codec} data grows past {limit} bytes", 0)
    return out


def _read_bounded(stream: pa.NativeFile, limit: int) -> bytes:
    chunks: list[bytes] = []
    total = 0
    while total <= limit:
        chunk = stream.read(min(1 << 20, limit + 1 - total))
        if not chunk:
            break
        chunks.append(chunk)
        total += len(chunk)
    return b"".join(chunks)


def _snappy_block(block: bytes, room: int) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if size > room:
        raise DecodeError("decompression_bomb", f"a snappy block claims {size} bytes, {room} are allowed", 0)
    return bytes(pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True))


def _snappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, limit)
    blocks: list[bytes] = []
    position, room = _XERIAL_HEADER_BYTES, limit
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        block = data[position + 4 : position + 4 + size]
        if len(block) != size or not size:
            raise DecodeError("bad_compression", "a snappy block is cut off", position)
        blocks.append(_snappy_block(block, room))
        room -= len(blocks[-1])
        position += 4 + size
    return b"".join(blocks)
