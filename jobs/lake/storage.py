"""Where a lake is: a folder, or a URL of an object store (s3://, gs://, abfs://). Arrow's file systems read and write
the files of its tables, and delta-rs the tables' logs. Both take credentials and the endpoint from the environment
(AWS_*, GOOGLE_*, AZURE_*).
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pyarrow import NativeFile
from pyarrow.fs import FileSystem, LocalFileSystem, copy_files

from evidence.capture.remote import Location, Remote
from evidence.errors import KraftForensicsError

# deltalake converts a path to a URL, where these characters have another meaning or are illegal.
_MISREAD = re.compile(r"[%\[\]\\^|\x00-\x1f\x7f]")
_STEP_BYTES = 4 << 20
SCRATCH = "_scratch"  # folder of a lake with files that no commit names
_STORES = ("s3", "gs", "abfs", "abfss")
_AT_ONCE = 8
_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


class LakeError(KraftForensicsError):
    """The lake is missing or cannot be used."""


def check_root(root: Location) -> None:
    """Check that a lake can be at this place. Errors: LakeError for a store that is not supported, or a path that
    deltalake would misread."""
    if isinstance(root, Remote):
        if root.scheme not in _STORES:
            raise LakeError(f"{root}: a lake cannot be there. Give a folder, or a URL with {', '.join(_STORES)}.")
        # Libraries quote the URL in their errors. An abfs URL has the container's name before the @.
        place = root.url.partition("://")[2].partition("/")[0]
        if "?" in root.url or ":" in place.partition("@")[0] or ("@" in place and not root.scheme.startswith("abfs")):
            raise LakeError(f"{root}: a lake's URL must hold no credentials: set them in the environment.")
    elif found := _MISREAD.search(str(root.resolve())):
        raise LakeError(f"{str(root)!r}: a lake's path must not contain {found[0]!r}. Choose another --lake.")


def within(root: Location, name: str) -> Location:
    """A file or folder below a folder or URL."""
    return Remote(f"{root.url.rstrip('/')}/{name}") if isinstance(root, Remote) else root / name


class HashingSink:
    """A new file whose bytes are hashed as they are written, so that they need not be read again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()

    @property
    def closed(self) -> bool:
        return bool(self._file.closed)

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """What is written is complete when the file is closed."""

    def close(self) -> None:
        self._file.close()


class Storage:
    """The files below one folder or URL. A task gets a copy, which opens its own connections. Errors of all methods:
    OSError."""

    def __init__(self, root: Location) -> None:
        self.root = root if isinstance(root, Remote) else root.resolve()

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root}

    @cached_property
    def _arrow(self) -> tuple[FileSystem, str]:
        """Arrow's file system, and the root's path in it."""
        if isinstance(self.root, Remote):
            # A small object of S3 is written in one request instead of three.
            option = "?allow_delayed_open=true" if self.root.scheme == "s3" else ""
            system, path = FileSystem.from_uri(self.root.url + option)
            return system, path.rstrip("/")
        return LocalFileSystem(), str(self.root)

    @property
    def system(self) -> FileSystem:
        return self._arrow[0]

    def path(self, name: str) -> str:
        """The path of a file or folder in `system`."""
        return f"{self._arrow[1]}/{name}"

    def url(self, name: str) -> str:
        """The path or URL of a folder, as delta-rs and Spark take it."""
        return self.root.url.rstrip("/") + f"/{name}" if isinstance(self.root, Remote) else str(self.root / name)

    def answers(self, asked: Callable[[_Item], _Answer], items: Iterable[_Item]) -> list[_Answer]:
        """The answer for each item, in order. A store answers slowly, so it is asked for several at once."""
        if isinstance(self.root, Path):
            return list(map(asked, items))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(asked, items))

    @property
    def delta_options(self) -> dict[str, str] | None:
        """Options of delta-rs that it does not take from the environment."""
        plain_http = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        return {"allow_http": "true"} if isinstance(self.root, Remote) and plain_http else None

    def new(self, name: str) -> BinaryIO:
        """Open a new file to write. It is complete when it is closed."""
        if isinstance(self.root, Path):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        return self.system.open_output_stream(self.path(name))

    def has(self, name: str) -> bool:
        """Whether there is such a file. One request."""
        try:
            self.open(name).close()
        except FileNotFoundError:
            return False
        return True

    def open(self, name: str) -> NativeFile:
        return self.system.open_input_file(self.path(name))

    def sha256(self, name: str) -> str:
        """SHA-256 of a file, hex."""
        with self.system.open_input_stream(self.path(name), buffer_size=_STEP_BYTES) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def copy_in(self, folder: Path, name: str) -> None:
        """Copy the files of a local folder."""
        copy_files(str(folder), self.path(name), LocalFileSystem(), self.system)

    def empty(self, name: str) -> None:
        """Delete what is in a folder, if it is there and can be deleted."""
        with suppress(OSError):
            self.system.delete_dir_contents(self.path(name))

    def delete(self, name: str) -> None:
        """Delete a file, if it is there and can be deleted."""
        with suppress(OSError):
            self.system.delete_file(self.path(name))


def shown(target: Location) -> str:
    """Where a file is, for messages: an absolute path, or a URL without secrets."""
    return str(target if isinstance(target, Remote) else target.resolve())


def write_whole(target: Location, text: str) -> None:
    """Write a file completely or not at all; missing folders are created. Errors: KraftForensicsError."""
    try:
        if isinstance(target, Remote):
            system, path = _placed(target)
            with system.open_output_stream(path) as file:
                file.write(text.encode())
        else:
            _write_here(target.resolve(), text)
    except OSError as error:
        raise KraftForensicsError(f"{target}: cannot be written: {error.strerror or error}.") from error


def _write_here(target: Path, text: str) -> None:
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
        if isinstance(target, Remote) or target.is_file():
            system, path = _placed(target)
            with system.open_input_stream(path, compression=None) as file:
                return bytes(file.read(count))
    return b""


def delete(target: Location) -> None:
    """Delete a file, if it is there and can be deleted."""
    with suppress(OSError):
        system, path = _placed(target)
        system.delete_file(path)


def _placed(target: Location) -> tuple[FileSystem, str]:
    return FileSystem.from_uri(target.url) if isinstance(target, Remote) else (LocalFileSystem(), str(target))
