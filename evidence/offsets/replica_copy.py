"""A copied folder of a replica, `<topic>-<partition>`: its batches and records in order, and an account of its bytes.

Sources: Kafka's UnifiedLog and LogFileUtils (files of a replica's folder; indexes are made anew if they are missing),
LeaderEpochFileCache (leader-epoch-checkpoint), PartitionMetadataFile. A copy of a running broker is a prefix of its
log if its segments were copied in order, for they are only appended to; `collect --replica-logs` copies so.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from evidence import kinds
from evidence.capture.archive import is_archive, unpack
from evidence.capture.blocks import mapped
from evidence.capture.files import private_folder
from evidence.errors import CaptureError, Damage
from evidence.limits import DEFAULT_LIMITS, Limits
from evidence.text_files import partition_topic_id, read_checkpoint
from evidence.wire.data_batches import DataBatch, Framing, SegmentBytes

_EPOCHS, _METADATA = "leader-epoch-checkpoint", "partition.metadata"


@dataclass(slots=True)
class SegmentAccount:
    """Of one segment: parsed + damaged + trailing bytes = its size, once it was read to its end."""

    size_bytes: int
    parsed_bytes: int = 0
    damaged_bytes: int = 0
    trailing_bytes: int = 0


@dataclass(slots=True)
class ReplicaCopy:
    """epochs: (leader epoch, start offset) of its leader-epoch-checkpoint, ascending; empty without one. segments: in
    order of their base offsets. place: the folder in messages: where it was, if it was unpacked from an archive.
    accounts: by segment; notes: what is damaged, missing or torn, each with its file."""

    place: str
    topic: str
    partition: int
    topic_id: str | None
    epochs: list[tuple[int, int]]
    segments: list[Path]
    accounts: dict[str, SegmentAccount] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def batches(self, begin: int | None = None) -> Iterator[tuple[Path, SegmentBytes, DataBatch]]:
        """Each good batch, with its segment. begin: leave out segments that end before this offset; without it the
        account is made anew.

        Errors: CaptureError for a segment that cannot be read, or files of two logs in one folder.
        """
        self.accounts = {} if begin is None else self.accounts
        before: int | None = None
        for number, segment in enumerate(self.segments):
            if begin is not None and number + 1 < len(self.segments) and int(self.segments[number + 1].stem) <= begin:
                continue
            named = f"{self.place}/{segment.name}"
            with _opened(segment, named) as data:
                account = SegmentAccount(len(data))
                if begin is None:
                    self.accounts[segment.name] = account
                framing = Framing(data, int(segment.stem), least_magic=0)
                for found in framing.all_batches():
                    if isinstance(found, DataBatch):
                        if before is not None and found.base_offset < before:
                            raise CaptureError(
                                f"{named}: byte {found.position} (offset {found.base_offset}): the segment before it "
                                f"ends at offset {before}: files of two logs are in one folder."
                            )
                        account.parsed_bytes += found.size_bytes
                        yield segment, data, found
                    elif isinstance(found, Damage):
                        account.damaged_bytes += found.length_bytes
                        self.note(found.describe(named))
                    else:
                        account.trailing_bytes += found.size_bytes
                        self.note(f"{named}: byte {account.size_bytes - found.size_bytes}: {found.note}")
                before = max(framing.next_offset, before or 0)


@contextmanager
def _opened(path: Path, named: str) -> Iterator[SegmentBytes]:
    """The bytes of a file. Errors: CaptureError."""
    try:
        with mapped(path) as data:
            yield data
    except OSError as error:
        raise CaptureError(f"{named}: cannot be read: {error.strerror}") from error


@contextmanager
def open_copies(root: Path, limits: Limits = DEFAULT_LIMITS) -> Iterator[list[ReplicaCopy]]:
    """`find_copies` of a folder or an archive. An archive is read once, into a private folder that is removed when the
    block ends. Errors: CaptureError, also for an archive that cannot be read or is beyond `limits`."""
    if not (root.is_file() and is_archive(root)):
        yield find_copies(root)
        return
    with private_folder() as folder:
        (folder / "members").mkdir()
        for member in unpack(root, folder / "members", limits)[0]:
            if not (kinds.is_segment(member.path) or member.path.name in (_EPOCHS, _METADATA)):
                continue
            target = folder / "files" / member.path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(member.local, Path):
                member.local.rename(target)
            else:
                target.write_bytes(member.local.read_bytes())
        yield find_copies(folder / "files", root)


def find_copies(root: Path, named: Path | None = None) -> list[ReplicaCopy]:
    """The replicas in or below a folder, sorted by topic, partition and folder; the metadata log is none. A folder
    counts if it has a segment or a leader-epoch-checkpoint. named: the folder in messages; None: itself.

    Errors: CaptureError if `root` is no folder."""
    if not root.is_dir():
        raise CaptureError(f"{named or root}: neither a folder nor an archive with copies of replicas.")
    folders = {path.parent for name in ("*.log", _EPOCHS) for path in root.rglob(name) if not path.is_symlink()}
    top = (named or root).absolute()
    found = [_copy(folder.absolute(), str(top / folder.relative_to(root))) for folder in folders]
    return sorted((copy for copy in found if copy), key=lambda copy: (copy.topic, copy.partition, copy.place))


def _copy(folder: Path, place: str) -> ReplicaCopy | None:
    of = kinds.partition_of(PurePosixPath(folder / _EPOCHS))
    segments = sorted(path for path in folder.glob("*.log") if kinds.is_segment(PurePosixPath(path)))
    if of is None or not (segments or (folder / _EPOCHS).is_file()):
        return None
    copy = ReplicaCopy(place, *of, None, [], segments)
    if (folder / _METADATA).is_file():
        copy.topic_id = partition_topic_id((folder / _METADATA).read_bytes())
    if (folder / _EPOCHS).is_file():
        lines, damage = read_checkpoint((folder / _EPOCHS).read_bytes(), 2)
        copy.epochs = sorted((int(line.words[0]), int(line.words[1])) for line in lines)
        for item in damage:
            copy.note(item.describe(f"{place}/{_EPOCHS}"))
    else:
        copy.note(f"{place}/{_EPOCHS}: is missing: leader epochs are those of the batches")
    return copy
