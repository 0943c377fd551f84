"""A replica's log with its leader-epoch-checkpoint.

Follows Kafka's LeaderEpochFileCache (assign, truncateFromEnd, truncateFromStart, endOffsetFor), Partition.readRecords
(diverging epochs, KIP-595) and AbstractFetcherThread.getOffsetTruncationState (KIP-101, KIP-279).
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

UNKNOWN = (-1, -1)


@dataclass(slots=True)
class Log:
    """records: the identity of the record at every offset from 0 on; a number that is never used again. epochs: their
    leader epochs. batches: base offsets of the batches. entries: lines (epoch, start offset). start: what is before it
    was deleted; base: of its first segment. compacted: offsets of what the cleaner removed (kept here, so that logs can
    be compared)."""

    records: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    entries: list[tuple[int, int]] = field(default_factory=list)
    start: int = 0
    batches: list[int] = field(default_factory=list)
    compacted: frozenset[int] = frozenset()
    base: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        """Of the last record, by the checkpoint as a fetch request says it; -1 for an empty log."""
        return self.entries[-1][0] if self.entries else -1

    def assign(self, epoch: int, offset: int) -> None:
        if self.entries and self.entries[-1][0] == epoch and self.entries[-1][1] <= offset:
            return
        self.entries = [(e, s) for e, s in self.entries if e < epoch and s < offset] + [(epoch, offset)]

    def append(self, records: list[int], epochs: list[int], batches: list[int] | None = None) -> None:
        """batches: those of the records; None: they are one."""
        last = -1
        self.batches = self.batches + ([self.end] if batches is None else batches)
        for number, epoch in enumerate(epochs, self.end):
            if epoch != last and number not in self.compacted:
                self.assign(epoch, number)
                last = epoch
        self.records = self.records + records
        self.epochs = self.epochs + epochs

    def prefix(self, end: int) -> "Log":
        """A copy of what is below an offset."""
        copy = replace(self)
        copy.cut(end)
        return copy

    def cut(self, end: int) -> None:
        """Truncate to an end offset; lines that begin there or later go."""
        self.lose(end)
        self.entries = [(e, s) for e, s in self.entries if s < end]
        self.start, self.base = min(self.start, self.end), min(self.base, self.end)

    def lose(self, end: int) -> None:
        """The disk loses records; the checkpoint file keeps its lines until the log is loaded."""
        self.records, self.epochs = self.records[:end], self.epochs[:end]
        self.batches = [b for b in self.batches if b < end]
        self.compacted = frozenset(offset for offset in self.compacted if offset < end)

    def compact(self, batches: Collection[int]) -> None:
        """The cleaner removes some batches, by their base offsets; the log's end and its lines stay (LogCleaner)."""
        ends = [*self.batches[1:], self.end]
        gone = [range(b, end) for b, end in zip(self.batches, ends, strict=True) if b in batches]
        self.compacted = self.compacted.union(*gone)

    def delete_before(self, start: int) -> None:
        """The first line moves up with the log's start."""
        self.start = start
        gone = [e for e in self.entries if e[1] <= start]
        if gone and gone[-1][1] < start:
            self.entries = [(gone[-1][0], start), *(e for e in self.entries if e[1] > start)]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) of the largest epoch up to this one; UNKNOWN if there is none to say."""
        if epoch < 0 or not self.entries or epoch > self.entries[-1][0]:
            return UNKNOWN
        if epoch == self.entries[-1][0]:
            return epoch, self.end
        higher = next(i for i, (e, _) in enumerate(self.entries) if e > epoch)
        found = self.entries[higher - 1][0] if higher else epoch
        return found, self.entries[higher][1]


def common(left: list[int], right: list[int]) -> int:
    """How many records the two logs begin with that are the same."""
    size = min(len(left), len(right))
    if left[:size] == right[:size]:
        return size
    return next(i for i in range(size) if left[i] != right[i])


def diverging(leader: Log, follower: Log) -> tuple[int, int] | None:
    """What the leader answers a fetch from the follower's log end: (epoch, end offset) if the logs part, else None.

    A log end beyond the leader's is out of range where the epoch says nothing."""
    if follower.end == 0 or follower.last_epoch < 0:
        return None if follower.end <= leader.end else (-1, leader.end)
    epoch, end = leader.end_of(follower.last_epoch)
    if epoch < 0:
        return None if follower.end <= leader.end else (-1, leader.end)
    return (epoch, end) if epoch < follower.last_epoch or end < follower.end else None


def truncate(follower: Log, told: tuple[int, int]) -> None:
    """Cut the follower back, as far as this one answer says; the next fetch may say more."""
    epoch, end = told
    mine, my_end = follower.end_of(epoch) if epoch >= 0 else UNKNOWN
    if mine < 0:
        follower.cut(min(end, follower.end))
    elif mine != epoch:
        follower.cut(min(my_end, follower.end))
    else:
        follower.cut(min(my_end, end, follower.end))


def follow(leader: Log, follower: Log) -> None:
    """Copy records after the follower's log end."""
    begin, end = follower.end, leader.end
    if begin < leader.start:
        # Too far behind: it starts anew from the leader's log start (offset out of range).
        follower.records, follower.epochs = leader.records[: leader.start], leader.epochs[: leader.start]
        follower.entries, follower.start, begin, follower.batches = [], leader.start, leader.start, []
        follower.compacted, follower.base = frozenset(), leader.start
    if end > begin:
        batches = sorted({begin, *(b for b in leader.batches if begin < b < end)})
        # A line of an epoch that is new to it begins with the first batch that is left (UnifiedLog.append).
        follower.compacted |= {offset for offset in leader.compacted if begin <= offset}
        follower.append(leader.records[begin:end], leader.epochs[begin:end], batches)
    if follower.start < leader.start:  # UnifiedLog.maybeIncrementLogStartOffset
        follower.delete_before(leader.start)
        follower.records = leader.records[: leader.start] + follower.records[leader.start :]
