"""Compare the copy of an old leader's log with the log that won, and read what only the old one has.

Only heads of batches are held, and hashes of the records that are salvaged. No key or value leaves this module but in
the records that it returns.
"""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from evidence.errors import Damage
from evidence.offsets.replica_copy import ReplicaCopy, SegmentAccount
from evidence.wire.data_batches import DataBatch, SegmentBytes
from evidence.wire.data_records import ABORT, NO_SEQUENCE, DataRecord, end_of_transaction, read_data
from jobs.salvage.live import LiveLog, LiveRecord, SalvageError
from replay.offsets.parted_logs import (
    ABORTED,
    COMMITTED,
    NO_EPOCH,
    Epochs,
    TransactionMarkers,
    epoch_at,
    part_by_epochs,
)

LEADER_EPOCHS, BYTES, END_OF_COPY, END_OF_LOG = "leader epochs", "bytes", "end of the copy", "end of the live log"
# The log that won: a copy of a replica, or what a consumer gets of it.
Current = ReplicaCopy | LiveLog
BatchAt = tuple[SegmentBytes, DataBatch]


@dataclass(slots=True)
class Comparison:
    """Of the copy of a partition with the log that won. old_end, current_start: log end and log start offset. parting:
    the first offset that only the old log has, or another record; common_epoch: the last epoch that both have; by: what
    showed it. shared_batches: equal ones, None if the current log is read by a consumer; cleaned: records of the old
    log before the parting that the current one does not have, as compaction leaves it."""

    old: ReplicaCopy
    current: Current
    old_epochs: Epochs
    current_epochs: Epochs
    old_end: int
    current_start: int
    parting: int
    common_epoch: int | None
    by: str
    shared_batches: int | None
    cleaned: int
    accounts: dict[str, dict[str, SegmentAccount]]

    @property
    def has_records(self) -> bool:
        """Whether the current log's records can be read: a copy may have its leader epochs alone."""
        return isinstance(self.current, LiveLog) or bool(self.current.segments)

    @property
    def first_offset(self) -> int:
        """The first offset to salvage. What lies before the start of the current log may have been deleted from it."""
        return max(self.parting, self.current_start)

    def only_old(self) -> Iterator[BatchAt]:
        """The batches that hold what only the old log has, control batches too."""
        return batches_from(self.old, self.first_offset)


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

    def whole(self) -> int:
        """The log start offset, after the log was read to its end. Errors: SalvageError without a batch."""
        if self.start is None:
            notes = " ".join(self.copy.notes)
            raise SalvageError(f"{self.copy.place}: no whole batch is in this copy. {notes}".rstrip())
        return self.start

    @property
    def epochs(self) -> list[tuple[int, int]]:
        return sorted((self.of_batches | dict(self.copy.epochs)).items())


def compare(old: ReplicaCopy, current: Current) -> Comparison:
    """Find where the two logs part: by leader epochs, and before that by bytes.

    A current copy without segments is compared by its leader epochs alone. Errors: SalvageError for logs of two
    partitions, or for an old one without batches.
    """
    if None not in (old.topic_id, current.topic_id) and old.topic_id != current.topic_id:
        raise SalvageError(
            f"{old.place} is of topic id {old.topic_id}, {current.place} of {current.topic_id}: the topic was made "
            "anew, or one of them is another partition's folder."
        )
    theirs: Iterator[tuple[int, DataRecord]]
    if isinstance(current, LiveLog):
        found, begin = _with_live(old, current)
        theirs = current.records(begin)
    else:
        found, begin = _with_copy(old, current)
        theirs = ((batch.epoch, record) for batch, record in _records(current, begin))
    if begin < found.parting:
        differs, same, found.cleaned = _first_difference(_records(old, begin), theirs, found.parting)
        if differs is not None and not (same if found.shared_batches is None else found.shared_batches):
            raise SalvageError(
                f"{old.place} and {current.place}: no batch or record is the same, though both have leader epoch "
                f"{found.common_epoch}: is one of them another partition's folder?"
            )
        if differs is not None:
            found.by, found.parting = BYTES, differs
    if found.has_records and found.current_start >= found.old_end:
        old.note(
            f"{current.place}: begins at offset {found.current_start}, after the copy's end: nothing can be compared"
        )
    return found


def _with_copy(old: ReplicaCopy, current: ReplicaCopy) -> tuple[Comparison, int]:
    """(What the leader epochs of two copies show, the offset from which their records are to be compared)."""
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
    ours.whole()
    accounts = {"from": old.accounts, "current": current.accounts}
    their_end = max([theirs.end, *(start for _, start in theirs.epochs)])
    parting, common = part_by_epochs(ours.epochs, ours.end, theirs.epochs, their_end)
    current_start = theirs.start if theirs.start is not None else 0
    by = LEADER_EPOCHS
    if theirs.epochs and common == theirs.epochs[-1][0] and parting < ours.end:
        if not current.segments:
            raise SalvageError(
                f"{current.place}: its last leader epoch, {common}, is one of the old log, and its segments are not "
                "there: copy them, too."
            )
        by = END_OF_COPY
        where = f"{parting} in leader epoch {common}, which the old log has, too"
        _no_parting(current, where, "Copy it once a leader was elected.")
    begin = max(first, current_start) if first is not None and current.segments else parting
    of = (old, current, ours.epochs, theirs.epochs, ours.end, current_start)
    return Comparison(*of, parting, common, by, shared, 0, accounts), begin


def _with_live(old: ReplicaCopy, live: LiveLog) -> tuple[Comparison, int]:
    """As `_with_copy`. The logs are the same up to the last record whose leader epoch the old log has at its offset
    (KIP-101): it is searched by bisection. Records are compared in the last epoch that both have."""
    ours = _Log(old)
    for _ in ours.batches():
        pass
    start, epochs = ours.whole(), ours.epochs

    def parted(at: int) -> bool:
        record = live.first(at)
        return record is None or record.epoch not in (NO_EPOCH, epoch_at(epochs, record.record.offset))

    begin = max(start, live.start)
    both = range(begin, max(begin, min(ours.end, live.end)))
    shared = bisect_left(both, True, key=parted)
    parting = begin + shared if shared else start
    common = epoch_at(epochs, parting - 1) if shared else NO_EPOCH
    first = max(parting, live.start)
    after = live.first(first)
    by, theirs = LEADER_EPOCHS, [(live.epoch, live.end)] if after is None else [(after.epoch, after.record.offset)]
    lost = next((batch for _, batch in batches_from(old, first) if not batch.is_control), None)
    if lost is not None:
        if after is None and live.epoch <= max((epoch for epoch, _ in epochs), default=NO_EPOCH):
            by = END_OF_LOG
            where = f"{parting}, and its leader's epoch, {live.epoch}, is not after those of the old log"
            _no_parting(live, where, "Compare again once a leader was elected.")
        _note_what_is_hidden(live, max(first, lost.base_offset), after)
    of = (old, live, epochs, theirs, ours.end, live.start)
    found = Comparison(*of, parting, None if common == NO_EPOCH else common, by, None, 0, {"from": old.accounts})
    return found, max(begin, dict(epochs).get(common, start)) if shared else parting


def _note_what_is_hidden(live: LiveLog, lost: int, after: LiveRecord | None) -> None:
    following = live.end if after is None else after.record.offset
    if lost < following:
        live.note(
            f"{live.place}: no record at offsets {lost} to {following - 1}: ends of transactions, or what compaction "
            "removed. What the copy has there is listed."
        )
    if after is None:
        empty = "is empty; " if live.start == live.end else ""
        live.note(f"{live.place}: {empty}a consumer gets no record from offset {following}, the high watermark, on")
    if live.stable_end < live.end:
        live.note(
            f"{live.place}: a transaction is open from offset {live.stable_end} on: no later record counts as sent "
            "again or as a newer value"
        )


def _no_parting(current: Current, where: str, advice: str) -> None:
    current.note(f"{current.place}: ends at offset {where}: nothing shows that its log ended there. {advice}")


def _first_difference(
    ours: Iterable[tuple[DataBatch, DataRecord]], theirs: Iterator[tuple[int, DataRecord]], end: int
) -> tuple[int | None, int, int]:
    """(The first offset before `end` at which both logs have a record, and not the same one, or None; how many records
    before that are the same, and how many of the old log the current one does not have). Record by record: compaction
    writes batches anew, and keeps offsets, timestamps, keys and values. A consumer gets no sequences."""
    cleaned, same, there = 0, 0, next(theirs, None)
    for batch, record in ours:
        if record.offset >= end:
            break
        while there is not None and there[1].offset < record.offset:
            there = next(theirs, None)
        if there is None or there[1].offset > record.offset:
            cleaned += not batch.is_control
        elif batch.epoch == there[0] and there[1] in (record, record._replace(sequence=NO_SEQUENCE)):
            same += 1
        else:
            return record.offset, same, cleaned
    return None, same, cleaned


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


@dataclass(slots=True)
class Marks:
    """What the current log says of the salvaged records, by hashes of 16 bytes. newest: the last offset of each key;
    again: where the current log has records that may be one of them sent again, ascending."""

    newest: dict[int, int] = field(default_factory=dict)
    again: dict[int, deque[int]] = field(default_factory=dict)
    transactions: TransactionMarkers = field(default_factory=TransactionMarkers)


def marks(found: Comparison) -> Marks:
    """Read what only the old log has, then the current log from where it parts. What an aborted transaction wrote is no
    newer value, and was not sent again."""
    result, known, keys = Marks(), Counter[int](), set[int]()
    for batch, record in _records(found.old, found.first_offset):
        if not batch.is_control:
            known.update(_names(batch, record))
            keys.update([] if record.key is None else [_hash(record.key)])
    ends: dict[int, list[tuple[int, str]]] = {}
    ends_there: dict[int, str] = {}
    for names, record in _visible(found.current, found.first_offset, ends_there) if known else ():
        for name in names:
            if name in known and len(offsets := result.again.setdefault(name, deque())) < known[name]:
                offsets.append(record.offset)
        if record.key is not None and (key := _hash(record.key)) in keys:
            result.newest[key] = record.offset
    for data, batch in found.only_old():
        if (how := _how_it_ends(data, batch)) is not None:
            ends.setdefault(batch.producer_id, []).append((batch.last_offset, how))
    result.transactions = TransactionMarkers(ends, ends_there)
    return result


def _visible(current: Current, begin: int, ends: dict[int, str]) -> Iterator[tuple[list[int], DataRecord]]:
    """What a reader of committed data gets from an offset on, with its names. ends: is filled with how each producer's
    first transaction ended, if the log shows that."""
    if isinstance(current, LiveLog):
        for _, seen in current.records(begin, committed=True):
            yield [_content(seen)], seen
        return
    waiting: dict[int, list[tuple[list[int], DataRecord]]] = {}
    for data, batch in batches_from(current, begin):
        if batch.is_control:
            if (how := _how_it_ends(data, batch)) is not None:
                ends.setdefault(batch.producer_id, how)
                held = waiting.pop(batch.producer_id, [])
                yield from held if how == COMMITTED else ()
            continue
        for record in read_data(data, batch):
            if isinstance(record, Damage):
                current.note(record.describe(current.name))
            elif batch.is_transactional:
                waiting.setdefault(batch.producer_id, []).append((_names(batch, record), record))
            else:
                yield _names(batch, record), record


def _how_it_ends(data: SegmentBytes, batch: DataBatch) -> str | None:
    end = end_of_transaction(data, batch)
    return None if end is None else ABORTED if end == ABORT else COMMITTED


def salvaged(found: Comparison, of: Marks) -> Iterator[tuple[DataRecord, dict[str, Any]] | Damage]:
    """Each record that only the old log has, in order, without control records, and what is known beside its content.

    transaction: committed, aborted or open; None outside of one. newer_offset: the last offset at which the current log
    has a value of its key, written since the logs part. sent_again_offset: where the current log has the record once
    more: the same key and value, with the same producer id, epoch and sequence, or the same timestamp. Both None if
    there is none, or if the current copy has no records. Other values that the record does not have are None.
    """
    taken = set[int]()
    for data, batch in found.only_old():
        for record in () if batch.is_control else read_data(data, batch):
            if isinstance(record, Damage):
                yield record
            elif record.offset >= found.first_offset:
                again = _first_left([of.again[name] for name in _names(batch, record) if name in of.again], taken)
                newer = None if record.key is None else of.newest.get(_hash(record.key))
                ends = of.transactions.of(batch.producer_id, record.offset) if batch.is_transactional else None
                has_producer = batch.producer_id >= 0
                yield (
                    record,
                    {
                        "offset": record.offset,
                        "timestamp_ms": record.timestamp_ms if record.timestamp_ms >= 0 else None,
                        "leader_epoch": batch.epoch if batch.epoch >= 0 else None,
                        "producer_id": batch.producer_id if has_producer else None,
                        "producer_epoch": batch.producer_epoch if has_producer else None,
                        "sequence": record.sequence if record.sequence >= 0 else None,
                        "transaction": ends,
                        "newer_offset": newer,
                        "sent_again_offset": again,
                    },
                )


def _first_left(candidates: Iterable[deque[int]], taken: set[int]) -> int | None:
    """The first offset that no other record has taken, which is taken then: a record that was sent again once stands
    for one of several that are alike."""
    heads = []
    for offsets in candidates:
        while offsets and offsets[0] in taken:
            offsets.popleft()
        heads += list(offsets)[:1]
    first = min(heads, default=None)
    taken.update([] if first is None else [first])
    return first


def _names(batch: DataBatch, record: DataRecord) -> list[int]:
    """What a record that was sent again has in common with it. The time of a retry may be the broker's, and clients
    before KIP-360 may give a sequence again to another record."""
    producer = (batch.producer_id, batch.producer_epoch, record.sequence, *_parts(record))
    return [_content(record), *([_hash(repr(producer).encode())] if record.sequence > NO_SEQUENCE else [])]


def _content(record: DataRecord) -> int:
    return _hash(repr((record.timestamp_ms, *_parts(record))).encode())


def _parts(record: DataRecord) -> tuple[int, bool, int, bool]:
    return _hash(record.key or b""), record.key is None, _hash(record.value or b""), record.value is None


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=16).digest())
