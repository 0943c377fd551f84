"""Open a capture read-only: a folder, an archive (.tar, .tar.gz, .tar.xz, .zip) or a single file.

An archive is unpacked into memory and a new private folder, within limits (evidence/capture/archive.py). Members that
must not be unpacked, and links, are reported and not followed. What a URL names is copied into such a folder first,
except what can be read where it is (evidence/capture/remote.py). Nothing is ever written to a capture.
"""

import hashlib
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from evidence import kinds
from evidence.capture import archive, remote
from evidence.capture.archive import Member
from evidence.capture.blocks import Local, mapped
from evidence.capture.clock_bounds import Modified, round_ms
from evidence.capture.manifest import NAMES, Manifest, read_manifest
from evidence.capture.remote import Framed, Location, Remote, Source, StoredFile
from evidence.capture.sniff import HEAD_BYTES, sniff
from evidence.errors import CaptureError, spelled_out
from evidence.limits import DEFAULT_LIMITS, Limits, int32_of
from evidence.text_files import read_properties, whole_lines
from evidence.wire.batches import Bytes, Scan

_MOST_FOLDERS = 200


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """One file of a capture. source: where its bytes can be read; path: its name inside the capture.

    captured_at_ms: when copying it began, by the capturer's clock. clock_error_ms: the largest difference between that
    clock and the controllers'. snapshot_duration_ms: how long copying took; None: use the settings. modified_ns: its
    modification time when it was hashed; None: `read` does not check it. modified: when the archive says that the copy
    was written; None for files that are not from an archive: their own time may be that of any later copy.
    log_utc_offset_ms: the zone of the times in a node's own log, where it does not print one; None: unknown.
    written_ms: when it was last written where it was copied from, by the capturer's clock, and within how many ms after
    that; None: unknown. scan: its batches, if they were framed when it was hashed.
    """

    source: Source
    path: str
    kind: str
    size_bytes: int
    sha256: str
    node_id: int | None
    captured_at_ms: int | None
    modified_ns: int | None = None
    clock_error_ms: int = 0
    snapshot_duration_ms: int | None = None
    modified: Modified | None = None
    log_utc_offset_ms: int | None = None
    written_ms: tuple[int, int] | None = None
    scan: Scan | None = None

    @property
    def local(self) -> Local:
        """The file on this machine. Errors: TypeError for an object that was not copied: a part of the metadata log."""
        if not isinstance(self.source, StoredFile):
            return self.source
        raise TypeError(f"{self.source}: not on this machine")

    def read_within_ms(self, assumed_ms: int) -> int | None:
        """The longest time between captured_at_ms and the read of the file, by the capturer's clock; None if the
        capture time is unknown. assumed_ms: how long a round of copying took if the manifest does not name it."""
        if self.captured_at_ms is None:
            return None
        duration_ms = assumed_ms if self.snapshot_duration_ms is None else self.snapshot_duration_ms
        return round_ms(self.captured_at_ms, duration_ms, self.modified)

    def read(self) -> bytes:
        """The file's bytes. Errors: CaptureError when the file cannot be read or changed since it was hashed."""
        if isinstance(self.source, StoredFile):
            return self.source.read_bytes()
        with self.unchanged():
            return self.local.read_bytes()

    def sliced(self) -> Bytes:
        """The file's bytes. Those of an object are read slice by slice. Errors: as `read`, also when it is sliced."""
        return self.source if isinstance(self.source, StoredFile) else self.read()

    @contextmanager
    def slices(self) -> Iterator[Bytes]:
        """The file's bytes, of which only what is sliced is read. Errors: as `read`, also when it is sliced."""
        if isinstance(self.source, StoredFile):
            yield self.source
            return
        with self.unchanged(), mapped(self.local) as data:
            yield data

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """For code that reads the file itself. Errors: as `read`, when the block ends."""
        with _readable(self.local):
            yield
            now = self.local.stat()
        if now.st_size != self.size_bytes or self.modified_ns not in (None, now.st_mtime_ns):
            raise _changed(self.local)


@dataclass(frozen=True, slots=True)
class Capture:
    """An opened capture. refused: (name, reason) of each entry left out: links, special files, members of an
    archive, archives inside, meta.properties of several nodes. limits: that it was opened with, for the readers of its
    files."""

    name: str
    cluster_id: str | None
    files: list[EvidenceFile]
    refused: list[tuple[str, str]] = field(default_factory=list)
    manifest: Manifest | None = None
    limits: Limits = DEFAULT_LIMITS

    @property
    def manifest_file(self) -> EvidenceFile | None:
        """The file `manifest` was read from, in the top folder."""
        return next((f for f in self.files if f.path in NAMES), None)

    @property
    def is_collected(self) -> bool:
        """Whether `collect` says that it made the capture: files that grow were copied whole, up to a size."""
        return ((self.manifest and self.manifest.collected_by) or "").startswith("kraft-forensics ")

    @property
    def nodes(self) -> set[int]:
        """Each node that at least one file is from."""
        return {f.node_id for f in self.files if f.node_id is not None}


def capture_name(location: Location) -> str:
    """The capture's name: the file or folder name without archive suffixes."""
    name = location.name
    suffixes = [s for s in archive.SUFFIXES if name.lower().endswith(s)]
    return name[: -len(max(suffixes, key=len))] if suffixes else name


def check_location(location: Location) -> None:
    """Check that the location is a file or a folder. Errors: CaptureError when it is none, or when a URL's store cannot
    be reached."""
    if isinstance(location, Remote):
        remote.check(location)
    elif not location.is_dir() and not location.is_file():
        what = "neither a file nor a folder" if location.exists() else "no such file or folder"
        raise CaptureError(f"{location}: {what}. Name a capture: a folder, an archive or a log segment.")


@contextmanager
def open_capture(location: Location, limits: Limits = DEFAULT_LIMITS) -> Iterator[Capture]:
    """Open a capture; hash and classify its files. Private copies (of archives and URLs) are removed when the block
    ends.

    Errors: CaptureError for a capture beyond `limits`, a path that does not exist, a folder without files, an archive
    or file that cannot be read or changes meanwhile, or files of more than one cluster; for a URL as remote.stage.
    """
    if isinstance(location, Remote):
        with private_folder() as folder:
            root, refused, in_place = remote.stage(location, folder, limits)
            with _opened(root, location, refused, in_place, limits) as capture:
                yield capture
        return
    check_location(location)
    location = location.resolve()
    with _opened(location, location, [], {}, limits) as capture:
        yield capture


@contextmanager
def _opened(
    local: Path, location: Location, refused: list[tuple[str, str]], in_place: Mapping[Path, Framed], limits: Limits
) -> Iterator[Capture]:
    """Open the local copy. local: where the location's bytes can be read; in_place: as of remote.stage."""
    if local not in in_place and local.is_dir():
        copied, special = _walk(local, location, limits.capture_files)
        found = [Member(PurePosixPath(each.relative_to(local).as_posix()), each) for each in (*copied, *in_place)]
        yield _register(location, _in_folder(location.name, found), [*refused, *special], limits, in_place)
    elif local not in in_place and archive.is_archive(local):
        with private_folder() as folder:
            members, refused = archive.unpack(local, folder, limits, str(location))
            yield _register(location, _without_single_folder(members), refused, limits, {})
    else:
        # A log is classified by its folder's name.
        path = PurePosixPath(*local.parts[-3:])
        kind = _kind(path, local)
        # A tar begins with its first file, whatever that is.
        unnamed = kinds.classify(path) == kinds.OTHER and archive.begins_as_one(_head(local))
        if unnamed or (kind == kinds.OTHER and archive.is_packed(path)):
            raise CaptureError(
                f"{location}: of archives only {', '.join(archive.SUFFIXES)} are opened: unpack it first, or give it "
                "the ending of what it is."
            )
        kind = kinds.METADATA_SEGMENT if kind == kinds.OTHER else kind
        entry = _entry(Member(PurePosixPath(local.name), local), kind, in_place)
        yield Capture(capture_name(location), None, [entry], limits=limits)


@contextmanager
def private_folder() -> Iterator[Path]:
    """A new folder that only its owner can open, removed with all that is in it when the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="kraft-forensics-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _kind(path: PurePosixPath, local: Local) -> str:
    """The kind of a file, from its name and folder, else from its first bytes: a tool's output may have any name."""
    kind = kinds.classify(path)
    if kind != kinds.OTHER or kinds.is_unfinished(path):
        return kind
    head = _head(local)
    # An archive that is not compressed shows the lines of its members.
    return kinds.OTHER if archive.begins_as_one(head) else sniff(head) or kinds.OTHER


def _head(local: Local) -> bytes:
    with _readable(local), local.open("rb") as stream:
        return stream.read(HEAD_BYTES)


def _entry(found: Member, kind: str, in_place: Mapping[Path, Framed]) -> EvidenceFile:
    path, local = spelled_out(str(found.path)), found.local
    if isinstance(local, Path) and (framed := in_place.get(local)):
        return EvidenceFile(
            framed.file, path, kind, framed.file.size_bytes, framed.sha256, None, None, scan=framed.scan
        )
    with _readable(local):
        before = local.stat()
        sha256 = found.sha256 or sha256_of(local)
        after = local.stat()
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise _changed(local)
    return EvidenceFile(
        local, path, kind, before.st_size, sha256, None, None, before.st_mtime_ns, modified=found.modified
    )


def _changed(local: Local) -> CaptureError:
    return CaptureError(
        f"{local}: the file changed while it was read. Evidence must not change: copy the node's files first, "
        "then name the copy."
    )


@contextmanager
def _readable(local: Location | Local) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CaptureError(
            f"{local}: cannot be read: {error.strerror}. Check the permissions, or copy it again."
        ) from error


def sha256_of(path: Local) -> str:
    """SHA-256 of a file, hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _without_single_folder(members: list[Member]) -> list[Member]:
    """An archive's files; without the folder that all of them are in, so that paths are the same packed and
    unpacked."""
    tops = {each.path.parts[0] for each in members}
    if len(tops) != 1 or any(len(each.path.parts) == 1 for each in members):
        return members
    return _in_folder(tops.pop(), [replace(each, path=PurePosixPath(*each.path.parts[1:])) for each in members])


def _in_folder(name: str, members: list[Member]) -> list[Member]:
    """The files of the folder that is the capture; with its name in their paths if that says whose they are: a node's,
    or of which log. A folder with a manifest has all that is known of them."""
    own = {str(each.path) for each in members if len(each.path.parts) == 1}
    is_known = kinds.says_whose(PurePosixPath(name), own) and own.isdisjoint(NAMES)
    return [replace(each, path=PurePosixPath(name, each.path)) for each in members] if is_known else members


def _register(
    location: Location,
    files: list[Member],
    refused: list[tuple[str, str]],
    limits: Limits,
    in_place: Mapping[Path, Framed],
) -> Capture:
    if not files:
        why = "".join(f" Refused: {name}: {reason}." for name, reason in refused[:1])
        if any(name.startswith("/") for name, _ in refused):
            why += " Unpack it and give the folder, or pack it with relative paths: tar -C FOLDER -czf capture.tar.gz ."
        raise CaptureError(f"{location}: no files in this capture. Expected metadata logs and broker snapshots.{why}")
    files = sorted(files, key=lambda found: found.path)
    manifest = _manifest(files, location)
    nodes, clusters, doubted = _identities(files, limits.text_file_bytes)
    refused = [*refused, *((spelled_out(str(path)), reason) for path, reason in doubted.items())]
    if manifest and manifest.cluster_id:
        clusters.setdefault(manifest.cluster_id, "the manifest")
    cluster = the_cluster(clusters, str(location))
    # No topic's folder has a quorum-state: `scp -r HOST:.../__cluster_metadata-0 kafka-1` gives a copy that name.
    of_log = {found.path.parent for found in files if found.path.name == "quorum-state"}
    entries = []
    for found in files:
        kind, place = _kind(found.path, found.local), found.path
        if place.parent in of_log and kinds.partition_of(place):
            kind = {kinds.REPLICA_SEGMENT: kinds.METADATA_SEGMENT, kinds.LEADER_EPOCH: kinds.OTHER}.get(kind, kind)
            place = place.with_name("quorum-state")  # whose folder may name the node
        entry = _placed(_entry(found, kind, in_place), place, nodes, manifest or Manifest())
        is_doubted = any(path.parent in found.path.parents for path in doubted)
        entries.append(replace(entry, node_id=None) if is_doubted else entry)
        if entry.kind == kinds.OTHER and archive.is_packed(found.path):
            instead = ", or name it as well" if archive.is_archive(found.path) else ""
            refused.append((entry.path, f"packed inside the capture: not opened. Unpack it{instead}"))
    return Capture(capture_name(location), cluster, entries, refused, manifest, limits)


def the_cluster(named: Mapping[str, str], capture: str) -> str | None:
    """The cluster id in a capture's files; None if they name none. named: each id, and a file that names it. Errors:
    CaptureError when they name several."""
    if len(named) > 1:
        found = ", ".join(f"{cluster} ({file})" for cluster, file in sorted(named.items()))
        raise CaptureError(
            f"{capture}: files of {len(named)} clusters in one capture: {found}. "
            "Offsets of different clusters must not be mixed: capture each cluster separately."
        )
    return next(iter(named), None)


def _placed(
    entry: EvidenceFile, path: PurePosixPath, nodes: dict[PurePosixPath, int], manifest: Manifest
) -> EvidenceFile:
    """The file with its node and time. A file next to it takes precedence, then the manifest, then the path."""
    named = next((nodes[p] for p in (path, *path.parents) if p in nodes), None)
    listed = manifest.node_of(path)
    node = named if named is not None else listed.id if listed else kinds.node_in_path(path)
    facts = manifest.facts_of(path, node)

    def first(name: str) -> int | None:
        return next((value for f in facts if (value := getattr(f, name)) is not None), None)

    at = kinds.captured_at(path)
    return replace(
        entry,
        node_id=node,
        captured_at_ms=first("captured_at") if at is None else at,
        clock_error_ms=first("clock_error_ms") or 0,
        snapshot_duration_ms=first("snapshot_duration_ms"),
        log_utc_offset_ms=first("log_utc_offset"),
        written_ms=None if listed is None else listed.written_ms(path),
    )


def _manifest(files: list[Member], location: Location) -> Manifest | None:
    found = [each for each in files if str(each.path) in NAMES]
    if len(found) > 1:
        raise CaptureError(f"{location}: two manifests, {' and '.join(NAMES)}. Keep one.")
    with _readable(location):
        return read_manifest(found[0].local.read_bytes(), f"{location}/{found[0].path}") if found else None


def _walk(root: Path, location: Location, most: int) -> tuple[list[Path], list[tuple[str, str]]]:
    """The regular files in `root`, and (name, reason) of everything else. Links are not followed. Errors: CaptureError
    for more than `most` names."""

    def unreadable(error: OSError) -> None:
        raise CaptureError(f"{error.filename}: cannot be read: {error.strerror}. Check the permissions.") from error

    found: list[Path] = []
    special: list[tuple[str, str]] = []
    count = 0
    for folder, folders, names in os.walk(root, onerror=unreadable):
        count += len(names)
        if count > most:
            raise CaptureError(
                f"{location}: more files than limits.capture_files = {most} allows. Name a folder that holds only the "
                "capture, or raise the setting."
            )
        if len(Path(folder).parts) - len(root.parts) > _MOST_FOLDERS:  # os.walk calls itself for each
            special.append((spelled_out(os.path.relpath(folder, root)), f"below {_MOST_FOLDERS} folders: not read"))
            folders.clear()
            continue
        if any(Path(folder, name, "_delta_log").is_dir() for name in folders):
            special.append((spelled_out(os.path.relpath(folder, root)), "a lake: its tables are no evidence"))
            folders.clear()
            continue
        for local in (Path(folder, name) for name in (*folders, *names)):
            if local.is_symlink():
                special.append((spelled_out(str(local.relative_to(root))), "a link: not followed"))
            elif local.is_file():
                found.append(local)
            elif not local.is_dir():
                special.append((spelled_out(str(local.relative_to(root))), "not a regular file"))
    return found, sorted(special)


def _identities(
    files: list[Member], most_bytes: int
) -> tuple[dict[PurePosixPath, int], dict[str, str], dict[PurePosixPath, str]]:
    """Node ids by folder, from meta.properties, else server.properties, and by the path of each such file itself; each
    cluster id they name, with the first file; each meta.properties whose directory id other nodes' have as well, with
    what is said of it. A folder whose files name several nodes, as Kafka's own config folder does, names none. Errors:
    CaptureError if such a file has more than most_bytes."""
    nodes: dict[PurePosixPath, int] = {}
    by_folder: dict[tuple[PurePosixPath, bool], set[int]] = defaultdict(set)
    clusters: dict[str, str] = {}
    directories: dict[str, dict[PurePosixPath, int]] = defaultdict(dict)
    for path, local in ((each.path, each.local) for each in files):
        kind = kinds.classify(path)
        if kind not in (kinds.META_PROPERTIES, kinds.SERVER_PROPERTIES):
            continue
        with _readable(local):
            size = local.stat().st_size
            if size > most_bytes:
                raise CaptureError(f"{local}: {size} bytes, limits.text_file_bytes = {most_bytes} allows fewer.")
            data = local.read_bytes()
        properties = read_properties(whole_lines(data) if kind == kinds.META_PROPERTIES else data)
        node = int32_of(properties.get("node.id", properties.get("broker.id", "")))
        if node is not None:
            nodes[path] = node
            by_folder[path.parent, kind == kinds.META_PROPERTIES].add(node)
            if directory := properties.get("directory.id"):
                directories[directory][path] = node
        if properties.get("cluster.id"):
            clusters.setdefault(properties["cluster.id"], str(path))
    for (folder, _), named in sorted(by_folder.items(), key=lambda each: each[0][1]):
        if len(named) == 1:
            nodes[folder] = min(named)
        else:
            nodes.pop(folder, None)
    doubted = {
        path: f"directory.id {directory} is that of nodes {sorted(set(named.values()))}: whose files are here?"
        for directory, named in directories.items()
        if len(set(named.values())) > 1
        for path in named
    }
    return nodes, clusters, doubted
