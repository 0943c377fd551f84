"""A log file's text in chunks: as it is, or unpacked (gzip, zstd), within bounds."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from evidence.capture.blocks import Local
from evidence.limits import DEFAULT_LIMITS

CHUNK_BYTES = 8 << 20
_LEAST_BYTES = 64 << 20
_PACKED_BYTES = 64 << 10
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(slots=True)
class TextStream:
    """Iterate over it once. ratio: to how many times its size a compressed file may grow. Afterwards, of a compressed
    file: broken_at is the position in the file from which on it cannot be unpacked (to some KiB), with the reason; None
    where it is whole."""

    path: Local
    chunk_bytes: int = CHUNK_BYTES
    ratio: int = DEFAULT_LIMITS.compression_ratio
    codec: str | None = None
    broken_at: int | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        with self.path.open("rb") as file:
            self.codec = codec_of(file.read(4))

    def __iter__(self) -> Iterator[bytes]:
        if self.codec is None:
            with self.path.open("rb") as file:
                while chunk := file.read(self.chunk_bytes):
                    yield chunk
            return
        limit = max(_LEAST_BYTES, self.ratio * self.path.stat().st_size)
        total = 0
        for chunk in self._gzip() if self.codec == "gzip" else self._zstd():
            total += len(chunk)
            if total > limit:
                allowed = f"{limit} bytes, which limits.compression_ratio = {self.ratio} allows"
                self.broken_at, self.reason = 0, f"unpacks to more than {allowed}"
                return
            yield chunk

    def _gzip(self) -> Iterator[bytes]:
        """Members one behind the other are one text (RFC 1952); zero bytes between and after them are padding."""
        inflater, is_open, used = zlib.decompressobj(wbits=31), False, 0
        with self.path.open("rb") as file:
            while packed := file.read(_PACKED_BYTES):
                while packed:
                    if not is_open and not packed.strip(b"\0"):
                        used += len(packed)
                        break
                    if not is_open:
                        used += len(packed) - len(packed.lstrip(b"\0"))
                        packed, is_open = packed.lstrip(b"\0"), True
                    try:
                        out = inflater.decompress(packed, self.chunk_bytes)
                    except zlib.error as error:
                        self.broken_at, self.reason = used, f"gzip data is damaged: {error}"
                        return
                    if out:
                        yield out
                    left = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
                    used += len(packed) - len(left)
                    packed = left
                    if inflater.eof:
                        inflater, is_open = zlib.decompressobj(wbits=31), False
        if is_open:
            self.broken_at, self.reason = used, "gzip data is cut off"

    def _zstd(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            try:
                with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd") as stream:
                    while chunk := stream.read(self.chunk_bytes):
                        yield chunk
            except (OSError, pa.ArrowException) as error:
                self.broken_at = min(file.tell() if not file.closed else 0, self.path.stat().st_size - 1)
                self.reason = f"zstd data is damaged or cut off: {error}"


def codec_of(start: bytes) -> str | None:
    """gzip, zstd, or None for a text, by a file's first bytes."""
    return "gzip" if start[:2] == _GZIP else "zstd" if start[:4] == _ZSTD else None


def lines_at(
    path: Local, positions: Iterable[int], most_bytes: int, chunk_bytes: int = CHUNK_BYTES
) -> dict[int, bytes]:
    """The line that begins at each position of a log's text, without its end: its first most_bytes bytes. Positions
    after the text are left out."""
    wanted, result = sorted(set(positions)), dict[int, bytes]()
    begin, held = 0, b""
    for chunk in TextStream(path, chunk_bytes):
        held += chunk
        while wanted and wanted[0] + most_bytes <= begin + len(held):
            at = wanted.pop(0)
            result[at] = held[at - begin :][:most_bytes]
        keep = min(wanted[0] if wanted else begin + len(held), begin + len(held))
        begin, held = keep, held[keep - begin :]
        if not wanted:
            break
    result |= {at: held[at - begin :][:most_bytes] for at in wanted if at < begin + len(held)}
    return {at: text.split(b"\n", 1)[0].rstrip(b"\r") for at, text in result.items()}
