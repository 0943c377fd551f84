"""A capture: a folder, an archive (.tar, .tar.gz, .tar.xz, .zip) or a single file, opened read-only.

An archive is unpacked into a fresh private folder, member by member and within bounds (evidence/archive.py); what must
not be unpacked is reported, not followed. Nothing of a capture is ever written to.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from evidence import archive, kinds
from evidence.errors import CaptureError, printable
from evidence.text_files import read_properties


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """One file of a capture. local: where its bytes can be read; path: its name inside the capture.

    modified_ns: its modification time when it was hashed; None: `read` does not compare it.
    """

    local: Path
    path: str
    kind: str
    size_bytes: int
    sha256: str
    node_id: int | None
    captured_at_ms: int | None
    modified_ns: int | None = None

    def read(self) -> bytes:
        """The file's bytes. Errors: CaptureError when the file cannot be read or is not what was hashed any more."""
        with _readable(self.local):
            data = self.local.read_bytes()
            modified_ns = self.local.stat().st_mtime_ns
        if len(data) != self.size_bytes or self.modified_ns not in (None, modified_ns):
            raise _changed(self.local)
        return data


@dataclass(frozen=True, slots=True)
class Capture:
    """An opened capture. refused: (name, reason) of what was not taken: links, special files, members of an archive."""

    name: str
    cluster_id: str | None
    files: list[EvidenceFile]
    refused: list[tuple[str, str]] = field(default_factory=list)


def capture_name(location: Path) -> str:
    """The capture's name: the file or folder name without archive suffixes."""
    name = location.name
    suffixes = [s for s in archive.SUFFIXES if name.lower().endswith(s)]
    return name[: -len(max(suffixes, key=len))] if suffixes else name


@contextmanager
def open_capture(location: Path) -> Iterator[Capture]:
    """Open, hash and classify everything in a capture; an archive's private copy is gone when the block ends.

    Errors: CaptureError for a path that does not exist, a folder without files, an archive or file that cannot be read
    or changes meanwhile, or files of more than one cluster.
    """
    if not location.exists():
        raise CaptureError(
            f"{location}: no such file or folder. Name a capture: a folder, an archive or a log segment."
        )
    location = location.resolve()
    if location.is_dir():
        yield _register(location, location, [])
    elif not location.is_file():
        raise CaptureError(
            f"{location}: neither a file nor a folder. Name a capture: a folder, an archive or a log segment."
        )
    elif archive.is_archive(location):
        folder = Path(tempfile.mkdtemp(prefix="kraft-forensics-"))
        try:
            refused = archive.unpack(location, folder)
            yield _register(location, _strip_single_folder(folder), refused)
        finally:
            shutil.rmtree(folder)
    else:
        yield _single_file(location)


def _single_file(location: Path) -> Capture:
    kind = kinds.classify(PurePosixPath(*location.parts[-3:]))
    kind = kinds.METADATA_SEGMENT if kind == kinds.OTHER else kind
    return Capture(capture_name(location), None, [_entry(location, location.name, kind, None, None)])


def _entry(local: Path, path: str, kind: str, node_id: int | None, captured_at_ms: int | None) -> EvidenceFile:
    with _readable(local):
        before = local.stat()
        sha256 = sha256_of(local)
        after = local.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise _changed(local)
    return EvidenceFile(
        local, printable(path), kind, before.st_size, sha256, node_id, captured_at_ms, before.st_mtime_ns
    )


def _changed(local: Path) -> CaptureError:
    return CaptureError(
        f"{local}: the file changed while it was read. Evidence must stand still: copy the node's files first, "
        "then name the copy."
    )


@contextmanager
def _readable(local: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CaptureError(
            f"{local}: cannot be read: {error.strerror}. Check the permissions, or copy it again."
        ) from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _strip_single_folder(folder: Path) -> Path:
    """An archive that holds one folder is that folder: the same capture has the same paths, packed or not."""
    entries = list(folder.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else folder


def _register(location: Path, root: Path, refused: list[tuple[str, str]]) -> Capture:
    found, special = _walk(root)
    if not found:
        raise CaptureError(f"{location}: no files in this capture. Expected metadata logs and broker snapshots.")
    nodes, clusters = _identities(root, found)
    if len(clusters) > 1:
        raise CaptureError(
            f"{location}: files of {len(clusters)} clusters ({', '.join(sorted(clusters))}) in one capture. "
            "Offsets of different clusters must not be mixed: capture each cluster on its own."
        )
    entries = []
    for local in found:
        path = PurePosixPath(local.relative_to(root).as_posix())
        node = next((nodes[p] for p in path.parents if p in nodes), None)
        node = kinds.node_in_path(path) if node is None else node
        entries.append(_entry(local, str(path), kinds.classify(path), node, kinds.captured_at(path)))
    return Capture(capture_name(location), next(iter(clusters), None), entries, [*refused, *special])


def _walk(root: Path) -> tuple[list[Path], list[tuple[str, str]]]:
    """The regular files below `root`, sorted; and (name, reason) of everything else. Links are not followed."""

    def unreadable(error: OSError) -> None:
        raise CaptureError(f"{error.filename}: cannot be read: {error.strerror}. Check the permissions.") from error

    found: list[Path] = []
    special: list[tuple[str, str]] = []
    for folder, folders, names in os.walk(root, onerror=unreadable):
        for local in (Path(folder, name) for name in (*folders, *names)):
            if local.is_symlink():
                special.append((printable(str(local.relative_to(root))), "a link: not followed"))
            elif local.is_file():
                found.append(local)
            elif not local.is_dir():
                special.append((printable(str(local.relative_to(root))), "not a regular file"))
    return sorted(found), sorted(special)


def _identities(root: Path, found: list[Path]) -> tuple[dict[PurePosixPath, int], set[str]]:
    """Node ids by folder, from meta.properties and server.properties; and every cluster id that is named."""
    nodes: dict[PurePosixPath, int] = {}
    clusters: set[str] = set()
    for local in found:
        path = PurePosixPath(local.relative_to(root).as_posix())
        if kinds.classify(path) not in (kinds.META_PROPERTIES, kinds.SERVER_PROPERTIES):
            continue
        with _readable(local):
            properties = read_properties(local.read_bytes())
        node = kinds.node_id(properties.get("node.id", properties.get("broker.id", "")))
        if node is not None:
            nodes[path.parent] = node
        if properties.get("cluster.id"):
            clusters.add(properties["cluster.id"])
    return nodes, clusters
