"""A replica's log with its leader-epoch-checkpoint, cut and written as Kafka does (LeaderEpochFileCache)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ReplicaLog:
    """log: the record at every offset, from offset 0; epochs: the leader epoch of each. entries: lines (epoch, start
    offset) of the leader-epoch-checkpoint. log_start: what is before it was deleted."""

    log: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    entries: list[tuple[int, int]] = field(default_factory=list)
    log_start: int = 0

    @property
    def end(self) -> int:
        return len(self.log)

    def assign(self, epoch: int) -> None:
        """Note that the epoch begins at the log's end."""
        if not any(e == epoch for e, _ in self.entries):
            self.entries = [(e, s) for e, s in self.entries if e < epoch and s < self.end] + [(epoch, self.end)]

    def cut(self, end: int) -> None:
        """Lose what is behind `end`, and lines that begin there or later: also of an epoch without records."""
        self.log, self.epochs = self.log[:end], self.epochs[:end]
        self.entries = [(e, s) for e, s in self.entries if s < end]

    def append(self, record: int, epoch: int) -> None:
        self.assign(epoch)
        self.log.append(record)
        self.epochs.append(epoch)

    def follow(self, leader: ReplicaLog, most: int | None = None) -> None:
        """Be cut back to where the logs part, then copy (at most so many records)."""
        self.cut(common(self.log, leader.log))
        behind = leader.end if most is None else min(leader.end, self.end + most)
        for offset in range(self.end, behind):
            self.append(leader.log[offset], leader.epochs[offset])

    def delete_before(self, start: int) -> None:
        """Old records are deleted: the first line moves up with the log's start."""
        self.log_start = start
        gone = [e for e in self.entries if e[1] <= start]
        if gone:
            self.entries = [(gone[-1][0], start), *(e for e in self.entries if e[1] > start)]


def common(left: list[int], right: list[int]) -> int:
    """How many records the two logs begin with that are the same."""
    size = min(len(left), len(right))
    if left[:size] == right[:size]:
        return size
    return next(i for i in range(size) if left[i] != right[i])
