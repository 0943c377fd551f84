"""Compare the copy of an old leader's log with the log that won, and read what only the old one has.

Only heads of batches are held, and hashes of the records that are salvaged. No key or value leaves this module but in
the records that it returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from evidence.errors import Damage, KraftForensicsError
from evidence.offsets.replica_copy import Account, ReplicaCopy
from evidence.wire.data_batches import DataBatch, SegmentBytes
from evidence.wire.data_records import ABORT, DataRecord, end_of_transaction, read_data
from replay.offsets.parted_logs import ABORTED, COMMITTED, Epochs, Transactions, part_by_epochs

LEADER_EPOCHS, BYTES, END_OF_COPY = "leader epochs", "bytes", "end of the copy"
BatchAt = tuple[SegmentBytes, DataBatch]
# A hash, or producer id, producer epoch and sequence.
Name = int | tuple[int, int, int]


class SalvageError(KraftForensicsError):
    """Nothing can be salvaged: a copy, an output or an option that cannot be used."""


@dataclass(slots=True)
class Comparison:
    """Of two copies of a partition. start, end: log start and log end offsets, None of a log without batches. parting:
    the first offset that only the old log has, or another record; common_epoch: the last epoch that both have; by: what
    showed it. shared_batches: equal ones; cleaned: records of the old log before the parting that the current one does
    not have, as compaction leaves it; unread: offsets of the old log that the current one does not reach back to."""

    old: ReplicaCopy
    current: ReplicaCopy
    old_epochs: Epochs
    current_epochs: Epochs
    old_start: int
    old_end: int
    current_start: int
    parting: int
    common_epoch: int | None
    by: str
    shared_batches: int
    cleaned: int
    unread: int
    accounts: dict[str, dict[str, Account]]


class _Log:
    """The batches of a copy, once through: where they begin and end, and their leader epochs."""

    def __init__(self, copy: ReplicaCopy) -> None:
        self.copy = copy
        self.start: int | None = None
        self.end = 0
        self.of_batches: dict[int, int] = {}

    def batches(self) -> Iterator[BatchAt]:
        for _, data, batch in self.copy.batches():
            if self.start is None:
                self.start = batch.base_offset
            self.end = batch.last_offset + 1
            if batch.epoch >= 0:
                self.of_batches.setdefault(batch.epoch, batch.base_offset)
            yield data, batch

    @property
    def epochs(self) -> list[tuple[int, int]]:
        return sorted((self.of_batches | dict(self.copy.epochs)).items())


def compare(old: ReplicaCopy, current: ReplicaCopy) -> Comparison:
    """Find where the two logs part: by leader epochs, and before that by bytes.

    A current copy without segments is compared by its leader epochs alone. Errors: SalvageError for logs of two
    partitions, or for an old one without batches.
    """
    _check_ids(old, current)
    ours, theirs = _Log(old), _Log(current)
    shared, first = 0, None
    mine, other = ours.batches(), theirs.batches()
    here, there = next(mine, None), next(other, None)
    while here is not None:
        if there is not None and there[1].base_offset < here[1].base_offset:
            there = next(other, None)
        elif there is not None and there[1].key == here[1].key:
            shared, here, there = shared + 1, next(mine, None), next(other, None)
        else:
            first = here[1].base_offset if first is None and here[1].base_offset >= (theirs.start or 0) else first
            here = next(mine, None)
    while there is not None:
        there = next(other, None)
    if ours.start is None:
        raise SalvageError(f"{old.folder}: no whole batch is in this copy. {' '.join(old.notes)}".rstrip())
    accounts = {"from": old.accounts, "current": current.accounts}
    their_end = max([theirs.end, *(start for _, start in theirs.epochs)])
    parting, common = part_by_epochs(ours.epochs, ours.end, theirs.epochs, their_end)
    current_start = theirs.start if theirs.start is not None else 0
    by, cleaned = LEADER_EPOCHS, 0
    if theirs.epochs and common == theirs.epochs[-1][0] and parting < ours.end:
        if not current.segments:
            raise SalvageError(
                f"{current.folder}: its last leader epoch, {common}, is one of the old log, and its segments are not "
                "there: copy them, too."
            )
        by = END_OF_COPY
        current.note(
            f"{current.folder}: ends at offset {parting} in leader epoch {common}, which the old log has, too: nothing "
            "shows that its log ended there. Copy it once a leader was elected."
        )
    if first is not None and first < parting and current.segments:
        differs, cleaned = _first_difference(old, current, max(first, current_start), parting)
        if differs is not None:
            by, parting = BYTES, differs
            if not shared:
                raise SalvageError(
                    f"{old.folder} and {current.folder}: no batch is the same, though both have leader epoch {common}: "
                    "is one of them another partition's folder?"
                )
    if current.segments and current_start >= ours.end:
        old.note(f"{current.folder}: begins at offset {current_start}, after the copy's end: nothing can be compared")
    unread = max(0, min(current_start, ours.end) - max(ours.start, min(parting, ours.end)))
    epochs = ours.epochs, theirs.epochs
    ends = ours.start, ours.end, current_start
    return Comparison(old, current, *epochs, *ends, parting, common, by, shared, cleaned, unread, accounts)


def _check_ids(old: ReplicaCopy, current: ReplicaCopy) -> None:
    if None not in (old.topic_id, current.topic_id) and old.topic_id != current.topic_id:
        raise SalvageError(
            f"{old.folder} is of topic id {old.topic_id}, {current.folder} of {current.topic_id}: the topic was made "
            "anew, or one of them is another partition's folder."
        )


def _first_difference(old: ReplicaCopy, current: ReplicaCopy, begin: int, end: int) -> tuple[int | None, int]:
    """(The first offset in [begin, end) at which both logs have a record, and not the same one, or None; how many
    records of the old log before that the current one does not have). Record by record: compaction writes batches anew,
    and keeps offsets, timestamps, keys and values."""
    ours, theirs, cleaned = _records(old, begin), _records(current, begin), 0
    there = next(theirs, None)
    for batch, record in ours:
        if record.offset >= end:
            break
        while there is not None and there[1].offset < record.offset:
            there = next(theirs, None)
        if there is None or there[1].offset > record.offset:
            cleaned += not batch.is_control
        elif (batch.epoch, record[1:]) != (there[0].epoch, there[1][1:]):
            return record.offset, cleaned
    return None, cleaned


def _records(copy: ReplicaCopy, begin: int) -> Iterator[tuple[DataBatch, DataRecord]]:
    for data, batch in batches_from(copy, begin):
        for record in read_data(data, batch):
            if isinstance(record, DataRecord) and record.offset >= begin:
                yield batch, record


def batches_from(copy: ReplicaCopy, begin: int) -> Iterator[BatchAt]:
    """The batches of a log that hold an offset from `begin` on."""
    for _, data, batch in copy.batches(begin):
        if batch.last_offset >= begin:
            yield data, batch


@dataclass(frozen=True, slots=True)
class Salvaged:
    """A record that only the old log has. transaction: committed, aborted or open; None outside of one. newer_offset:
    the last offset at which the current log has a value of its key, written since the logs part. sent_again_offset:
    where the current log has the record once more: the same producer id, epoch and sequence, or the same key, value and
    timestamp. Both None if there is none, or if the current copy has no records."""

    batch: DataBatch
    record: DataRecord
    transaction: str | None
    newer_offset: int | None
    sent_again_offset: int | None


@dataclass(slots=True)
class Marks:
    """What the current log says of the salvaged records, by hashes of 16 bytes. newest: the last offset of each key;
    again: where a record was sent again."""

    newest: dict[int, int] = field(default_factory=dict)
    again: dict[Name, int] = field(default_factory=dict)
    transactions: Transactions = field(default_factory=Transactions)


def only_old(found: Comparison) -> Iterator[BatchAt]:
    """The batches that hold what only the old log has, control batches too."""
    return batches_from(found.old, first_offset(found))


def first_offset(found: Comparison) -> int:
    """The first offset to salvage. What lies before the start of the current log may have been deleted from it."""
    return max(found.parting, found.current_start)


def marks(found: Comparison) -> Marks:
    """Read what only the old log has, then the current log from where it parts. What an aborted transaction wrote is no
    newer value, and was not sent again."""
    result, known, keys = Marks(), set[Name](), set[int]()
    begin = first_offset(found)
    for data, batch in only_old(found):
        for record in () if batch.is_control else read_data(data, batch):
            if isinstance(record, DataRecord) and record.offset >= begin:
                known.update(_names(batch, record))
                keys.update([] if record.key is None else [_hash(record.key)])
    current = _Visible(found.current)
    for batch, record in current.read(batches_from(found.current, begin) if found.current.segments else ()):
        for name in known.intersection(_names(batch, record)):
            result.again.setdefault(name, record.offset)
        if record.key is not None and (key := _hash(record.key)) in keys:
            result.newest[key] = record.offset
    ends = _ends(only_old(found))
    result.transactions = Transactions(ends, current.ends)
    return result


class _Visible:
    """What a reader of committed data gets of some batches. ends: how each producer's first transaction ended."""

    def __init__(self, copy: ReplicaCopy) -> None:
        self.copy = copy
        self.ends: dict[int, str] = {}

    def read(self, batches: Iterable[BatchAt]) -> Iterator[tuple[DataBatch, DataRecord]]:
        """Each record, those of a transaction when it is committed."""
        waiting: dict[int, list[tuple[DataBatch, DataRecord]]] = {}
        for data, batch in batches:
            if batch.is_control:
                if (how := _how_it_ends(data, batch)) is not None:
                    self.ends.setdefault(batch.producer_id, how)
                    held = waiting.pop(batch.producer_id, [])
                    yield from held if how == COMMITTED else ()
                continue
            for record in read_data(data, batch):
                if isinstance(record, Damage):
                    self.copy.note(record.describe(self.copy.name))
                elif batch.is_transactional:
                    waiting.setdefault(batch.producer_id, []).append((batch, record))
                else:
                    yield batch, record


def _how_it_ends(data: SegmentBytes, batch: DataBatch) -> str | None:
    end = end_of_transaction(data, batch)
    return None if end is None else ABORTED if end == ABORT else COMMITTED


def _ends(batches: Iterable[BatchAt]) -> dict[int, list[tuple[int, str]]]:
    """(offset, how) of the ends of each producer's transactions."""
    ends: dict[int, list[tuple[int, str]]] = {}
    for data, batch in batches:
        if (how := _how_it_ends(data, batch)) is not None:
            ends.setdefault(batch.producer_id, []).append((batch.last_offset, how))
    return ends


def salvaged(found: Comparison, of: Marks) -> Iterator[Salvaged | Damage]:
    """Each record that only the old log has, in order, without control records."""
    begin = first_offset(found)
    for data, batch in only_old(found):
        for record in () if batch.is_control else read_data(data, batch):
            if isinstance(record, Damage):
                yield record
            elif record.offset >= begin:
                again = [of.again[name] for name in _names(batch, record) if name in of.again]
                newer = None if record.key is None else of.newest.get(_hash(record.key))
                ends = of.transactions.of(batch.producer_id, record.offset) if batch.is_transactional else None
                yield Salvaged(batch, record, ends, newer, min(again, default=None))


def _names(batch: DataBatch, record: DataRecord) -> list[Name]:
    """What a record that was sent again has in common with it."""
    parts = (record.timestamp_ms, _hash(record.key or b""), record.key is None, _hash(record.value or b""))
    names: list[Name] = [_hash(repr((*parts, record.value is None)).encode())]
    if record.sequence >= 0:
        names.append((batch.producer_id, batch.producer_epoch, record.sequence))
    return names


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=16).digest())


def facts(item: Salvaged) -> dict[str, Any]:
    """What is known of a record beside its content."""
    batch, record = item.batch, item.record
    has_producer = batch.producer_id >= 0
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms if record.timestamp_ms >= 0 else None,
        "leader_epoch": batch.epoch if batch.epoch >= 0 else None,
        "producer_id": batch.producer_id if has_producer else None,
        "producer_epoch": batch.producer_epoch if has_producer else None,
        "sequence": record.sequence if record.sequence >= 0 else None,
        "transaction": item.transaction,
        "newer_offset": item.newer_offset,
        "sent_again_offset": item.sent_again_offset,
    }
