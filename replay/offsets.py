"""What log-end-offset evidence says about one partition: bounds with the rows they stand on. Plain Python, a partition
at a time: only partitions that are already suspected come here.

Every rule below is one-sided on purpose: a value that cannot be ordered against an election is not used to prove.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Row = dict[str, Any]

# The log_end_offsets.source of a replica's last segment; beside a .kafka_cleanshutdown it has the session's epoch.
SEGMENT = "replica_segment"
# Sources that ask a running process. They show a log end of 0 while a log is not loaded yet: it says nothing.
METRICS = ("jmx_exporter", "jmx_tool")

# How long a broker may go on under the old state before it learns of a new one (metadata propagation).
PROPAGATION_MS = 1_000


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on an offset and the row that gives it; value None: open. limit: the row that lowered the value, if one
    did (see `lineage.floors`)."""

    value: int | None = None
    row: Row | None = None
    limit: Row | None = None


OPEN = Bound()


@dataclass(frozen=True, slots=True)
class Clock:
    """How to order evidence by time. error_ms: the largest difference between two nodes' clocks."""

    error_ms: int = 0

    def surely_before(self, row: Row, timestamp_ms: int) -> bool:
        """True when the row's value was read before the time, whatever the clocks and the capture's duration did."""
        begin = row["captured_at_ms"]
        return begin is not None and read_by(row) + self.error_ms < timestamp_ms

    def surely_after(self, row: Row, timestamp_ms: int) -> bool:
        begin = row["captured_at_ms"]
        return begin is not None and begin - self.error_ms > timestamp_ms


def read_by(row: Row) -> int:
    """The latest time at which the value of a row with a capture time was read."""
    return int(row["captured_at_ms"]) + (row["uncertainty_ms"] or 0)


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as it was last seen before a time: its log end and the last leader epoch written in its log."""

    broker_id: int
    log_end_offset: int
    last_written_leader_epoch: int | None
    row: Row


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """A line of a replica's leader-epoch-checkpoint. lines: (epoch, start offset) of the whole file, number: which of
    them this is; whole: no line of the file is missing."""

    broker_id: int
    lines: list[tuple[int, int]]
    number: int
    whole: bool
    row: Row

    @property
    def start_offset(self) -> int:
        return self.lines[self.number][1]

    @property
    def before(self) -> list[tuple[int, int]]:
        return self.lines[: self.number]

    @property
    def exact(self) -> bool:
        """Deleting the log's start moves the first line's offset up with it; every other line stays as written
        (Kafka's LeaderEpochFileCache.truncateFromStart)."""
        return self.whole and (self.number > 0 or self.start_offset == 0)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The rows of one partition, ready to be asked. Rows without a capture time are in `entries` only.

    marks: high watermarks. entries: lines of leader-epoch-checkpoints by leader epoch. log_ends and epoch_rows (such
    lines again): by broker. left: log ends that a session left behind when it stopped cleanly, by (broker, its epoch).
    All in order of capture.
    """

    marks: list[Row]
    entries: dict[int, list[EpochEntry]]
    log_ends: dict[int, list[Row]]
    epoch_rows: dict[int, list[Row]]
    left: dict[tuple[int, int], list[Row]]


def index_rows(rows: Iterable[Row]) -> Evidence:
    """Evidence from LOG_END_OFFSETS rows, in any order: what comes out does not depend on it."""
    # A source that names no broker (kafka-get-offsets) is not a replica's view: it proves nothing here.
    ordered = sorted((r for r in rows if r["broker_id"] is not None), key=_place)
    marks = [r for r in ordered if r["high_watermark"] is not None and r["captured_at_ms"] is not None]
    log_ends: dict[int, list[Row]] = defaultdict(list)
    epoch_rows: dict[int, list[Row]] = defaultdict(list)
    files: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    left: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in ordered:
        if row["source"] == SEGMENT and row["log_end_offset"] is not None and row["broker_epoch"] is not None:
            left[row["broker_id"], row["broker_epoch"]].append(row)
        if row["log_end_offset"] is not None and row["captured_at_ms"] is not None:
            log_ends[row["broker_id"]].append(row)
        if row["epoch_start_offset"] is not None:
            files[row["broker_id"], row["captured_at_ms"], row["path"], row["sha256"]].append(row)
            if row["captured_at_ms"] is not None:
                epoch_rows[row["broker_id"]].append(row)
    entries: dict[int, list[EpochEntry]] = defaultdict(list)
    for file in files.values():
        file.sort(key=lambda r: r["leader_epoch"])
        whole, lines = _is_whole(file), [(r["leader_epoch"], r["epoch_start_offset"]) for r in file]
        for number, row in enumerate(file):
            entries[row["leader_epoch"]].append(EpochEntry(row["broker_id"], lines, number, whole, row))
    return Evidence(marks, dict(entries), dict(log_ends), dict(epoch_rows), dict(left))


def _is_whole(lines: list[Row]) -> bool:
    """Whether these are all lines of a leader-epoch-checkpoint: version, count, then an epoch and its offset each."""
    position = len(f"0\n{len(lines)}\n")
    for row in lines:
        if row["position"] != position:
            return False
        position += len(f"{row['leader_epoch']} {row['epoch_start_offset']}\n")
    return True


def _place(row: Row) -> tuple[Any, ...]:
    at = row["captured_at_ms"]
    where = (row["capture"] or "", row["path"] or "", row["sha256"] or "", row["position"] or 0)
    values = [-1 if row[n] is None else row[n] for n in ("high_watermark", "log_end_offset", "epoch_start_offset")]
    return (at is None, at or 0, row["broker_id"], row["source"], *where, *values, row["uncertainty_ms"] or 0)


@dataclass(frozen=True, slots=True)
class Leaders:
    """Who led a partition in which leader epoch, ascending, as far as states are known without a break."""

    epochs: Sequence[int]
    brokers: Sequence[int]


def exact_log_end(evidence: Evidence, leaders: Leaders, leader: int, leader_epoch: int) -> Bound:
    """Up to where the winner's log was the partition's log when it was elected; open if that is not known.

    A leader writes its log end into its leader-epoch-checkpoint when it is elected. Its lines and those of the leader
    before it tell where the two logs part: the same offset means the same record only within the same epoch (KIP-101,
    KIP-279).
    """
    led = bisect_left(leaders.epochs, leader_epoch) - 1
    ends: list[tuple[int, Row]] = []
    earlier = _distinct(_own(evidence, leaders.brokers[led], leaders.epochs[led])) if led >= 0 else []
    for entry in _distinct(_own(evidence, leader, leader_epoch)):
        if entry.start_offset == 0:
            ends.append((0, entry.row))
        elif led >= 0 and entry.lines[entry.number - 1][0] == leaders.epochs[led]:
            ends.append((entry.start_offset, entry.row))
        elif led >= 0:
            found = [_parting(entry, other) for other in earlier]
            ends += [(end, entry.row) for end in found if end is not None]
    end, row = min(ends, key=lambda pair: pair[0], default=(None, None))
    return Bound(end, row)


def _parting(entry: EpochEntry, leader: EpochEntry) -> int | None:
    """Where the log in front of the entry parts from the leader's log, whose end is open; None if the files share no
    epoch."""
    mine = [*entry.before, (-1, entry.start_offset)]
    ends = {epoch: end for (epoch, _), (_, end) in pairwise(mine)}
    theirs = leader.lines[: leader.number + 1]
    shared = [epoch for epoch, _ in theirs if epoch in ends]
    if not shared:
        return None
    return min([ends[shared[-1]], *(start for epoch, start in theirs if epoch > shared[-1])])


def _distinct(entries: Iterable[EpochEntry]) -> list[EpochEntry]:
    """The first of those that tell the same up to their own line: files are copied again and again."""
    found: dict[tuple[Any, ...], EpochEntry] = {}
    for entry in entries:
        found.setdefault(tuple(entry.lines[: entry.number + 1]), entry)
    return list(found.values())


def _own(evidence: Evidence, broker: int, leader_epoch: int) -> list[EpochEntry]:
    return [e for e in evidence.entries.get(leader_epoch, []) if e.broker_id == broker and e.exact]


def log_end_ceiling(evidence: Evidence, leader: int, leader_epoch: int, term: tuple[int, int], clock: Clock) -> Bound:
    """An upper bound of the winner's log end when it was elected. term: from when to when it surely led, in ms.

    The entry in its own file is its log end. Other replicas' entries for its epoch and its log end while it led are
    never below that. A log end of 0 is left out: a metric shows it, too, while the log is not loaded yet.
    """
    entries = _own(evidence, leader, leader_epoch) or evidence.entries.get(leader_epoch, [])
    above = [(e.start_offset, e.row) for e in entries]
    if not any(e.broker_id == leader and e.exact for e in entries):
        elected, until = term
        seen = _running(_log_ends(evidence, leader, elected + PROPAGATION_MS, until, clock))
        above += [(r["log_end_offset"], r) for r in seen if r["log_end_offset"] > 0]
    best = min(above, key=lambda pair: pair[0], default=None)
    return Bound(best[0], best[1]) if best else OPEN


def high_watermark_ceiling(evidence: Evidence, frozen: tuple[int, int, int] | None, clock: Clock) -> Bound:
    """An upper bound of the high watermark at the end of a stretch in which it could not advance.

    frozen: (leader, start, end), times in ms: the leader's part of the stretch with |ISR| < min ISR right before the
    election. None if there is no such stretch: then the bound is open, since a leader may have written after it was
    last seen. In the stretch the high watermark stands still (KIP-966; Kafka's Partition.maybeIncrementLeaderHW), and
    the leader's log end is never below it.
    """
    if frozen is None:
        return OPEN
    leader, start, end = frozen
    seen = _running(_log_ends(evidence, leader, start + PROPAGATION_MS, end, clock))
    best = min(seen, key=lambda r: r["log_end_offset"], default=None)
    return Bound(best["log_end_offset"], best) if best else OPEN


def old_log_floor(evidence: Evidence, reign: tuple[int, int, int] | None, clock: Clock) -> Bound:
    """What the old leader's log had reached at least: its largest log end surely read while it led. reign: (leader,
    start, end), times in ms, without a restart; None if there was no leader."""
    if reign is None:
        return OPEN
    leader, start, end = reign
    seen = _log_ends(evidence, leader, start + PROPAGATION_MS, end, clock)
    best = max(seen, key=lambda r: r["log_end_offset"], default=None)
    return Bound(best["log_end_offset"], best) if best else OPEN


def old_log_end(evidence: Evidence, session: tuple[int, int] | None, leader_epoch: int) -> Bound:
    """Where the old leader's log ended when it stopped. session: (broker, broker epoch) that led last and went away,
    None if there is none. Known if it stopped cleanly, its disk was captured, and its last batch is of its own epoch:
    nothing was cut or added since it led."""
    if session is None:
        return OPEN
    rows = [r for r in evidence.left.get(session, []) if r["last_written_leader_epoch"] == leader_epoch]
    ends = {r["log_end_offset"] for r in rows}
    return Bound(ends.pop(), rows[0]) if len(ends) == 1 else OPEN


def _log_ends(evidence: Evidence, broker: int, after_ms: int, before_ms: int, clock: Clock) -> list[Row]:
    """The broker's log ends surely read between two times."""
    rows = evidence.log_ends.get(broker, [])
    result = []
    for row in rows[bisect_right(rows, after_ms, key=lambda r: r["captured_at_ms"]) :]:
        if row["captured_at_ms"] >= before_ms:
            break
        if clock.surely_after(row, after_ms) and clock.surely_before(row, before_ms):
            result.append(row)
    return result


def _running(rows: Iterable[Row]) -> list[Row]:
    """Without copies of a disk: its process may have been killed before anybody noticed, and its log's tail gone."""
    return [row for row in rows if row["source"] != SEGMENT]


def last_seen(evidence: Evidence, broker: int, before_ms: int, clock: Clock) -> Replica | None:
    """The replica as it was last seen before the time, or None."""
    return next(_sights(evidence, broker, before_ms, clock), None)


def last_told(evidence: Evidence, broker: int, before_ms: int, clock: Clock) -> Replica | None:
    """The replica as it was last seen with its epoch, which is what elections compare first; without one in any sight
    of it, as it was last seen."""
    sights = list(_sights(evidence, broker, before_ms, clock))
    return next((s for s in sights if s.last_written_leader_epoch is not None), sights[0] if sights else None)


def _sights(evidence: Evidence, broker: int, before_ms: int, clock: Clock) -> Iterator[Replica]:
    """The replica at every time it was seen before, the latest first. Its epoch is that of its last batch where the
    source says it, else read from the leader-epoch-checkpoint of the same round of capturing; an epoch that begins at
    the log's end was opened but not written."""
    rows, captured = evidence.log_ends.get(broker, []), evidence.epoch_rows.get(broker, [])
    at = bisect_right(rows, before_ms, key=lambda r: r["captured_at_ms"])
    for row in reversed(rows[:at]):
        unloaded = row["log_end_offset"] == 0 and row["source"] in METRICS
        if clock.surely_before(row, before_ms) and not unloaded:
            yield Replica(broker, row["log_end_offset"], _epoch_of(row, captured), row)


def _epoch_of(row: Row, captured: Sequence[Row]) -> int | None:
    if row["last_written_leader_epoch"] is not None:
        return int(row["last_written_leader_epoch"])
    first = bisect_right(captured, row["captured_at_ms"] - 1, key=lambda r: r["captured_at_ms"])
    behind = bisect_right(captured, row["captured_at_ms"], key=lambda r: r["captured_at_ms"])
    epochs = [r["leader_epoch"] for r in captured[first:behind] if r["epoch_start_offset"] < row["log_end_offset"]]
    return max(epochs, default=None)
