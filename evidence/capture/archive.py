"""Unpack an archive of evidence, one member at a time and in its order, within limits.

Small members stay in memory. Others, and what tasks read, become numbered files of a private folder: thousands of
folders and files would take longer to make and to remove than to read. An archive may come from anyone. Only regular
files are taken, no member's name is used for a file, and bytes are counted while they are unpacked, because the sizes
in the headers cannot be trusted.
"""

import errno
import gzip
import hashlib
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
from pathlib import Path, PurePath, PurePosixPath
from typing import Protocol

from evidence import kinds
from evidence.capture.blocks import Held, Local
from evidence.capture.clock_bounds import Modified, of_seconds
from evidence.errors import CaptureError, spelled_out
from evidence.limits import DEFAULT_LIMITS, MAX_TIME_MS, Limits

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".zip")

_PACKED = re.compile(r".*\.(?:tar|zip|7z|rar|t?(?:gz|xz|zst|lz4|bz2?))")
# gzip, xz, zip, zstd, bzip2
_BEGINNINGS = (b"\x1f\x8b", b"\xfd7zXZ\0", b"PK\3\4", b"\x28\xb5\x2f\xfd", b"BZh")
# The time in a pax header, with a fraction of a second.
_EXACT_TIME = re.compile(r"([0-9]{1,12})\.([0-9]{1,30})")
_ZIP_END, _ZIP_END_BYTES = b"PK\5\6", 22
# Extra fields of a zip entry: id and size, then the data (PKWARE's APPNOTE 4.5; Info-ZIP's proginfo/extrafld.txt).
_EXTRA = struct.Struct("<HH")
_EXTENDED_TIMESTAMP = 0x5455
_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES = 1024
_CHUNK_BYTES = 1 << 20
# tarfile copies the rest of its buffer with each header that it reads.
_TAR_BUFFER_BYTES = 1 << 15
# A smaller archive counts as this long when the ratio is checked.
_LEAST_BYTES = 1 << 20
# A member is kept in memory up to this size, and as long as all of them together have no more bytes than that.
_SMALL_BYTES = 1 << 16
_HELD_BYTES = 256 << 20
# Tasks read these, maybe in other processes.
READ_BY_TASKS = (kinds.METADATA_SEGMENT, kinds.METADATA_CHECKPOINT, kinds.BOOTSTRAP_CHECKPOINT)
_JOINED = "if archives were joined, name each of them"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    RecursionError,  # tarfile, of a thousand extended headers in a row
    struct.error,
)


def is_packed(path: PurePath) -> bool:
    """Whether the file name is that of an archive or compressed file of any kind."""
    return _PACKED.fullmatch(path.name.lower()) is not None


def is_archive(path: PurePath) -> bool:
    """Whether the file name is that of an archive."""
    return path.name.lower().endswith(SUFFIXES)


def begins_as_one(head: bytes) -> bool:
    """Whether these are the first bytes of an archive, or of a compressed file."""
    return head.startswith(_BEGINNINGS) or head[257:262] == b"ustar"


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file of a capture. path: its name inside it. local: where it is, or would be if it had been copied.
    sha256: hex; None: not known yet. modified: when an archive says that it was last written; None if none does."""

    path: PurePosixPath
    local: Local
    sha256: str | None = None
    modified: Modified | None = None


Refused = list[tuple[str, str]]


def unpack(
    archive: Path, folder: Path, limits: Limits = DEFAULT_LIMITS, named: str | None = None
) -> tuple[list[Member], Refused]:
    """(the archive's regular files, in its order, in memory or in `folder`, an empty one; member and reason of each one
    that is left out). An archive inside the archive is a file: it is not opened.

    named: the archive's name in messages; None: its path.
    Errors: CaptureError when the archive is damaged, cut off, or has more than `limits` allow, or the disk is full.
    """
    named = named or str(archive)
    work = _Unpacking(archive, folder, limits, named)
    try:
        if archive.name.lower().endswith(".zip"):
            work.unpack_zip()
        else:
            work.unpack_tar()
    except _UNREADABLE as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            where = f"{folder.parent}: {error.strerror}. Make room there, or set TMPDIR to another folder."
            raise CaptureError(f"{named}: cannot be unpacked in {where}") from error
        why = getattr(error, "strerror", None) or str(error) or "it ends too early"
        raise CaptureError(f"{named}: the archive cannot be read: {why}. Copy it again from its source.") from error
    return work.found, work.names.refused


class Names:
    """The names taken in a capture; refused: (name, reason) of the others. inside: 'archive' or 'capture', for
    the reasons."""

    def __init__(self, inside: str) -> None:
        self.inside = inside
        self.files: set[tuple[str, ...]] = set()
        self.folders: set[tuple[str, ...]] = set()
        self.refused: Refused = []

    def take(self, name: str, reason: str | None = None) -> bool:
        """Take a name, or record why it is left out. reason: why it is left out even if the name is good."""
        parts = PurePosixPath(name).parts
        reason = _name_refusal(name, parts, self.inside) or reason or self._conflict(parts)
        if reason:
            self.refused.append((spelled_out(name), reason))
        return reason is None

    def _conflict(self, parts: tuple[str, ...]) -> str | None:
        # Some file systems ignore case and normalise Unicode; names that are equal there would overwrite each other.
        key = tuple(unicodedata.normalize("NFC", component).casefold() for component in parts)
        parents = {key[:length] for length in range(1, len(key))}
        if key in self.files:
            return f"the name occurs twice in the {self.inside}"
        if key in self.folders or parents & self.files:
            return "the name is both a file and a folder"
        self.files.add(key)
        self.folders |= parents
        return None


class _Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Counted(io.BufferedIOBase):
    """A stream whose output counts against the archive's limit."""

    def __init__(self, stream: _Source, work: "_Unpacking") -> None:
        self.stream = stream
        self.work = work
        self.count = 0
        self.zeros_from = 0

    def read(self, size: int | None = None, /) -> bytes:
        chunk = self.stream.read(size or _CHUNK_BYTES)
        if used := len(chunk.rstrip(b"\0")):
            self.zeros_from = self.count + used
        self.count += len(chunk)
        self.work.spend(len(chunk))
        return chunk


class _Header(tarfile.TarInfo):
    """A member's header. One that is damaged is an error: tarfile takes it for the end, and the rest would be lost."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> "_Header":
        position = tar.offset
        try:
            return super().fromtarfile(tar)
        except tarfile.InvalidHeaderError as error:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"byte {position}: {error}") from error


class _Unpacking:
    def __init__(self, archive: Path, folder: Path, limits: Limits, named: str) -> None:
        self.archive = archive
        self.folder = folder
        self.limits = limits
        of_ratio = limits.compression_ratio * max(archive.stat().st_size, _LEAST_BYTES)
        self.most_bytes = min(limits.capture_bytes, of_ratio)
        self.setting = "compression_ratio" if of_ratio < limits.capture_bytes else "capture_bytes"
        self.bytes = 0
        self.named = named
        self.members = 0
        self.names = Names("archive")
        self.found: list[Member] = []
        self.held_bytes = 0

    def spend(self, count: int) -> None:
        self.bytes += count
        if self.bytes > self.most_bytes:
            allowed = f"{self.most_bytes} bytes, which limits.{self.setting} = {getattr(self.limits, self.setting)}"
            raise CaptureError(
                f"{self.named}: the archive unpacks to more than {allowed} allows: it may be a decompression bomb. "
                "If it is not, unpack it yourself and name the folder, or raise the setting."
            )
        if self.members > self.limits.capture_files:
            raise CaptureError(
                f"{self.named}: the archive has more than limits.capture_files = {self.limits.capture_files} members. "
                "If you trust it, raise the setting."
            )

    def unpack_tar(self) -> None:
        with _open_tar(self.archive) as raw:
            counted = _Counted(raw, self)
            with tarfile.open(fileobj=counted, mode="r|", bufsize=_TAR_BUFFER_BYTES, tarinfo=_Header) as tar:
                for member in tar:
                    self.members += 1
                    self.spend(0)
                    refusal = None if member.isreg() else "not a regular file"
                    if member.isdir() or not self.names.take(member.name, refusal):
                        continue
                    source = tar.extractfile(member)
                    if source is not None:
                        # The holes of a sparse file are no bytes of the tar: they count here, its data twice.
                        content = _Counted(source, self) if member.issparse() else source
                        self._take(member.name, content, _tar_time(member))
                while counted.read():
                    pass
                # Every tar ends with blocks of zeros. One that ends with a member was cut off.
                if tar.offset >= counted.count:
                    raise tarfile.ReadError("the end-of-archive blocks are missing: it was cut off")
                if counted.zeros_from > tar.offset:
                    raise tarfile.ReadError(f"byte {tar.offset}: it ends there, and other bytes follow: {_JOINED}")
                # Zeros that were never written look like the end, too: two blocks, and what a record lacks after them.
                zeros = counted.count - tar.offset
                if zeros > tarfile.RECORDSIZE + 2 * tarfile.BLOCKSIZE:
                    raise tarfile.ReadError(
                        f"byte {tar.offset}: it ends there, and {zeros} zero bytes follow, where members may be missing"
                    )

    def unpack_zip(self) -> None:
        with zipfile.ZipFile(self.archive) as zipped:
            if first := min((info.header_offset for info in zipped.infolist()), default=0):
                raise zipfile.BadZipFile(f"byte {first}: it begins there, after other bytes: {_JOINED}")
            with self.archive.open("rb") as raw:
                end = raw.seek(-_ZIP_END_BYTES - len(zipped.comment), io.SEEK_END)
                if raw.read(len(_ZIP_END)) != _ZIP_END:
                    raise zipfile.BadZipFile(f"byte {end}: other bytes follow its end: {_JOINED}")
            for info in zipped.infolist():
                self.members += 1
                self.spend(0)
                if info.filename.endswith("/") or not self.names.take(info.filename, _zip_refusal(info)):
                    continue
                with zipped.open(info) as source:
                    self._take(info.filename, _Counted(source, self), _zip_time(info))

    def _take(self, name: str, source: _Source, modified: Modified | None) -> None:
        path, start = PurePosixPath(name), b""
        while len(start) <= _SMALL_BYTES and (chunk := source.read(_SMALL_BYTES + 1 - len(start))):
            start += chunk
        digest, local = hashlib.sha256(start), Held(f"{self.named}: {spelled_out(name)}", start)
        fits = len(start) <= _SMALL_BYTES and self.held_bytes + len(start) <= _HELD_BYTES
        if fits and kinds.classify(path) not in READ_BY_TASKS:
            self.held_bytes += len(start)
            self.found.append(Member(path, local, digest.hexdigest(), modified))
            return
        target = self.folder / str(len(self.found))
        with target.open("xb") as out:
            out.write(start)
            while chunk := source.read(_CHUNK_BYTES):
                digest.update(chunk)
                out.write(chunk)
        self.found.append(Member(path, target, digest.hexdigest(), modified))


def _tar_time(member: tarfile.TarInfo) -> Modified | None:
    """A member's modification time: whole seconds, unless a pax header has a fraction."""
    exact = _EXACT_TIME.fullmatch(member.pax_headers.get("mtime", ""))
    if exact and exact[2].strip("0"):
        at_ms = int(exact[1]) * 1000 + int(exact[2][:3].ljust(3, "0"))
        return Modified(at_ms, 1) if at_ms <= MAX_TIME_MS else None
    return of_seconds(int(member.mtime)) if 0 <= member.mtime <= MAX_TIME_MS else None


def _zip_time(info: zipfile.ZipInfo) -> Modified | None:
    """An entry's modification time: Info-ZIP's extended timestamp (seconds, UTC) if it has one, else the entry's own,
    which is local time of an unknown zone in steps of two seconds."""
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
    """The tar's bytes, decompressed according to its first bytes."""
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


def _name_refusal(name: str, parts: tuple[str, ...], inside: str) -> str | None:
    if name.startswith("/") or ".." in parts or "\x00" in name:
        return f"a path outside the {inside}"
    if "\\" in name:
        return "a path with backslashes, as Windows writes it: / is needed"
    if not parts:
        return "no name"
    sizes = [len(component.encode("utf-8", "surrogateescape")) for component in parts]
    if max(sizes) > _MAX_NAME_BYTES or sum(sizes) + len(sizes) > _MAX_PATH_BYTES:
        return f"a name longer than {_MAX_NAME_BYTES} bytes, or a path longer than {_MAX_PATH_BYTES}"
    return None


def _zip_refusal(info: zipfile.ZipInfo) -> str | None:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return "not a regular file"
    if info.flag_bits & 0x1:
        return "encrypted"
    # For other methods Python's zipfile does not limit what one read returns (CPython gh-156002).
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"compressed with method {info.compress_type}: repack it with deflate"
    return None
