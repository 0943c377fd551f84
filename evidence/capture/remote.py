"""Open a capture in an object store or on a web server, through fsspec (ADR 9). Plain segments and snapshots of the
metadata log in a store are framed as a stream and then read by range; all else is copied to a private folder.

fsspec and the store's own client find credentials, endpoint and region (AWS_*, ~/.aws, FSSPEC_*). A URL may hold
secrets, so only `str(remote)` is shown or stored. Of a client's error only the class is shown: its message may quote a
signed request.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from evidence import kinds
from evidence.capture.archive import READ_BY_TASKS, Names, Refused
from evidence.capture.blocks import Blocks, Local
from evidence.errors import CaptureError, spelled_out
from evidence.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from evidence.wire.batches import Scan

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_SPELLINGS = {"s3a": "s3", "s3n": "s3"}  # Hadoop's
_LOCAL = ("file", "local")
_WEB = ("http", "https")
# Here the name before the @ is a container's; a password would follow a colon.
_AT_IS_A_CONTAINER = ("abfs", "abfss")
# One request per object: all bytes are of one version, and no chunk of a large object is held in memory.
_OPTIONS: dict[str, dict[str, Any]] = {"s3": {"max_concurrency": 1}}
_PACKAGES = {"s3": "Install s3fs: pip install 'kraft-forensics[s3]'"}
_PARALLEL = 16
# The stores' names for an object's size, checksum, time and version.
_IDENTITY = {"size", "etag", "md5hash", "generation", "lastmodified", "last_modified", "last-modified", "updated"}
_NAMED_PARTS = 3
# Each holds some blocks in memory.
_FRAMED_AT_ONCE = 4

Info = dict[str, Any]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Remote:
    """A URL: of a capture (a folder, which is all objects with that prefix, an archive or a single file) or of a lake.

    url: as fsspec takes it, with secrets: never show it.
    """

    url: str = field(repr=False)

    @property
    def scheme(self) -> str:
        return self.url.partition("://")[0]

    def __str__(self) -> str:
        """The URL without user, password, query and fragment."""
        place, slash, path = self.url.partition("://")[2].partition("/")
        user, _, host = place.rpartition("@")
        if user and ":" not in user and self.scheme in _AT_IS_A_CONTAINER:
            host = place
        shown = f"{self.scheme}://{host}{slash}{path}".partition("?")[0]
        return shown.partition("#")[0] if self.scheme in _WEB else shown

    @property
    def parts(self) -> list[str]:
        """The host, bucket or container, and the path components after it."""
        return [name for name in str(self).partition("://")[2].split("/") if name]

    @property
    def name(self) -> str:
        """The last component, as Path.name."""
        return self.parts[-1] if self.parts else ""


Location = Path | Remote


def location(given: str | Location) -> Location:
    """A URL as Remote, anything else as Path. s3a:// and s3n:// become s3://."""
    match = _URL.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        return given if isinstance(given, Remote) else Path(given)
    scheme = match["scheme"].lower()
    return Remote(f"{_SPELLINGS.get(scheme, scheme)}://{match['rest']}")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An object that is read where it is, by the driver and by tasks, as `file[start:end]`: one request for these
    bytes. Errors: CaptureError when it cannot be read, or has changed since it was framed.

    path: as fsspec has it. identity: size, checksum and time that the store reports.
    """

    store: "Store" = field(repr=False, compare=False)
    path: str
    size_bytes: int
    identity: str

    def __str__(self) -> str:
        return self.store.shown(self.path)

    def __len__(self) -> int:
        return self.size_bytes

    def __getitem__(self, where: slice, /) -> bytes:
        start, stop, _ = where.indices(self.size_bytes)
        self._check()
        data = self.store.range(self.path, start, stop) if start < stop else b""
        self._check()
        return data

    def read_bytes(self) -> bytes:
        return self[:]

    def _check(self) -> None:
        if self.store.identity(self.path) != self.identity:
            raise CaptureError(
                f"{self}: the object changed after it was framed. Evidence must not change: copy the capture to its "
                "own prefix, then name that."
            )


# Where a captured file's bytes are.
Source = Local | StoredFile


@dataclass(frozen=True, slots=True)
class Framed:
    """An object that is not copied. sha256: of all its bytes, hex."""

    file: StoredFile
    sha256: str
    scan: "Scan"


def check(remote: Remote) -> None:
    """Check that the URL exists, in one or two requests. Errors: CaptureError when it does not, or cannot be
    reached."""
    Store(remote).info()


def size_bytes(remote: Remote) -> int:
    """The size of an object, or of all objects with the prefix. Errors: as `check`."""
    return sum(info.get("size") or 0 for info in Store(remote).objects().values())


def stage(remote: Remote, folder: Path, limits: Limits = DEFAULT_LIMITS) -> tuple[Path, Refused, dict[Path, Framed]]:
    """Copy the capture into `folder`, without the segments and snapshots of the metadata log that are read in place.

    Returns the copy, a file or a folder; name and reason of each object that was left out: its name would place it
    outside the folder or over another file; and what was not copied, by the path that the copy would have.

    Errors: CaptureError for an object that cannot be reached or read, arrives truncated or changes meanwhile, and for
    more objects or bytes than `limits` allow.
    """
    store = Store(remote)
    found = store.objects()
    _check_limits(remote, found, limits)
    names = Names("capture")
    if list(found) == [store.path]:
        name = "/".join(remote.parts[-_NAMED_PARTS:])  # a log is classified by its folder's name
        if not names.take(name):
            raise CaptureError(f"{remote}: {names.refused[0][1]}. Give the object another name.")
        root, targets = folder / name, {store.path: folder / name}
    else:
        taken = [path for path in sorted(found) if names.take(store.name_of(path), _refusal(path, found[path]))]
        root, targets = folder, {path: folder / store.name_of(path) for path in taken}
    in_place = {p: found[p]["size"] for p in targets if _is_in_place(remote, targets[p].relative_to(folder), found[p])}
    store.copy({path: target for path, target in targets.items() if path not in in_place}, found)
    framed = store.framed(in_place)
    changed = _changed(found, store.objects())
    if changed is not None:
        raise CaptureError(
            f"{store.shown(changed)}: the object changed while the capture was copied. Evidence must not change: "
            "copy the capture to its own prefix, then name that."
        )
    return root, names.refused, {targets[file.file.path]: file for file in framed}


def _is_in_place(remote: Remote, name: Path, info: Info) -> bool:
    """Whether tasks read the object where it is. Not from web servers: few answer with ranges and name a version. Not
    if the URL holds a secret, which tasks must not get."""
    kind = kinds.classify(PurePosixPath(name))
    is_public = remote.scheme not in _WEB and remote.url == str(remote)
    return is_public and kind in READ_BY_TASKS and info.get("size") is not None


def _refusal(path: str, info: Info) -> str | None:
    if info["type"] != "file" or path.endswith("/"):
        return "not a regular file"
    return "a name that refers to a version of another object" if "?versionId=" in path else None


def _check_limits(remote: Remote, found: dict[str, Info], limits: Limits) -> None:
    total = sum(info.get("size") or 0 for info in found.values())
    for name, count, unit in (("capture_files", len(found), "objects"), ("capture_bytes", total, "bytes")):
        if count > getattr(limits, name):
            raise CaptureError(
                f"{remote}: {count} {unit}, limits.{name} = {getattr(limits, name)} allows fewer. Check that the URL "
                "names only the capture. If it does, copy it to a disk and name that folder, or raise the setting."
            )


def _changed(before: dict[str, Info], after: dict[str, Info]) -> str | None:
    """The first object that changed, is new or is missing."""

    return next((p for p in sorted({*before, *after}) if _identity(before.get(p)) != _identity(after.get(p))), None)


def _identity(info: Info | None) -> Info | None:
    return info and {key: value for key, value in info.items() if key.lower() in _IDENTITY}


class Store:
    """fsspec's file system for a URL, with its own connection and without cached listings. A task gets a copy, which
    opens its own connection with the credentials of its machine."""

    def __init__(self, remote: Remote) -> None:
        self.remote = remote

    def __getstate__(self) -> dict[str, Any]:
        return {"remote": self.remote}

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """fsspec's file system, and the URL's path in it."""
        made = _file_system(self.remote)
        with _border(str(self.remote)):
            options = {**made._get_kwargs_from_urls(self.remote.url), **_OPTIONS.get(self.remote.scheme, {})}
            return made(skip_instance_cache=True, **options), str(made._strip_protocol(self.remote.url))

    @property
    def fs(self) -> Any:
        return self._opened[0]

    @property
    def path(self) -> str:
        return self._opened[1]

    def info(self) -> Info:
        fs, path = self._opened
        with _border(str(self.remote)):
            return dict(fs.info(path))

    def identity(self, path: str) -> str:
        """What the store reports of an object now. Errors: CaptureError when it is gone, or cannot be reached."""
        self.fs.invalidate_cache()
        with _border(self.shown(path)):
            found = _identity(dict(self.fs.info(path))) or {}
        return repr(sorted((name.lower(), str(value)) for name, value in found.items()))

    def range(self, path: str, start: int, end: int) -> bytes:
        """An object's bytes [start, end). Errors: CaptureError when they cannot be read, or fewer arrive."""
        with _border(self.shown(path)):
            data = bytes(self.fs.cat_file(path, start=start, end=end))
        if len(data) != end - start:
            raise CaptureError(
                f"{self.shown(path)}: {len(data)} bytes arrived for {end - start} from byte {start} on: the download "
                "was cut off, or the object changed. Try again."
            )
        return data

    def framed(self, sizes: dict[str, int]) -> list[Framed]:
        """Hash and frame objects in one pass, without a copy: a few blocks of each are in memory. sizes: in bytes, by
        path."""
        from evidence.wire.batches import scan_batches  # here, since few commands need it

        def one(path: str) -> Framed:
            identity, size = self.identity(path), sizes[path]
            blocks = Blocks(lambda start, end: self.range(path, start, end), size)
            scan = scan_batches(blocks)
            return Framed(StoredFile(self, path, size, identity), blocks.sha256(), scan)

        return self._each(one, sizes, _FRAMED_AT_ONCE)

    def objects(self) -> dict[str, Info]:
        """Objects by full path: the one object that the URL names, else all with the prefix. Placeholders for folders
        (no bytes, a name that ends with a slash) are left out, as in archives."""
        self.fs.invalidate_cache()
        info = self.info()
        if info["type"] == "file":
            return {self.path: info}
        with _border(str(self.remote)):
            found = self.fs.find(self.path, detail=True)
        return {p: i for p, i in found.items() if i["type"] != "directory" and (i.get("size") or not p.endswith("/"))}

    def name_of(self, path: str) -> str:
        return path.removeprefix(self.path.rstrip("/") + "/")

    def shown(self, path: str) -> str:
        """An object's name in messages, without secrets."""
        return str(self.remote) if path == self.path else f"{self.remote}/{spelled_out(self.name_of(path))}"

    def copy(self, targets: dict[str, Path], found: dict[str, Info]) -> None:
        """Copy objects, several at a time if fsspec's implementation supports it. Errors name the object."""

        def one(path: str) -> None:
            target = targets[path]
            target.parent.mkdir(parents=True, exist_ok=True)
            with _border(self.shown(path)):
                self.fs.get_file(path, str(target))
            size, arrived = found[path].get("size"), target.stat().st_size
            if size not in (None, arrived):
                raise CaptureError(
                    f"{self.shown(path)}: {arrived} bytes arrived, the store reports {size}: the download was cut "
                    "off, or the object changed. Try again."
                )

        self._each(one, targets, _PARALLEL)

    def _each(self, function: Callable[[str], Result], paths: Iterable[str], at_once: int) -> list[Result]:
        with ThreadPoolExecutor(at_once if self.fs.async_impl else 1) as pool:
            return list(pool.map(function, paths))  # an error is raised here; what has not started is cancelled


def _file_system(remote: Remote) -> Any:
    """fsspec's class for a scheme. Errors: CaptureError when there is none, or its package is missing."""
    import fsspec  # here, since few commands need it
    from fsspec.registry import known_implementations

    if remote.scheme in _LOCAL:
        raise CaptureError(f"{remote}: name a capture on this machine by its path.")
    try:
        return fsspec.get_filesystem_class(remote.scheme)
    except ImportError:
        named = known_implementations[remote.scheme].get("err") or "The package for this store is not installed"
        raise CaptureError(f"{remote}: {_PACKAGES.get(remote.scheme, named).rstrip('.')}.") from None
    except ValueError:
        raise CaptureError(
            f"{remote}: fsspec does not support {remote.scheme}://. Use a scheme that it supports, such as s3://."
        ) from None


@contextmanager
def _border(shown: str) -> Iterator[None]:
    """Convert errors of fsspec and its clients to CaptureError, without their messages."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - each client has its own
        raise CaptureError(f"{shown}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """A sentence that quotes nothing from the error. s3fs keeps botocore's error as the cause, fsspec's HTTP file
    system aiohttp's."""
    origin = error.__cause__ or error
    code = getattr(origin, "response", None) or {}
    code = code.get("Error", {}).get("Code", "") if isinstance(code, dict) else ""
    status = getattr(origin, "status", None)
    kind = type(origin).__name__
    if "Credential" in kind:
        return "no credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or the store's variables."
    if code == "NoSuchBucket":
        return "no such bucket. Check the name, and the endpoint (AWS_ENDPOINT_URL) and region."
    if isinstance(error, PermissionError) or status in (401, 403):
        return "no permission to read it, or wrong credentials. Listing and reading objects must be allowed."
    if isinstance(error, FileNotFoundError) and (error is origin or code or status):
        return "no such object or folder. Name a capture: a folder, an archive or a log segment."
    if isinstance(error, OSError) and error.errno:
        kind += f", {os.strerror(error.errno)}"
    return f"cannot be read ({kind}). Check the endpoint, region, network, and free space in the temporary folder."
