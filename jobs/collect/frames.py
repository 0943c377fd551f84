"""What node.sh prints, as files in a folder, facts, and what is missing. The node is not trusted: no name leads out of
the folder, and nothing is written twice."""

import gzip
import io
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

# The most of a file that is sent at once when it is followed.
PIECE_BYTES = 8 << 20
_CHUNK_BYTES = 1 << 20
# A file that is not whole yet; no file of a node has this name.
COMING = ".coming"
_MAX_BUNDLE_BYTES = 256 << 20
_MAX_LINE_BYTES = 1 << 16
PLAIN_NAME = re.compile(rb"[A-Za-z0-9._/-]+")
_NAME = re.compile(rb"n:[A-Za-z0-9._/-]+|x:(?:[0-9a-f]{2})+")
_SIZE = re.compile(rb"[0-9]{1,15}")
# Names of any bytes are in a listing: compressed, nothing takes it for a tool's output.
_LISTING = re.compile(r"listing-[a-z0-9]+\.txt")

_SOMETHING_ELSE = "the node sent something else than its files"


class BrokenStream(Exception):
    """The stream ended too early, or is not what node.sh prints."""


@dataclass(slots=True)
class Received:
    """What came from a node. files: names of whole files; facts; told_ms: when each fact had come, by this machine's
    clock; missing: what is not there, and why; gone: names of files that are here, and not on the node any more; more:
    a file that is followed has more than was sent; done: node.sh came to its end."""

    files: set[str] = field(default_factory=set)
    facts: dict[str, str] = field(default_factory=dict)
    told_ms: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    more: bool = False
    done: bool = False


def receive(stream: BinaryIO, folder: Path, received: Received) -> None:
    """Read the stream to its end mark. Files get the time when their last byte came as modification time.

    Errors: BrokenStream; `received` has what was whole until then.
    """
    while not received.done:
        match _line(stream).split(b" "):
            case [b"V", key, value]:
                received.facts[key.decode("latin-1")] = _text(value)
                received.told_ms[key.decode("latin-1")] = time.time_ns() // 1_000_000 + 1
            case [b"M", name, reason]:
                received.missing.append(f"{shown(_name(name))}: {_text(reason)}")
            case [b"F", name, size] if _SIZE.fullmatch(size):
                _receive_file(stream, folder, _name(name), int(size), received)
            case [b"A", name, start, size] if _SIZE.fullmatch(start) and _SIZE.fullmatch(size):
                _receive_piece(stream, folder, _name(name), int(start), int(size), received)
            case [b"G", name]:
                if not _is_refused(_name(name), received):
                    received.gone.append(_name(name))
            case [b"B", count, size] if _SIZE.fullmatch(count) and _SIZE.fullmatch(size):
                _receive_bundle(stream, folder, int(count), int(size), received)
            case [b"D"]:
                received.done = True
            case _:
                raise BrokenStream(_SOMETHING_ELSE)


def shown(name: str) -> str:
    """A file name of any bytes, printable."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)


def _line(stream: BinaryIO) -> bytes:
    line = stream.readline(_MAX_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise BrokenStream("the connection ended before everything was sent")
    return line[:-1]


def _text(value: bytes) -> str:
    try:
        return bytes.fromhex(value.decode("ascii")).decode("utf-8", "backslashreplace")
    except ValueError as error:
        raise BrokenStream(_SOMETHING_ELSE) from error


def _name(value: bytes) -> str:
    if _NAME.fullmatch(value) is None:
        raise BrokenStream("the node sent a name that cannot be read")
    return os.fsdecode(value[2:] if value.startswith(b"n:") else bytes.fromhex(value[2:].decode()))


def _is_refused(name: str, received: Received) -> bool:
    path = PurePosixPath(name)
    refused = path.is_absolute() or ".." in path.parts or "\0" in name or not path.parts or name in received.files
    if refused:
        received.missing.append(f"{shown(name)}: a name that is refused")
    return refused


def _receive_file(stream: BinaryIO, folder: Path, name: str, size: int, received: Received) -> None:
    if _is_refused(name, received):
        with Path(os.devnull).open("wb") as nowhere:
            _copy(stream, nowhere, size)
        return
    target, coming = folder / name, folder / COMING
    try:
        with _written(name):
            with coming.open("wb") as out:
                if not _copy(stream, out, size):
                    return
            target.parent.mkdir(parents=True, exist_ok=True)
            coming.replace(target)
    finally:
        coming.unlink(missing_ok=True)
    if _LISTING.fullmatch(name):
        target.with_name(f"{name}.gz").write_bytes(gzip.compress(target.read_bytes(), mtime=0))
        target.unlink()
    else:
        os.utime(target)  # it was read by now
    received.files.add(name)


@contextmanager
def _written(name: str) -> Iterator[None]:
    """A file is written here in the block. Errors: BrokenStream if it cannot be."""
    try:
        yield
    except OSError as error:
        raise BrokenStream(f"{shown(name)}: cannot be written here: {error.strerror}") from error


def _receive_piece(stream: BinaryIO, folder: Path, name: str, start: int, size: int, received: Received) -> None:
    """Append to a file, or, from byte 0, put a new one in its place; but only a whole piece."""
    content = io.BytesIO()
    if size > PIECE_BYTES:
        raise BrokenStream(_SOMETHING_ELSE)
    if not _copy(stream, content, size) or _is_refused(name, received):
        return
    target, coming = folder / name, folder / COMING
    with _written(name):
        if start:
            if not target.is_file() or target.stat().st_size != start:
                raise BrokenStream(_SOMETHING_ELSE)
            with target.open("ab") as out:
                out.write(content.getbuffer())
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            coming.write_bytes(content.getbuffer())
            coming.replace(target)
    received.files.add(name)
    received.more |= size == PIECE_BYTES


def _receive_bundle(stream: BinaryIO, folder: Path, count: int, total: int, received: Received) -> None:
    """Many small files as one: all of them were the same before and after, or all are sent again."""
    listed: list[tuple[str, int]] = []
    for _ in range(count):
        quoted, _, length = _line(stream).partition(b" ")
        if _SIZE.fullmatch(length) is None:
            raise BrokenStream(_SOMETHING_ELSE)
        listed.append((_name(quoted), int(length)))
    if sum(size for _, size in listed) != total or total > _MAX_BUNDLE_BYTES:
        raise BrokenStream(_SOMETHING_ELSE)
    content = io.BytesIO()
    if not _copy(stream, content, total):
        return
    content.seek(0)
    for name, size in listed:
        data = content.read(size)
        if _is_refused(name, received):
            continue
        target = folder / name
        with _written(name):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        received.files.add(name)


def _copy(stream: BinaryIO, out: BinaryIO, size: int) -> bool:
    """Copy `size` bytes and read the line after them: whether the file was the same before and after."""
    while size:
        chunk = stream.read(min(size, _CHUNK_BYTES))
        if not chunk:
            raise BrokenStream("the connection ended inside a file")
        out.write(chunk)
        size -= len(chunk)
    _line(stream)
    end = _line(stream)
    if end not in (b"E same", b"E changed"):
        raise BrokenStream(_SOMETHING_ELSE)
    return end == b"E same"
