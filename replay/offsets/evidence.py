"""Log-end-offset evidence about one partition: the rows, indexed, and the bounds that follow from one kind of row.

Plain Python, one partition at a time: only partitions that are already suspected get here. Every rule is one-sided on
purpose: a value that cannot be ordered in time against an election proves nothing.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import Any

from replay.arrow.runs import groups
from replay.cluster.facts import Clock, read_by
from replay.offsets.clean_stops import (
    HEADS,
    HOLDS_LOG,
    IS_ONLY_VALUE,
    RECOVERY_POINT,
    SEGMENT,
    Row,
    folders_of,
    left_behind,
    may_be_left,
    place_of,
)

__all__ = ["Row", "read_by"]

# Sources that query a running process. They show a log end of 0 while a log is not loaded yet, which means nothing.
METRICS = ("jmx_exporter", "jmx_tool")
_BROKER = itemgetter("broker_id")

# How long a broker that the controller hears from may act on the old state before it learns of a new one.
PROPAGATION_MS = 1_000


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound on an offset and the row that gives it. value None: open. limit: the row that lowered the value, if any
    (see `watermark_floor.floors`). inference: statement code of the rule that gave it, if not the default one."""

    value: int | None = None
    row: Row | None = None
    limit: Row | None = None
    inference: str | None = None


OPEN = Bound()


def lower(first: Bound, second: Bound) -> Bound:
    """The lower of two bounds; of equal ones the first. An open one does not count."""
    return min((b for b in (first, second) if b.value is not None), key=lambda b: b.value or 0, default=OPEN)


def higher(first: Bound, second: Bound) -> Bound:
    """The higher of two bounds; of equal ones the first. An open one does not count."""
    return max((b for b in (first, second) if b.value is not None), key=lambda b: b.value or 0, default=OPEN)


@dataclass(frozen=True, slots=True)
class Replica:
    """The last observation of a replica before a time: its log end and the last leader epoch written in its log."""

    broker_id: int
    log_end_offset: int
    last_written_leader_epoch: int | None
    row: Row


@dataclass(frozen=True, slots=True)
class EpochEntry:
    """A line of a replica's leader-epoch-checkpoint.

    lines: (epoch, start offset) of the whole file; number: index of this line; whole: no line of the file is missing.
    row: of the first file read that shows this line and all lines before it.
    """

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
        """Whether the line is as it was written. Deleting the log's start raises the offset of the first line; no other
        line changes (Kafka's LeaderEpochFileCache.truncateFromStart)."""
        return self.whole and (self.number > 0 or self.start_offset == 0)


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one reading of a broker's exporter shows of the partition; None for what it does not show.

    log_end_offset: also 0 while the log is not loaded yet. in_sync_replicas_count, under_min_isr: 0 and False if the
    broker does not lead. row: of the log end, if it shows one.
    """

    captured_at_ms: int
    process_start_ms: int | None
    log_end_offset: int | None
    in_sync_replicas_count: int | None
    under_min_isr: bool | None
    row: Row

    @property
    def says_it_leads(self) -> bool:
        """Whether the broker leads in its own eyes. One that was elected may wait for a disk before it does, and follow
        and send heartbeats all the same (Kafka's BrokerMetadataPublisher, 4.3.1)."""
        return (self.in_sync_replicas_count or 0) >= 1

    @property
    def says_enough_alone(self) -> bool:
        """Whether the broker leads in its own eyes, alone in the ISR and not below min ISR."""
        return self.in_sync_replicas_count == 1 and self.under_min_isr is False

    @property
    def says_below_min_isr(self) -> bool:
        """Whether the broker leads in its own eyes, below min ISR."""
        return bool(self.under_min_isr) and self.says_it_leads


@dataclass(frozen=True, slots=True)
class Observations:
    """The log ends of one broker, for looking up the last observation before a time.

    read_by: ascending, in ms. latest, with_epoch: for each, the latest in order of capture up to it, of all
    observations and of those with an epoch (None: none).
    """

    read_by: list[int]
    latest: list[Replica]
    with_epoch: list[Replica | None]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The rows of one partition, indexed and in order of capture. Rows without a capture time are only in `entries` and
    `left`.

    told: rows of sources that name no broker: what whoever led told a client. high_watermarks: those of brokers;
    HOLDS_LOG: whether the capture has the partition's own folder beside the file; IS_ONLY_VALUE: whether no file of
    another directory, read in the same round, shows another value.
    entries: distinct lines of leader-epoch-checkpoints, by leader epoch. log_ends, log_starts,
    epoch_rows (those lines again), observations, scrapes: by broker. left: log ends that a session left on disk when it
    stopped cleanly, by (broker, broker epoch). stopped: when the file of a clean stop was last found, in ms, by the
    same key: until then the broker had not started again.
    """

    told: list[Row]
    high_watermarks: list[Row]
    entries: dict[int, list[EpochEntry]]
    log_ends: dict[int, list[Row]]
    log_starts: dict[int, list[Row]]
    epoch_rows: dict[int, list[Row]]
    observations: dict[int, Observations]
    scrapes: dict[int, list[Scrape]]
    left: dict[tuple[int, int], list[Row]]
    stopped: dict[tuple[int, int], int]


def index_rows(rows: Iterable[Row]) -> Evidence:
    """Evidence from LOG_END_OFFSETS rows; their order does not matter."""
    rows = list(rows)
    ordered = sorted((r for r in rows if r["broker_id"] is not None), key=_sort_key)
    timed = [r for r in ordered if r["captured_at_ms"] is not None]
    told = (r for r in rows if r["broker_id"] is None and None not in (r["captured_at_ms"], r["high_watermark"]))
    folders = folders_of(ordered)
    log_ends = groups((r for r in timed if r["log_end_offset"] is not None and not may_be_left(r, folders)), _BROKER)
    epoch_rows = groups((r for r in timed if r["epoch_start_offset"] is not None), _BROKER)
    processes = groups((r for r in timed if _from_process(r)), _BROKER)
    marks = [r for r in timed if r["high_watermark"] is not None]
    shown: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for row in marks:
        shown[_round_of(row)].add(row["high_watermark"])
    return Evidence(
        told=sorted(
            told, key=lambda r: (r["captured_at_ms"], r["high_watermark"], r["path"] or "", r["position"] or 0)
        ),
        high_watermarks=[
            {**r, HOLDS_LOG: place_of(r) in folders, IS_ONLY_VALUE: len(shown[_round_of(r)]) == 1} for r in marks
        ],
        entries=_entries(r for r in ordered if r["epoch_start_offset"] is not None),
        log_ends=log_ends,
        log_starts=groups((r for r in timed if r.get("log_start_offset") is not None), _BROKER),
        epoch_rows=epoch_rows,
        observations={broker: _observations(ends, epoch_rows.get(broker, [])) for broker, ends in log_ends.items()},
        scrapes={broker: _scrapes(own) for broker, own in processes.items()},
        left=left_behind(ordered),
        stopped={
            (r["broker_id"], r["broker_epoch"]): r["captured_at_ms"]
            for r in timed
            if r["broker_epoch"] is not None and r["source"] in (RECOVERY_POINT, SEGMENT)
        },
    )


def _round_of(row: Row) -> tuple[Any, ...]:
    return row["source"], row["capture"], row["broker_id"], row["captured_at_ms"]


def _sort_key(row: Row) -> tuple[Any, ...]:
    """By capture time, then by everything else that rows can differ in."""
    at = row["captured_at_ms"]
    file = (row["capture"] or "", row["path"] or "", row["sha256"] or "", row["position"] or 0)
    values = [-1 if row.get(name) is None else row[name] for name in _VALUES]
    return (at is None, at or 0, row["broker_id"], row["source"], *file, *values, row["uncertainty_ms"] or 0)


_VALUES = (
    *("high_watermark", "log_end_offset", "epoch_start_offset", "leader_epoch", "recovery_point_offset"),
    *("broker_epoch", "last_written_leader_epoch", "in_sync_replicas_count", "under_min_isr", "process_start_ms"),
)


def _entries(rows: Iterable[Row]) -> dict[int, list[EpochEntry]]:
    """Each distinct line with the lines before it, once: the same file is copied many times."""
    files = groups(rows, itemgetter("captured_at_ms", "broker_id", "path", "sha256"))
    known: set[tuple[Any, ...]] = set()
    entries: dict[int, list[EpochEntry]] = defaultdict(list)
    for file in files.values():
        file.sort(key=lambda r: (r["leader_epoch"], r["epoch_start_offset"]))
        whole, lines = _is_whole(file), [(r["leader_epoch"], r["epoch_start_offset"]) for r in file]
        shown: tuple[Any, ...] = ()
        for number, row in enumerate(file):
            # The first line's offset moves with the log's start, and no rule uses it unless it is 0.
            shown = (hash(shown), lines[number] if number or not lines[number][1] else lines[number][0])
            key = (row["broker_id"], whole, shown)
            if key not in known:
                known.add(key)
                entries[row["leader_epoch"]].append(EpochEntry(row["broker_id"], lines, number, whole, row))
    return dict(entries)


def _is_whole(lines: list[Row]) -> bool:
    """Whether these are all lines of a leader-epoch-checkpoint: a version, a count, then an epoch and offset a line."""
    position = len(f"0\n{len(lines)}\n")
    for row in lines:
        if row["position"] != position:
            return False
        position += len(f"{row['leader_epoch']} {row['epoch_start_offset']}\n")
    return True


def _from_process(row: Row) -> bool:
    """Whether a running broker answered. A copy of its disk does not count: its process may have been killed
    unnoticed."""
    answers = row["log_end_offset"] is not None or row["source"] in METRICS
    return answers and row["source"] not in (SEGMENT, HEADS)


def _scrapes(rows: Iterable[Row]) -> list[Scrape]:
    """One scrape for each exporter text. While a replica moves between directories, the text may also list its lower
    successor, so the highest log end counts."""
    scrapes = []
    for (at, _, _), text in groups(rows, itemgetter("captured_at_ms", "path", "sha256")).items():
        ends = [r for r in text if r["log_end_offset"] is not None]
        row = max(ends, key=lambda r: r["log_end_offset"], default=text[0])
        values = {n: [r[n] for r in text if r.get(n) is not None] for n in _GAUGES}
        single = {n: v[0] if len(set(v)) == 1 else None for n, v in values.items()}
        scrapes.append(Scrape(at, log_end_offset=row["log_end_offset"] if ends else None, row=row, **single))
    return scrapes


_GAUGES = ("process_start_ms", "in_sync_replicas_count", "under_min_isr")


def own_lines(evidence: Evidence, broker: int, leader_epoch: int) -> list[EpochEntry]:
    """The exact lines for that epoch in the broker's own leader-epoch-checkpoint."""
    return [e for e in evidence.entries.get(leader_epoch, []) if e.broker_id == broker and e.exact]


def log_end_ceiling(
    evidence: Evidence,
    leader: int,
    leader_epoch: int,
    led_ms: tuple[int, int],
    of_the_process: Callable[[Row], bool],
    clock: Clock,
) -> Bound:
    """An upper bound on the winner's log end when it took over.

    led_ms: from when to when it led and knew it. of_the_process: whether a row is of the process
    that was elected: after a crash within its session the next process may have less and write its line again.

    The entry in its own file is its log end. Other replicas' entries for its epoch, and its log ends while it led, are
    never below that. A log end of 0 is left out: a metric also shows it while the log is not loaded yet.
    """
    entries = [e for e in evidence.entries.get(leader_epoch, []) if of_the_process(e.row)]
    own = [e for e in entries if e.broker_id == leader and e.exact]
    above = [(e.start_offset, e.row) for e in own or entries]
    if not own:
        ends = [e for e in running_log_ends(evidence, leader, *led_ms, clock) if of_the_process(e.row)]
        above += [(e.log_end_offset, e.row) for e in ends if e.log_end_offset and e.says_it_leads]
    best = min(above, key=lambda pair: pair[0], default=None)
    return Bound(best[0], best[1]) if best else OPEN


def running_log_ends(evidence: Evidence, broker: int, after_ms: int, before_ms: int, clock: Clock) -> list[Scrape]:
    """The scrapes that show the broker's log end and were read between two times."""
    scrapes = evidence.scrapes.get(broker, [])
    first = bisect_right(scrapes, after_ms, key=lambda s: s.captured_at_ms)
    end = bisect_left(scrapes, before_ms, key=lambda s: s.captured_at_ms)
    inside = (s for s in scrapes[first:end] if s.log_end_offset)
    return [s for s in inside if clock.surely_after(s.row, after_ms) and clock.surely_before(s.row, before_ms)]


def _between(rows: Sequence[Row], after_ms: int, before_ms: int, clock: Clock) -> Iterator[Row]:
    """The rows that were certainly read between two times. rows: in order of capture."""
    first = bisect_right(rows, after_ms, key=lambda r: r["captured_at_ms"])
    end = bisect_left(rows, before_ms, key=lambda r: r["captured_at_ms"])
    return (r for r in rows[first:end] if clock.surely_after(r, after_ms) and clock.surely_before(r, before_ms))


def _highest(rows: Iterable[Row], name: str) -> Bound:
    best = max(rows, key=itemgetter(name), default=None)
    return Bound(best[name], best) if best else OPEN


def old_log_floor(evidence: Evidence, term: tuple[int, int, int] | None, clock: Clock) -> Bound:
    """A lower bound on the old leader's log end: the largest that was read since it led.

    term: (leader, when it began to lead, until when to look), in ms; None: nothing is known.
    """
    if term is None:
        return OPEN
    leader, begin_ms, end_ms = term
    rows = _between(evidence.log_ends.get(leader, []), begin_ms + PROPAGATION_MS, end_ms, clock)
    return _highest(rows, "log_end_offset")


def log_start(evidence: Evidence, broker: int, after_ms: int, led_until_ms: int, before_ms: int, clock: Clock) -> Bound:
    """The highest log start of the broker's log that was read between two times; of an exporter: while the broker led.

    Later its retention deletes what other replicas may keep: it does in every log, whoever leads, but whole segments.
    The file of log starts has only those inside a segment, as a leader's client asked for (LogManager.cleanupLogs,
    checkpointLogStartOffsetsInDir, 3.9.1 to 4.3.1)."""
    rows = _between(evidence.log_starts.get(broker, []), after_ms, before_ms, clock)
    own = (r for r in rows if r["source"] not in METRICS or clock.surely_before(r, led_until_ms))
    return _highest(own, "log_start_offset")


def last_seen(evidence: Evidence, broker: int, before_ms: int, clock: Clock) -> Replica | None:
    """The last observation of the replica before the time, or None."""
    observations = evidence.observations.get(broker)
    at = bisect_left(observations.read_by, before_ms - clock.error_ms) - 1 if observations else -1
    return observations.latest[at] if observations and at >= 0 else None


def last_seen_with_epoch(evidence: Evidence, broker: int, before_ms: int, clock: Clock) -> Replica | None:
    """The last observation of the replica that has an epoch, which elections compare first. If none has one, the last
    observation; None if there is none."""
    observations = evidence.observations.get(broker)
    at = bisect_left(observations.read_by, before_ms - clock.error_ms) - 1 if observations else -1
    return (observations.with_epoch[at] or observations.latest[at]) if observations and at >= 0 else None


def _observations(rows: Sequence[Row], captured: Sequence[Row]) -> Observations:
    """The observations of one broker. captured: its lines of leader-epoch-checkpoints.

    The epoch is that of the last batch if the source shows it, else it is read from the leader-epoch-checkpoint of the
    same round of capturing; an epoch that begins at the log's end was opened but not written.
    """
    numbered = [
        (read_by(row), number, Replica(row["broker_id"], row["log_end_offset"], _epoch_of(row, captured), row))
        for number, row in enumerate(rows)
        if row["log_end_offset"] > 0 or row["source"] not in METRICS
    ]
    numbered.sort(key=lambda observation: observation[:2])

    def later(first: tuple[int, Replica | None], second: tuple[int, Replica | None]) -> tuple[int, Replica | None]:
        return max(first, second, key=lambda pair: pair[0])

    latest = list(accumulate(((n, replica) for _, n, replica in numbered), later))
    known = ((n, r) if r.last_written_leader_epoch is not None else (-1, None) for _, n, r in numbered)
    with_epoch = list(accumulate(known, later))
    return Observations([at for at, _, _ in numbered], [r for _, r in latest if r], [r for _, r in with_epoch])


def _epoch_of(row: Row, captured: Sequence[Row]) -> int | None:
    if row["last_written_leader_epoch"] is not None:
        return int(row["last_written_leader_epoch"])
    first = bisect_right(captured, row["captured_at_ms"] - 1, key=lambda r: r["captured_at_ms"])
    end = bisect_right(captured, row["captured_at_ms"], key=lambda r: r["captured_at_ms"])
    epochs = [r["leader_epoch"] for r in captured[first:end] if r["epoch_start_offset"] < row["log_end_offset"]]
    return max(epochs, default=None)
