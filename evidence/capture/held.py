"""A small file out of an archive, in memory: what the readers of evidence need of a path."""

import io
from dataclasses import dataclass, field
from pathlib import Path


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
