"""Files that are in memory: one that arrives in blocks, sliced like bytes and hashed on the way; a small one out of an
archive, with what the readers of evidence need of a path."""

import hashlib
import io
import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

BLOCK_BYTES = 8 << 20
_KEPT = 3


class Blocks:
    """Bytes of a file, sliced as `blocks[start:end]`. A block that was dropped is read again if it is needed.

    read: gives the bytes [start, end) of the file. size_bytes: of the file.
    """

    def __init__(self, read: Callable[[int, int], bytes], size_bytes: int, block_bytes: int = BLOCK_BYTES) -> None:
        self.read, self.size_bytes, self.block_bytes = read, size_bytes, block_bytes
        self._kept: dict[int, bytes] = {}
        self._hash = hashlib.sha256()
        self._hashed = 0

    def __len__(self) -> int:
        return self.size_bytes

    def __getitem__(self, where: slice, /) -> bytes:
        start, stop, _ = where.indices(self.size_bytes)
        parts = []
        for begin in range(start - start % self.block_bytes, stop, self.block_bytes) if start < stop else ():
            parts.append(self._block(begin // self.block_bytes)[max(start - begin, 0) : stop - begin])
        return b"".join(parts)

    def sha256(self) -> str:
        """SHA-256 of the whole file, hex. Reads what has not been read."""
        while self._hashed * self.block_bytes < self.size_bytes:
            self._block(self._hashed)
        return self._hash.hexdigest()

    def _block(self, number: int) -> bytes:
        block = self._kept.pop(number, None)
        if block is None:
            begin = number * self.block_bytes
            block = self.read(begin, min(begin + self.block_bytes, self.size_bytes))
        self._kept[number] = block
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        if number == self._hashed:
            self._hash.update(block)
            self._hashed += 1
        return block


@dataclass(frozen=True, slots=True)
class _Stat:
    st_size: int
    st_mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """name: in messages. data: of the whole file."""

    name: str
    data: bytes = field(repr=False)

    def __str__(self) -> str:
        return self.name

    def open(self, mode: str = "rb") -> io.BytesIO:
        """The bytes as a stream. mode: as a path takes it; only "rb" makes sense."""
        if mode != "rb":
            raise ValueError(f"{self.name}: it can only be read as bytes")
        return io.BytesIO(self.data)

    def read_bytes(self) -> bytes:
        return self.data

    def stat(self) -> _Stat:
        return _Stat(len(self.data))


# A file on this machine.
Local = Path | Held


@contextmanager
def mapped(file: Local) -> Iterator[bytes | mmap.mmap]:
    """The bytes of a file, which may be empty, of which only what is sliced is read. Errors: OSError."""
    if isinstance(file, Held):
        yield file.data
        return
    with file.open("rb") as stream:
        if not stream.seek(0, 2):
            yield b""
            return
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data
