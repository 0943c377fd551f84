"""Write and read single files, at a path or a URL."""

from __future__ import annotations

import os
from contextlib import suppress

from pyarrow.fs import FileSystem

from evidence.capture.remote import Location, Remote


def shown(target: Location) -> str:
    """Where a file is, for messages: an absolute path, or a URL without secrets."""
    return str(target if isinstance(target, Remote) else target.resolve())


def write_whole(target: Location, text: str) -> None:
    """Write a file completely or not at all; missing folders are created. Errors: OSError."""
    if isinstance(target, Remote):
        system, path = FileSystem.from_uri(target.url)
        with system.open_output_stream(path) as file:
            file.write(text.encode())
        return
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")  # e.g. a device
        return
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(target)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def first_bytes(target: Location, count: int) -> bytes:
    """The first bytes of a file; nothing if there is no such file."""
    with suppress(OSError):
        if isinstance(target, Remote):
            system, path = FileSystem.from_uri(target.url)
            with system.open_input_stream(path) as remote:
                return bytes(remote.read(count))
        if target.is_file():
            with target.open("rb") as file:
                return file.read(count)
    return b""
