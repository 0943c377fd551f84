"""A capture: a folder, an archive (.tar, .tar.gz, .tar.xz, .zip) or a single file, opened read-only.

An archive is unpacked into a fresh private folder, member by member, within bounds (EVIDENCE.md 46); what must not be
unpacked is reported, not followed. Nothing of a capture is ever written to.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from evidence import kinds
from evidence.errors import CaptureError
from evidence.text_files import read_properties

MAX_MEMBERS = 1_000_000
MAX_TOTAL_BYTES = 64 << 30
MAX_RATIO = 1000
_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """One file of a capture. local: where its bytes can be read; path: its name inside the capture."""

    local: Path
    path: str
    kind: str
    size_bytes: int
    sha256: str
    node_id: int | None
    captured_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Capture:
    """An opened capture. refused: (member, reason) of archive members that were not unpacked."""

    name: str
    cluster_id: str | None
    files: list[EvidenceFile]
    refused: list[tuple[str, str]] = field(default_factory=list)


def capture_name(location: Path) -> str:
    """The capture's name: the file or folder name without archive suffixes."""
    name = location.name
    for suffix in (*_TAR_SUFFIXES, ".zip"):
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


@contextmanager
def open_capture(location: Path) -> Iterator[Capture]:
    """Open, hash and classify everything in a capture; an archive's private copy is gone when the block ends.

    Errors: CaptureError for a path that does not exist, a folder without files, an archive that cannot be read, or
    files of more than one cluster.
    """
    if not location.exists():
        raise CaptureError(
            f"{location}: no such file or folder. Name a capture: a folder, an archive or a log segment."
        )
    location = location.resolve()
    if location.is_dir():
        yield _register(capture_name(location), location, [])
    elif location.name.endswith((*_TAR_SUFFIXES, ".zip")):
        folder = Path(tempfile.mkdtemp(prefix="kraft-forensics-"))
        try:
            refused = _unpack(location, folder)
            yield _register(capture_name(location), _strip_single_folder(folder), refused)
        finally:
            shutil.rmtree(folder)
    else:
        yield _single_file(location)


def _single_file(location: Path) -> Capture:
    path = PurePosixPath(location.name)
    kind = kinds.classify(PurePosixPath(*location.parts[-3:]))
    kind = kinds.METADATA_SEGMENT if kind == kinds.OTHER else kind
    entry = EvidenceFile(location, str(path), kind, location.stat().st_size, sha256_of(location), None, None)
    return Capture(capture_name(location), None, [entry])


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _strip_single_folder(folder: Path) -> Path:
    """An archive that holds one folder is that folder: the same capture has the same paths, packed or not."""
    entries = list(folder.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else folder


def _register(name: str, root: Path, refused: list[tuple[str, str]]) -> Capture:
    found = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    links = [(str(p.relative_to(root)), "a link: not followed") for p in root.rglob("*") if p.is_symlink()]
    if not found:
        raise CaptureError(
            f"{root.name or name}: no files in this capture. Expected metadata logs and broker snapshots."
        )
    nodes, clusters = _identities(root, found)
    if len(clusters) > 1:
        raise CaptureError(
            f"{name}: files of {len(clusters)} clusters ({', '.join(sorted(clusters))}) in one capture. "
            "Offsets of different clusters must not be mixed: capture each cluster on its own."
        )
    entries = []
    for local in found:
        path = PurePosixPath(local.relative_to(root).as_posix())
        node = next((nodes[p] for p in path.parents if p in nodes), None)
        node = kinds.node_in_path(path) if node is None else node
        entries.append(
            EvidenceFile(
                local,
                str(path),
                kinds.classify(path),
                local.stat().st_size,
                sha256_of(local),
                node,
                kinds.captured_at(path),
            )
        )
    return Capture(name, next(iter(clusters), None), entries, [*refused, *links])


def _identities(root: Path, found: list[Path]) -> tuple[dict[PurePosixPath, int], set[str]]:
    """Node ids by folder, from meta.properties and server.properties; and every cluster id that is named."""
    nodes: dict[PurePosixPath, int] = {}
    clusters: set[str] = set()
    for local in found:
        path = PurePosixPath(local.relative_to(root).as_posix())
        if kinds.classify(path) not in (kinds.META_PROPERTIES, kinds.SERVER_PROPERTIES):
            continue
        properties = read_properties(local.read_bytes())
        node = properties.get("node.id", properties.get("broker.id", ""))
        if node.isdigit():
            nodes[path.parent] = int(node)
        if "cluster.id" in properties:
            clusters.add(properties["cluster.id"])
    return nodes, clusters


def _refusal(name: str) -> str | None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or "\x00" in name:
        return "a path that leads out of the archive"
    return "a name longer than 255 bytes" if any(len(p.encode("utf-8", "replace")) > 255 for p in path.parts) else None


def _unpack(archive: Path, folder: Path) -> list[tuple[str, str]]:
    try:
        if archive.suffix == ".zip":
            return _unpack_zip(archive, folder)
        return _unpack_tar(archive, folder)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise CaptureError(f"{archive}: the archive cannot be read: {error}. Copy it again from its source.") from error


class _Budget:
    """Counts what an archive unpacks to; the bounds are on what comes out, never on what headers promise."""

    def __init__(self, archive: Path) -> None:
        self.archive = archive
        self.left = min(MAX_TOTAL_BYTES, MAX_RATIO * max(archive.stat().st_size, 1 << 20))
        self.members = 0

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0 or self.members > MAX_MEMBERS:
            raise CaptureError(
                f"{self.archive}: the archive unpacks to more than is allowed: it may be a decompression bomb."
            )


def _copy_member(source: object, target: Path, budget: _Budget) -> None:
    budget.members += 1
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as out:
        while chunk := source.read(_CHUNK):  # type: ignore[attr-defined]
            budget.spend(len(chunk))
            out.write(chunk)


def _unpack_tar(archive: Path, folder: Path) -> list[tuple[str, str]]:
    refused: list[tuple[str, str]] = []
    seen: set[str] = set()
    budget = _Budget(archive)
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            if member.isdir():
                continue
            reason = _refusal(member.name) or (None if member.isreg() else "not a regular file")
            reason = reason or ("the name stands twice in the archive" if member.name.lower() in seen else None)
            source = None if reason else tar.extractfile(member)
            if source is None:
                refused.append((member.name, reason or "no content"))
                continue
            seen.add(member.name.lower())
            _copy_member(source, folder / member.name, budget)
    return refused


def _unpack_zip(archive: Path, folder: Path) -> list[tuple[str, str]]:
    refused: list[tuple[str, str]] = []
    seen: set[str] = set()
    budget = _Budget(archive)
    with zipfile.ZipFile(archive) as zipped:
        for info in zipped.infolist():
            if info.is_dir():
                continue
            mode = info.external_attr >> 16
            reason = _refusal(info.filename) or ("a link" if (mode & 0o170000) == 0o120000 else None)
            reason = reason or ("the name stands twice in the archive" if info.filename.lower() in seen else None)
            if reason:
                refused.append((info.filename, reason))
                continue
            seen.add(info.filename.lower())
            with zipped.open(info) as source:
                _copy_member(source, folder / info.filename, budget)
    return refused
