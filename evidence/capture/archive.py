"""Unpack an archive of evidence into a private folder, member by member, within bounds.

An archive may come from anywhere: nothing in it leads out of the folder, nothing but regular files is made, and what
comes out is counted while it comes, since what headers promise cannot be trusted.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import stat
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Protocol

from evidence.capture.clock_bounds import Modified, of_seconds
from evidence.errors import CaptureError, spelled_out
from evidence.limits import MAX_TIME_MS

MAX_MEMBERS = 1_000_000
MAX_TOTAL_BYTES = 64 << 30
MAX_RATIO = 1000
SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".zip")

# A pax header's time with a fraction of a second.
_EXACT_TIME = re.compile(r"([0-9]{1,12})\.([0-9]{1,30})")
# Extra fields of a zip's entry: id and size, then the data (PKWARE's APPNOTE 4.5; Info-ZIP's proginfo/extrafld.txt).
_EXTRA = struct.Struct("<HH")
_EXTENDED_TIMESTAMP = 0x5455
_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 1024
_CHUNK_BYTES = 1 << 20
_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    struct.error,
)


def is_archive(path: Path) -> bool:
    """Whether a file is taken for an archive, by its name."""
    return path.name.lower().endswith(SUFFIXES)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """refused: (member, reason) of what was left out. modified: when the archive says that a file was written last, by
    where it lies now; of a file that is not in it nothing says so."""

    refused: list[tuple[str, str]]
    modified: dict[Path, Modified]


def unpack(archive: Path, folder: Path, limit_bytes: int | None = None, named: str | None = None) -> Unpacked:
    """Write the archive's regular files below `folder`.

    limit_bytes: how much may come out of it; None: the least of 64 GiB and 1000 x the archive (at least 1 GiB).
    named: what messages call it, where that is not its path.
    Errors: CaptureError when the archive is damaged, cut off, or unpacks to more than that.
    """
    if limit_bytes is None:
        limit_bytes = min(MAX_TOTAL_BYTES, MAX_RATIO * max(archive.stat().st_size, 1 << 20))
    named = named or str(archive)
    work = _Unpacking(archive, folder, limit_bytes, named)
    try:
        if archive.name.lower().endswith(".zip"):
            work.unpack_zip()
        else:
            work.unpack_tar()
    except _UNREADABLE as error:
        raise CaptureError(f"{named}: the archive cannot be read: {error}. Copy it again from its source.") from error
    return Unpacked(work.names.refused, work.modified)


class Names:
    """The names that are taken in a private folder; refused: (name, reason) of those that are left out.

    inside: what they are names of, for the reasons: an archive, a capture.
    """

    def __init__(self, inside: str) -> None:
        self.inside = inside
        self.files: set[tuple[str, ...]] = set()
        self.folders: set[tuple[str, ...]] = set()
        self.refused: list[tuple[str, str]] = []

    def take(self, name: str, reason: str | None = None) -> bool:
        """Take a name, or note why it is left out. reason: why it would be even with a good name."""
        reason = _name_refusal(name, self.inside) or reason or self._conflict(name)
        if reason:
            self.refused.append((spelled_out(name), reason))
        return reason is None

    def _conflict(self, name: str) -> str | None:
        # As file systems compare names that ignore case and normalise: such names would overwrite each other there.
        key = tuple(unicodedata.normalize("NFC", part).casefold() for part in PurePosixPath(name).parts)
        parents = {key[:length] for length in range(1, len(key))}
        if key in self.files:
            return f"the name stands twice in the {self.inside}"
        if key in self.folders or parents & self.files:
            return "the name is a file and a folder at once"
        self.files.add(key)
        self.folders |= parents
        return None


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Counted(io.BufferedIOBase):
    """A stream whose output is charged to the archive's budget."""

    def __init__(self, stream: _Source, work: _Unpacking) -> None:
        self.stream = stream
        self.work = work
        self.count = 0

    def read(self, size: int | None = None, /) -> bytes:
        part = self.stream.read(size or _CHUNK_BYTES)
        self.count += len(part)
        self.work.spend(len(part))
        return part


class _Unpacking:
    def __init__(self, archive: Path, folder: Path, limit_bytes: int, named: str) -> None:
        self.archive = archive
        self.folder = folder
        self.left_bytes = limit_bytes
        self.named = named
        self.members = 0
        self.names = Names("archive")
        self.modified: dict[Path, Modified] = {}

    def spend(self, count: int) -> None:
        self.left_bytes -= count
        if self.left_bytes < 0 or self.members > MAX_MEMBERS:
            raise CaptureError(
                f"{self.named}: the archive unpacks to more than is allowed: it may be a decompression bomb. "
                "If it is not, unpack it yourself and name the folder."
            )

    def unpack_tar(self) -> None:
        with _open_tar(self.archive) as raw:
            counted = _Counted(raw, self)
            with tarfile.open(fileobj=counted, mode="r|", bufsize=_CHUNK_BYTES) as tar:
                for member in tar:
                    self.members += 1
                    self.spend(0)
                    refusal = None if member.isreg() else "not a regular file"
                    if member.isdir() or not self.names.take(member.name, refusal):
                        continue
                    source = tar.extractfile(member)
                    if source is not None:
                        self._write(member.name, source, _tar_time(member))
                while counted.read():
                    pass
                # Every tar ends with blocks of zeros: one that ends with a member has lost what came behind it.
                if tar.offset >= counted.count:
                    raise tarfile.ReadError("it ends without its end mark: it was cut off")

    def unpack_zip(self) -> None:
        with zipfile.ZipFile(self.archive) as zipped:
            for info in zipped.infolist():
                self.members += 1
                self.spend(0)
                if info.filename.endswith("/") or not self.names.take(info.filename, _zip_refusal(info)):
                    continue
                with zipped.open(info) as source:
                    self._write(info.filename, _Counted(source, self), _zip_time(info))

    def _write(self, name: str, source: _Source, modified: Modified | None) -> None:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as out:
            while part := source.read(_CHUNK_BYTES):
                out.write(part)
        if modified is not None:
            self.modified[target] = modified


def _tar_time(member: tarfile.TarInfo) -> Modified | None:
    """A member's time: in whole seconds, but for a pax header with a fraction."""
    exact = _EXACT_TIME.fullmatch(member.pax_headers.get("mtime", ""))
    if exact and exact[2].strip("0"):
        at_ms = int(exact[1]) * 1000 + int(exact[2][:3].ljust(3, "0"))
        return Modified(at_ms, 1) if at_ms <= MAX_TIME_MS else None
    return of_seconds(int(member.mtime)) if 0 <= member.mtime <= MAX_TIME_MS else None


def _zip_time(info: zipfile.ZipInfo) -> Modified | None:
    """An entry's time: the extended timestamp of Info-ZIP (seconds, UTC) where it has one, else its own: local time of
    some zone in steps of two seconds."""
    extra = info.extra
    while len(extra) >= _EXTRA.size:
        kind, size = _EXTRA.unpack_from(extra)
        field, extra = extra[_EXTRA.size : _EXTRA.size + size], extra[_EXTRA.size + size :]
        if kind == _EXTENDED_TIMESTAMP and len(field) >= 5 and field[0] & 1:
            return of_seconds(int.from_bytes(field[1:5], "little", signed=True))
    try:
        local = datetime(*info.date_time, tzinfo=UTC)
    except ValueError:
        return None
    return Modified(int(local.timestamp()) * 1000, 2000, has_zone=False)


@contextmanager
def _open_tar(archive: Path) -> Iterator[_Source]:
    """The tar's bytes, decompressed as its first bytes ask for."""
    with archive.open("rb") as raw:
        magic = raw.read(6)
        raw.seek(0)
        if magic.startswith(b"\x1f\x8b"):
            with gzip.open(raw) as stream:
                yield stream
        elif magic == b"\xfd7zXZ\x00":
            with lzma.open(raw) as stream:
                yield stream
        else:
            yield raw


def _name_refusal(name: str, inside: str) -> str | None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\x00" in name:
        return f"a path that leads out of the {inside}"
    if not path.parts:
        return "no name"
    sizes = [len(part.encode("utf-8", "surrogateescape")) for part in path.parts]
    if max(sizes) > _MAX_NAME_BYTES or sum(sizes) + len(sizes) > _MAX_PATH_BYTES:
        return f"a name longer than {_MAX_NAME_BYTES} bytes, or a path longer than {_MAX_PATH_BYTES}"
    return None


def _zip_refusal(info: zipfile.ZipInfo) -> str | None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return "not a regular file"
    if info.flag_bits & 0x1:
        return "encrypted"
    # Python's zipfile does not bound what one read of the other methods returns (CPython gh-156002).
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"compressed with method {info.compress_type}: repack it with deflate"
    return None
