"""Frame the metadata logs and snapshots of a capture, from bytes or kafka-dump-log's text: batches and damage.

A batch that several nodes hold is one batch with several holders. Records are decoded later, once per distinct batch
(evidence/metadata_log/rows.py).
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath

import numpy as np
import pyarrow as pa

from evidence import kinds, tables
from evidence.capture.accounts import Account, last_of_each_folder
from evidence.capture.files import EvidenceFile
from evidence.dump_log.scan import scan_dump
from evidence.errors import Damage
from evidence.text_files import read_checkpoint
from evidence.wire.batches import (
    CODECS,
    HEADS,
    Array,
    Batches,
    Bytes,
    Scan,
    begins,
    check_continuity,
    is_whole,
    scan_batches,
)
from evidence.wire.records import FRAME_VERSION, Record, read_records

_SHORT = 2  # batches: of more, a wrong epoch shows by itself
_OF_FILE = ("path", "kind", "sha256", "size_bytes", "node_id", "captured_at_ms")
_KEY = ("crc", "base_offset", "epoch")  # of a batch; the last is compared first


@dataclass(frozen=True, slots=True)
class Log:
    """The batches of one log in a file. lacks: what is missing from the file (kafka-dump-log's text), or None."""

    file: EvidenceFile
    batches: Batches
    lacks: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete snapshot; its name gives end offset (exclusive) and epoch. Both are None for bootstrap.checkpoint,
    which the first controller writes into an empty log. contained_ms: the timestamp of the last batch that it contains,
    from its header; None in text."""

    file: EvidenceFile
    batches: Batches
    end_offset: int | None
    epoch: int | None
    contained_ms: int | None = None


@dataclass
class Scanned:
    """All metadata files of a capture, framed. unplaced: ranges [start, end) of bytes of files with records whose
    offsets are unknown. accounts: by path."""

    logs: list[Log] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    unplaced: list[tuple[EvidenceFile, int, int]] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)

    @cached_property
    def batches(self) -> "DistinctBatches":
        """Each distinct batch. If several files hold it, the fullest is used: bytes, then the text that lacks least."""
        return distinct_batches(sorted(self.logs, key=lambda log: (log.file.kind == kinds.DUMP_LOG, bool(log.lacks))))


@dataclass(frozen=True, slots=True, eq=False)
class DistinctBatches(Batches):
    """Batches as columns. file: int64, for each batch the place in `files` of the
    file that its rows refer to. holders: int64, the place in `nodes` of the nodes that hold it, ascending."""

    heads: Array
    files: Sequence[EvidenceFile]
    file: Array
    nodes: Sequence[tuple[int, ...]]
    holders: Array

    def take(self, rows: Array) -> "DistinctBatches":
        """Those of a mask, or of row numbers."""
        return replace(self, heads=self.heads[rows], file=self.file[rows], holders=self.holders[rows])

    @property
    def record_count(self) -> int:
        """How many records they have together."""
        return int(self.heads["record_count"].sum(dtype=np.int64))

    @property
    def size_bytes(self) -> int:
        """How long they are together in their files."""
        return int((self.ends - self.heads["position"]).sum())


def batches_of(file: EvidenceFile, batches: Batches) -> DistinctBatches:
    """The batches of one file, of no node."""
    zeros = np.zeros(len(batches), dtype=np.int64)
    return DistinctBatches(batches.heads, [file], zeros, [()], zeros)


def scan_files(files: Iterable[EvidenceFile]) -> Scanned:
    """Frame each metadata segment, snapshot and dump; skip other files. Local files are read whole, one at a time."""
    scanned, framed = Scanned(), dict[str, Scan]()
    files = list(files)
    newest = last_of_each_folder(files, kinds.METADATA_SEGMENT)
    for file in files:
        if file.kind == kinds.METADATA_SEGMENT:
            _scan_segment(scanned, file, file.path in newest, framed)
        elif file.kind in (kinds.METADATA_CHECKPOINT, kinds.BOOTSTRAP_CHECKPOINT):
            _scan_snapshot(scanned, file)
        elif file.kind == kinds.DUMP_LOG:
            _scan_dump(scanned, file)
    checkpoints = {file.path: file for file in files if file.kind == kinds.LEADER_EPOCH}
    _check_unconfirmed(scanned, checkpoints)
    _check_snapshot_names(scanned)
    return scanned


def _check_unconfirmed(scanned: Scanned, checkpoints: Mapping[str, EvidenceFile]) -> None:
    """Remove a batch of a short segment whose base offset or epoch, which no CRC covers, contradicts the segments
    before and after, and a first batch of an epoch that contradicts the leader-epoch-checkpoint beside it (by path).
    Alone they do not show that, and a higher epoch would replace all batches that follow."""
    logs = [log for log in scanned.logs if log.file.kind == kinds.METADATA_SEGMENT and log.batches]
    logs.sort(key=lambda log: log.file.path)
    for number, log in enumerate(logs):
        heads, beside = log.batches.heads, (logs[max(number - 1, 0) : number], logs[number + 1 : number + 2])
        checkpoint = checkpoints.get(str(PurePosixPath(log.file.path).with_name("leader-epoch-checkpoint")))
        wrong = _wrong_beside(log, *beside) if len(heads) <= _SHORT else []
        if wrong := wrong or (_wrong_begins(log, checkpoint) if checkpoint else []):
            kept = Batches(heads[~np.isin(heads["position"], [found.position for found in wrong])])
            logs[number] = scanned.logs[scanned.logs.index(log)] = replace(log, batches=kept)
            account, count = scanned.accounts[log.file.path], sum(found.length_bytes for found in wrong)
            scanned.accounts[log.file.path] = replace(
                account,
                parsed_bytes=account.parsed_bytes - count,
                quarantined_bytes=account.quarantined_bytes + count,
                note=account.note or wrong[0].message,
                damage=sorted([*account.damage, *wrong], key=lambda found: found.position),
            )


def _wrong_begins(log: Log, checkpoint: EvidenceFile) -> list[Damage]:
    """The damage in a segment: an epoch begins with another batch than in the leader-epoch-checkpoint, or the last
    batch begins one without a LeaderChange. Kafka writes the file before it appends the batch
    (LeaderEpochFileCache.assign), but it may have been copied before that."""
    batches = log.batches
    lines, damage = read_checkpoint(checkpoint.read(), 2)
    epochs = {int(line.words[1]): int(line.words[0]) for line in lines}
    if not epochs or damage:
        return []
    heads, last = batches.heads, batches[-1]
    begins_one = last.is_control and (len(heads) < _SHORT or last.epoch > heads["epoch"][-2])
    known = np.flatnonzero(np.isin(heads["base_offset"], list(epochs))).tolist()
    found = [b for b in (batches[place] for place in known) if b.epoch != epochs[b.base_offset]]
    if begins_one and last.base_offset not in epochs:
        first = next(iter(read_records(log.file.sliced(), last)))
        found += [] if isinstance(first, Record) and first.type == "LEADER_CHANGE" else [last]
    message = "epoch {}, leader-epoch-checkpoint does not have it begin here"
    return [Damage(b.position, b.end - b.position, b.base_offset, "epoch_flip", message.format(b.epoch)) for b in found]


def _wrong_beside(log: Log, before: Sequence[Log], after: Sequence[Log]) -> list[Damage]:
    """The damage in a segment, by the last batches of the one before, if there is one, and the first of the one
    after."""
    path, first, end = PurePosixPath(log.file.path), log.batches[0], log.batches[-1].end
    parts = [log.batches.heads]
    for other in (o.batches for o in before if o.batches and PurePosixPath(o.file.path).parent == path.parent):
        expected = other[-1].last_offset + 1
        if path.stem == f"{expected:020d}" and first.base_offset != expected and len(log.batches) == 1:
            message = f"base offset {first.base_offset}, but name and segment before give {expected}"
            return [Damage(first.position, end - first.position, expected, "offset_flip", message)]
        if first.base_offset == expected:
            parts.insert(0, other.heads[-_SHORT:].copy())
            parts[0]["position"] += first.position - other[-1].end
    for other in (o.batches for o in after if PurePosixPath(o.file.path).parent == path.parent):
        if other[0].base_offset == log.batches[-1].last_offset + 1:
            parts.append(other.heads[:_SHORT].copy())
            parts[-1]["position"] += end - other[0].position
    _, damage = check_continuity(Batches(np.concatenate(parts)))
    return [found for found in damage if first.position <= found.position < end]


def _check_snapshot_names(scanned: Scanned) -> None:
    """Remove the snapshots that are not of the epoch in their names, or whose header has another timestamp than the
    log's batch before the end offset in their names (RecordsSnapshotWriter; MetadataLoader gives it that batch's)."""
    named = [found for found in scanned.snapshots if None not in (found.contained_ms, found.end_offset)]
    heads = scanned.batches.heads if named else np.empty(0, HEADS)
    heads = heads[np.isin(heads["last_offset"] + 1, np.array([found.end_offset for found in named], dtype=np.int64))]
    for snapshot in named:
        file, end, epoch = snapshot.file, snapshot.end_offset, snapshot.batches[-1].epoch
        before = heads[(heads["last_offset"] + 1 == end) & (heads["epoch"] == epoch)]["max_timestamp_ms"]
        if snapshot.epoch != epoch:
            message = f"the name gives epoch {snapshot.epoch}, the batches have {epoch}; it is not used as state"
        elif len(before) and snapshot.contained_ms not in before:
            message = (
                f"the log's batch before offset {end} is of {before[0]} ms, the header gives {snapshot.contained_ms}"
            )
        else:
            continue
        scanned.snapshots.remove(snapshot)
        damage = Damage(0, file.size_bytes, end, "snapshot_name_mismatch", message)
        scanned.accounts[file.path] = Account(0, file.size_bytes, note=message, damage=[damage])


def _scan_segment(scanned: Scanned, file: EvidenceFile, is_newest: bool, framed: dict[str, Scan]) -> None:
    """Frame a segment. If the file name differs from its first offset, report that and trust the bytes. A log whose
    records have another frame version is refused as a whole, as none of its records can be decoded reliably; so is a
    topic's log. framed: by SHA-256, the segments before: those that several controllers hold are framed, and held in
    memory, once."""
    data = file.sliced()
    scan = framed[file.sha256] = file.scan or framed.get(file.sha256) or scan_batches(data)
    if refused := _refusal(file, data, scan.batches):
        scanned.accounts[file.path] = Account(0, len(data), note=refused.message, damage=[refused])
        return
    if not is_newest and any(d.reason == "torn_batch" for d in scan.damage):
        note = f"{scan.note}, although later segments follow: records are missing"
        scan = replace(
            scan, quarantined_bytes=scan.quarantined_bytes + scan.trailing_bytes, trailing_bytes=0, note=note
        )
    damage = list(scan.damage)
    path = PurePosixPath(file.path)
    # Damage before the first good batch may have been the batch that the name is of.
    begins_well = scan.batches and not scan.batches[0].position
    if begins_well and kinds.is_segment(path) and int(path.stem) != (first := scan.batches[0].base_offset):
        message = f"the name gives base offset {int(path.stem)}, the first batch has {first}; the bytes are trusted"
        damage.append(Damage(0, 0, first, "name_mismatch", message))
    scanned.accounts[file.path] = _account(scan, damage)
    scanned.logs.append(Log(file, scan.batches))


def _refusal(file: EvidenceFile, data: Bytes, batches: Batches) -> Damage | None:
    """What refuses the whole file, or None, by the first record that is not a control record: its frame version, or, in
    any folder but the metadata log's own, that it is a topic's: the leader epochs and offsets of that log would seem to
    replace the metadata log's."""
    first = next((b for b in batches if not b.is_control), None)
    found = read_records(data, first) if first else iter(())
    item = next((i for i in found if isinstance(i, Record) or i.length_bytes), None)
    if not isinstance(item, Damage) or item.reason not in ("not_kraft", FRAME_VERSION):
        return None
    message = f"by its first record, at byte {item.position}: {item.message}"
    folder = PurePosixPath(file.path).parent.name
    if item.reason == FRAME_VERSION and folder in ("", kinds.METADATA_LOG_DIR):
        return Damage(0, len(data), item.offset, FRAME_VERSION, message)
    if folder != kinds.METADATA_LOG_DIR:
        return Damage(0, len(data), item.offset, "not_metadata_log", f"not the metadata log, {message}")
    return None


def _scan_snapshot(scanned: Scanned, file: EvidenceFile) -> None:
    """Frame a snapshot. Without a header first and a footer last it is quarantined as a whole: it is not a state.

    Source: Kafka's SnapshotFileReader / RecordsSnapshotReader; KIP-630 for the layout.
    """
    data = file.sliced()
    scan = file.scan or scan_batches(data)
    damaged = next((f"byte {found.position}: {found.message}" for found in scan.damage), None)
    problem = damaged or _snapshot_problem(data, scan.batches)
    named = kinds.checkpoint_name(PurePosixPath(file.path).name)
    if named is None and file.kind == kinds.METADATA_CHECKPOINT:
        problem = problem or "its name gives an offset or an epoch that no log has"
    if problem is not None:
        message = f"the snapshot is incomplete: {problem}; it is not used as state"
        damage = Damage(0, len(data), None, "bad_snapshot", message)
        scanned.accounts[file.path] = Account(0, len(data), note=scan.note, damage=[damage])
        return
    end_offset, epoch = named or (None, None)
    header = next(r for r in read_records(data, scan.batches[0]) if isinstance(r, Record))
    scanned.accounts[file.path] = _account(scan, [])
    contained_ms = header.data["lastContainedLogTimestamp"]
    scanned.snapshots.append(Snapshot(file, scan.batches, end_offset, epoch, contained_ms))


def _snapshot_problem(data: Bytes, batches: Batches) -> str | None:
    if not batches:
        return "it has no batch"
    first = next(iter(read_records(data, batches[0])), None)
    *_, last = [None, *read_records(data, batches[-1])]
    if not isinstance(first, Record) or first.type != "SNAPSHOT_HEADER":
        return "it does not begin with a snapshot header"
    if not isinstance(last, Record) or last.type != "SNAPSHOT_FOOTER":
        return "it does not end with a snapshot footer"
    return None if is_whole(batches) else "its records are not numbered from 0 without a gap"


def _scan_dump(scanned: Scanned, file: EvidenceFile) -> None:
    scan = scan_dump(file.read())
    lacks = [log.lacks for log in scan.logs if log.lacks]
    if scan.unplaced:
        scanned.unplaced.append((file, *scan.unplaced))
        lacks.append("bare payloads: no offsets, epochs or times; the records cannot be placed in the log")
    flipped: list[Damage] = []
    for log in scan.logs:
        batches = Batches.of(log.batches)
        if log.snapshot is None:
            good, damage = check_continuity(batches)
            flipped += damage
            scanned.logs.append(Log(file, good, log.lacks))
        elif batches:
            scanned.snapshots.append(Snapshot(file, batches, *log.snapshot))
    note = "; ".join([*([scan.note] if scan.note else []), *lacks]) or None
    damage = _with_flipped(scan.damage, flipped, file.size_bytes - scan.trailing_bytes)
    quarantined = sum(d.length_bytes for d in damage)
    parsed = file.size_bytes - scan.trailing_bytes - quarantined
    scanned.accounts[file.path] = Account(parsed, quarantined, scan.trailing_bytes, note, damage)


def _with_flipped(damage: list[Damage], flipped: list[Damage], end: int) -> list[Damage]:
    """The damage together with batches that were removed afterwards; damage inside a removed batch is part of it."""
    flipped = sorted(
        (replace(f, length_bytes=min(f.length_bytes, end - f.position)) for f in flipped), key=lambda f: f.position
    )
    begins = [f.position for f in flipped]

    def is_inside(item: Damage) -> bool:
        index = bisect_right(begins, item.position) - 1
        return index >= 0 and item.position < begins[index] + flipped[index].length_bytes

    return sorted([*(d for d in damage if not is_inside(d)), *flipped], key=lambda d: d.position)


def _account(scan: Scan, damage: Sequence[Damage]) -> Account:
    note = scan.note or (damage[0].message if damage else None)
    return Account(scan.parsed_bytes, scan.quarantined_bytes, scan.trailing_bytes, note, damage)


def distinct_batches(logs: Iterable[Log]) -> DistinctBatches:
    """Each batch once, in order of epoch, base offset and CRC, with its holders. The first log that holds it is
    used."""
    logs = list(logs)
    # Of the heads, which take much memory, only the keys are copied for all logs.
    keys = [np.concatenate([np.empty(0, HEADS)[name], *(log.batches.heads[name] for log in logs)]) for name in _KEY]
    order = np.lexsort(keys)  # stable: the first log stays the first
    new = begins(*(column[order] for column in keys))
    which = np.empty(len(order), dtype=np.int64)
    which[order] = np.cumsum(new) - 1
    firsts = np.cumsum([0, *(len(log.batches) for log in logs)])
    nodes, holders = _holders(logs, np.split(which, firsts[1:]), int(new.sum()))
    del keys, which
    wanted = order[new]
    by_log = np.argsort(wanted, kind="stable")
    heads, of_log = np.empty(len(wanted), HEADS), np.empty(len(wanted), dtype=np.int64)
    for number, own in enumerate(np.split(by_log, np.searchsorted(wanted[by_log], firsts[1:]))[:-1]):
        heads[own], of_log[own] = logs[number].batches.heads[wanted[own] - firsts[number]], number
    return DistinctBatches(heads, [log.file for log in logs], of_log, nodes, holders)


def _holders(logs: list[Log], which: list[Array], count: int) -> tuple[list[tuple[int, ...]], Array]:
    """(sets of nodes, for each distinct batch the place of its set). which: for each log the numbers of its batches; it
    may be longer."""
    sets: dict[tuple[int, ...], int] = {(): 0}
    holders = np.zeros(count, dtype=np.int64)
    for log, own in zip(logs, which, strict=False):
        if log.file.node_id is None:
            continue
        before, known = holders[own], list(sets)
        for place in np.unique(before).tolist():
            joined = tuple(sorted({*known[place], log.file.node_id}))
            holders[own[before == place]] = sets.setdefault(joined, len(sets))
    return list(sets), holders


def batch_table(capture: str, batches: DistinctBatches) -> pa.Table:
    """tables.LOG_BATCHES, one row per distinct batch; strings are dictionary-encoded."""
    heads, of = batches.heads, tables.LOG_BATCHES
    numbers = {name: heads[name] for name in of.names if name in (HEADS.names or ())} | {
        "is_control": batches.are_control
    }
    columns = {
        **{name: pa.array(values).cast(of.field(name).type) for name, values in numbers.items()},
        "codec": _coded(CODECS, heads["attributes"] & 0x07),
        "nodes": pa.array(batches.nodes, tables.INT32_LIST).take(pa.array(batches.holders)),
        "capture": _coded([capture], np.zeros(len(heads), dtype=np.int32)),
        "path": _coded([file.path for file in batches.files], batches.file),
        "sha256": _coded([file.sha256 for file in batches.files], batches.file),
    }
    return pa.table(columns).select(of.names)


def _coded(values: Sequence[str], codes: Array) -> pa.DictionaryArray:
    """A column of strings. codes: the place of each one's value."""
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32), pa.array(values, pa.string()))


def file_row(
    capture: str, file: EvidenceFile, account: Account | None, logs: Sequence[Log], assumed_ms: int = 0
) -> dict[str, object]:
    """The tables.EVIDENCE_FILES row of a file.

    account: None for a file that is only registered: all its bytes are trailing. logs: those in the file. assumed_ms:
    how long a round of copying took if nothing else gives it.
    """
    account = account or Account(0, trailing_bytes=file.size_bytes, is_read=False)
    batches = [log.batches[place] for log in logs if log.batches for place in (0, -1)]
    return {
        "capture": capture,
        **{name: getattr(file, name) for name in _OF_FILE},
        "uncertainty_ms": file.read_within_ms(assumed_ms),
        "last_timestamp_ms": max(
            (int(log.batches.heads["max_timestamp_ms"].max()) for log in logs if log.batches), default=None
        ),
        "base_offset": min((b.base_offset for b in batches), default=None),
        "end_offset": max((b.last_offset + 1 for b in batches), default=None),
        "status": _status(account),
        **{name: getattr(account, name) for name in ("parsed_bytes", "quarantined_bytes", "trailing_bytes", "note")},
    }


def _status(account: Account) -> str:
    if not account.is_read:
        return "registered"
    if account.quarantined_bytes:
        return "quarantined"
    return "note" if account.note else "ok"
