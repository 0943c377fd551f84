"""The lines of brokers' own logs about one partition, sorted by what they say.

A line that is missing proves nothing: logs are rotated, and archives drop lines. So only lines that were captured
count, and a line shows a process's past only if it names it.

Sources: Kafka's Partition.makeLeader and makeFollower (state-change.log), ReplicaFetcherThread and
UnifiedLog.truncateTo (server.log). docs/broker_logs.md says what each line proves.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array
from replay.arrow.runs import groups, highest_before
from replay.arrow.schemas import PROVENANCE_NAMES
from replay.offsets.clean_stops import Row
from replay.offsets.partition_rows import by_partition, keys_of
from replay.partitions.elections import States

LED, UNCHANGED, FOLLOWED = "leader_started", "leader_unchanged", "follower_started"
TRUNCATING, BELOW = "truncating_to_leaders_epoch", "truncated_below_high_watermark"
TRUNCATED, SET_BACK = "truncated", "high_watermark_set_back"
SHRINKING, ISR_UPDATED = "isr_shrinking", "isr_updated"
# A start that found damage: what is on a disk may have changed although its machine ran on. A missing line shows
# nothing: LogLoader.loadSegmentFiles drops what recoverSegment returns.
DAMAGED = (
    *("corruption_found", "log_emptied_at_load", "invalid_messages_found", "index_rebuilt", "future_log_promoted"),
    "stray_log",
)
LOADED, INITIAL, CREATED = "log_load_completed", "log_loaded", "log_created"
KINDS = (
    *(LED, UNCHANGED, FOLLOWED, TRUNCATING, BELOW, TRUNCATED, SET_BACK, SHRINKING, ISR_UPDATED),
    *(LOADED, INITIAL, CREATED, *DAMAGED),
)
# A truncation is logged in two or three lines of one thread. No broker restarts and no leader is elected as fast.
AT_ONCE_MS = 250
_FILE = itemgetter("capture", "path", "node_id")
# A replica truncates its log this soon after it began to follow; no broker restarts as fast.
SOON_MS = 1_000


@dataclass(frozen=True, slots=True)
class LoggedEnds:
    """A line of a broker that it begins, or goes on, to lead or to follow.

    row: it, with the columns of a LOG_END_OFFSETS row that evidence names. leader: whom it follows, -1 for nobody;
    itself if it leads. log_end: of its log then, before it truncates; None if the line does not say. came_from: the
    (leader, leader epoch) that the same process knew before; None for the first of a process, and where the release
    does not print it. logged_at_ms: by its own wall clock.
    """

    row: Row
    broker: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    log_end: int | None
    high_watermark: int
    came_from: tuple[int, int] | None
    logged_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Cut:
    """A replica that truncated its log to `to`, below its high watermark, when it followed a leader whose log lacks the
    rest. latest_epoch: at most the last leader epoch that its log had then."""

    row: Row
    broker: int
    leader: int
    latest_epoch: int
    to: int
    high_watermark: int
    logged_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Shrink:
    """A leader's line that it wants a smaller ISR. It names no epoch; lines around it in its file do. since_epoch,
    until_epoch: it led one of these leader epochs then; since_epoch -1: unknown."""

    row: Row
    high_watermark: int
    since_epoch: int
    until_epoch: int


@dataclass(frozen=True, slots=True)
class Load:
    """What a starting process says of a log: where it ends, or the high watermark with which it begins (`value`).
    at_ms: in UTC, by the broker's own clock."""

    row: Row
    broker: int
    value: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class BrokerLines:
    """One partition's lines. began: by (broker, leader epoch), the first line with which a process began to lead that
    epoch: its exact log end. led: every line of a leader, so that its high watermark was that. corrupted: by broker,
    when it logged at a start that it cut off damaged records, in ms by its own clock; None: its zone is not known.
    cut_unasked: those of them that a start logs that found the file of a clean stop, too, and so skips recovery.
    created: the same, when it made an empty log where it keeps the replica; only known times. loads, initial: log
    ends, and high watermarks, of starting processes."""

    began: dict[tuple[int, int], LoggedEnds] = field(default_factory=dict)
    led: list[LoggedEnds] = field(default_factory=list)
    followed: list[LoggedEnds] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    shrinks: list[Shrink] = field(default_factory=list)
    corrupted: dict[int, list[int | None]] = field(default_factory=dict)
    cut_unasked: dict[int, list[int | None]] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)
    initial: list[Load] = field(default_factory=list)
    created: dict[int, list[int]] = field(default_factory=dict)

    def followed_epochs(self, broker: int) -> set[int]:
        """The leader epochs in which a process of the broker logged that it had followed, or learned of another
        leader."""
        followed = {line.leader_epoch for line in self.followed if line.broker == broker}
        came_from = [line.came_from for line in self.led if line.broker == broker]
        return followed | {known[1] for known in came_from if known is not None and known[0] != broker}

    @property
    def ends(self) -> Iterator[LoggedEnds]:
        """The lines that say where a log ended."""
        return (line for line in (*self.followed, *self.led) if line.log_end is not None)


NO_LINES = BrokerLines()


def lines_of(
    history: pa.Table,
    states: States,
    events: pa.Table | None,
    wanted: Array,
    is_first: Callable[[int, int, int | None], bool],
) -> dict[int, BrokerLines]:
    """The lines about some partitions, by partition key (`States.key`); partitions without a line are left out.

    events: BROKER_LOG_EVENTS rows with their topic_id filled in. A line that contradicts the metadata log, or is about
    a state that it does not have, is left out; so is one for which is_first (broker, row of the state, ms in UTC or
    None) is false: see `replay.terms.read_again`.
    """
    if events is None or not len(events):
        return {}
    events = events.filter(pc.and_(pc.is_in(events["kind"], pa.array(KINDS)), pc.is_valid(events["node_id"])))
    result = {}
    for key, own in by_partition(events, history, states, wanted).items():
        first, end = (int(np.searchsorted(states.key, key, side)) for side in ("left", "right"))
        span = history.slice(first, end - first)
        columns = (span[name].to_pylist() for name in ("partition_epoch", "leader_epoch", "leader", "removed"))
        recorded, rows_of, begun = dict[int, tuple[int, int]](), dict[int, int](), dict[int, int]()
        for row, (epoch, leader_epoch, leader, removed) in enumerate(zip(*columns, strict=True), first):
            if not removed:
                recorded[epoch], rows_of[epoch] = (leader_epoch, leader), row
                begun.setdefault(leader_epoch, row)
        own = [line for line in own if _is_current(line, recorded, rows_of, begun, is_first)]
        result[key] = _indexed(own, recorded)
    return result


def _is_current(
    line: Row,
    recorded: Mapping[int, tuple[int, int]],
    rows_of: Mapping[int, int],
    begun: Mapping[int, int],
    is_first: Callable[[int, int, int | None], bool],
) -> bool:
    """Whether a line about a state is of the first process that knew it, or, if it says that it begins to lead or to
    follow, that knew its leader epoch. rows_of: partition epoch -> row; begun: leader epoch -> its first row."""
    known = recorded.get(line["partition_epoch"])
    if line["kind"] not in (LED, UNCHANGED, FOLLOWED) or known is None:
        return True
    row = rows_of[line["partition_epoch"]] if line["kind"] == UNCHANGED else begun[known[0]]
    return is_first(line["node_id"], row, line["logged_at_utc_ms"])


def _indexed(rows: Sequence[Row], recorded: dict[int, tuple[int, int]]) -> BrokerLines:
    """recorded: by partition epoch, the (leader epoch, leader) of the metadata log."""
    ordered = sorted(rows, key=lambda r: (r["capture"] or "", r["path"] or "", r["position"] or 0))
    said = [
        s for r in ordered if (s := _logged_ends(r)) and recorded.get(s.partition_epoch) == (s.leader_epoch, s.leader)
    ]
    begun = (line for line in said if line.row["source"] == LED and line.came_from is not None)
    began = groups(begun, lambda line: (line.broker, line.leader_epoch))
    damaged = [row for row in ordered if row["kind"] in DAMAGED]
    created = (r for r in ordered if r["kind"] == CREATED and not (r["directory"] or "").endswith("-future"))
    return BrokerLines(
        # Copies of one line are the same; two that differ cannot both be the first.
        began={place: own[0] for place, own in began.items() if len({s.log_end for s in own}) == 1},
        led=[s for s in said if s.leader == s.broker],
        followed=[s for s in said if s.row["source"] == FOLLOWED],
        cuts=list(_cuts(ordered)),
        shrinks=list(_shrinks(ordered, recorded)),
        corrupted=_times(damaged),
        cut_unasked=_times(row for row in damaged if row["kind"] != "corruption_found"),
        loads=list(_loads(ordered, LOADED, "log_end_offset")),
        initial=list(_loads(ordered, INITIAL, "high_watermark")),
        created=_times(row for row in created if row["logged_at_utc_ms"] is not None),
    )


def _loads(rows: Iterable[Row], kind: str, name: str) -> Iterator[Load]:
    for row in rows:
        if row["kind"] == kind and None not in (row[name], row["logged_at_utc_ms"]):
            yield Load(as_row(row), row["node_id"], row[name], row["logged_at_utc_ms"])


def _times(rows: Iterable[Row]) -> dict[int, list[Any]]:
    """By broker, when its lines were logged."""
    by_broker = groups(rows, itemgetter("node_id"))
    return {broker: [row["logged_at_utc_ms"] for row in own] for broker, own in by_broker.items()}


def _shrinks(ordered: Iterable[Row], recorded: dict[int, tuple[int, int]]) -> Iterator[Shrink]:
    """The leaders' lines of smaller ISRs, each between the lines next to it whose leader epoch is known: in time the
    leader epochs that a broker knows only rise. Both the order in the file and that of its clock must say so, since
    files are joined in any order and clocks are set."""
    kinds = (SHRINKING, ISR_UPDATED, LED, UNCHANGED, FOLLOWED)
    timed = (row for row in ordered if row["kind"] in kinds and row["logged_at_ms"] is not None)
    for rows in groups(timed, _FILE).values():
        before: tuple[int, int] | None = None  # leader epoch, ms
        waiting: list[tuple[Row, int]] = []
        for row in rows:
            at = row["logged_at_ms"]
            if row["kind"] == SHRINKING and row["high_watermark"] is not None:
                waiting.append((row, before[0] if before and before[1] <= at else -1))
            epoch = _epoch_of(row, recorded)
            if epoch is not None:
                timely = [pair for pair in waiting if pair[0]["logged_at_ms"] <= at]
                yield from (Shrink(as_row(r), r["high_watermark"], since, epoch) for r, since in timely)
                before, waiting = (epoch, at), []


def _epoch_of(row: Row, recorded: dict[int, tuple[int, int]]) -> int | None:
    """The leader epoch that the broker knew when it logged the line; None if the line does not show it."""
    epoch, leader = recorded.get(row["partition_epoch"], (None, None))
    if row["kind"] == ISR_UPDATED:
        return epoch if leader == row["node_id"] else None
    said = _logged_ends(row)
    return epoch if said is not None and (said.leader_epoch, said.leader) == (epoch, leader) else None


def _logged_ends(row: Row) -> LoggedEnds | None:
    kind, broker = row["kind"], row["node_id"]
    if kind not in (LED, UNCHANGED, FOLLOWED):
        return None
    leader = row["leader"] if kind == FOLLOWED else broker
    numbers = (leader, row["leader_epoch"], row["partition_epoch"], row["high_watermark"])
    if any(n is None for n in numbers) or (kind != UNCHANGED and row["log_end_offset"] is None):
        return None
    previous = row["previous_leader_epoch"]
    # To 4.1 a follower prints its new leader and epoch as the previous ones.
    known = kind != UNCHANGED and previous is not None and 0 <= previous < row["leader_epoch"]
    came_from = (-1 if row["previous_leader"] is None else row["previous_leader"], previous) if known else None
    end = row["log_end_offset"]
    return LoggedEnds(as_row(row), broker, *numbers[:3], end, numbers[3], came_from, row["logged_at_ms"])


def as_row(event: Row, **values: int | None) -> Row:
    """An event as the LOG_END_OFFSETS row that evidence names. values: columns that it has under another name."""
    return {
        "source": event["kind"],
        "broker_id": event["node_id"],
        "captured_at_ms": event["logged_at_utc_ms"],
        "uncertainty_ms": None,
        "epoch_start_offset": None,
        **{n: event[n] for n in ("leader_epoch", "log_end_offset", "high_watermark", *PROVENANCE_NAMES)},
        **values,
    }


def _cuts(ordered: Iterable[Row]) -> Iterator[Cut]:
    """Truncations below a high watermark, each from the lines that one thread logs of it at once: `Truncating partition
    ... due to leader epoch`, then `below high watermark` (from 4.2 on) or, up to 4.1, `Truncating to offset` and the
    high watermark that is set back to that offset."""
    for rows in groups((r for r in ordered if r["kind"] in (TRUNCATING, BELOW, TRUNCATED, SET_BACK)), _FILE).values():
        for number, row in enumerate(rows):
            if row["kind"] != TRUNCATING or None in (row["leader"], row["leader_epoch"], row["truncated_to"]):
                continue
            following = [r for r in islice(rows, number + 1, number + 4) if _at_once(row, r)]
            found = _lowered(following, row["truncated_to"])
            if found is not None:
                line, high_watermark = found
                yield Cut(
                    as_row(line, high_watermark=high_watermark, leader_epoch=row["leader_epoch"]),
                    row["node_id"],
                    row["leader"],
                    row["leader_epoch"],
                    row["truncated_to"],
                    high_watermark,
                    row["logged_at_ms"],
                )


def _at_once(first: Row, second: Row) -> bool:
    begin, end = first["logged_at_ms"], second["logged_at_ms"]
    return begin is not None and end is not None and 0 <= end - begin <= AT_ONCE_MS


def _lowered(rows: Sequence[Row], to: int) -> tuple[Row, int] | None:
    """Of the lines after a truncation to that offset, the one that shows a higher high watermark, and that value."""
    is_cut = False
    for row in rows:
        if row["kind"] == BELOW and row["truncated_to"] == to and (row["high_watermark"] or 0) > to:
            return row, row["high_watermark"]
        is_cut |= row["kind"] == TRUNCATED and row["truncated_to"] == to
        before, after = row["previous_high_watermark"], row["high_watermark"]
        if row["kind"] == SET_BACK and is_cut and after == to and (before or 0) > to:
            return row, before
    return None


def below_logged(history: pa.Table, states: States, events: pa.Table | None, rows: Array) -> Array:
    """Of those elections (rows of the history), the ones whose leader logged a log end below a high watermark that a
    broker had logged in an earlier leader epoch: worth judging, no verdict."""
    if events is None or not len(events) or not len(rows):
        return rows[:0]
    events = events.filter(pc.is_in(events["kind"], pa.array((LED, UNCHANGED, FOLLOWED))))
    events = events.filter(pc.and_(pc.is_valid(events["leader_epoch"]), pc.is_valid(events["high_watermark"])))
    keys, epochs = keys_of(events, history, states), events["leader_epoch"].to_numpy().astype(np.int64)
    began = pc.equal(events["kind"], LED).to_numpy(zero_copy_only=False)
    # What a process that had known an earlier leader epoch logs first is from before.
    previous = pc.fill_null(events["previous_leader_epoch"], -1).to_numpy()
    earlier = ~began & (previous >= 0) & (previous < epochs)
    # A high watermark counts for every later leader epoch; a log end stands between the two.
    marks = np.where(earlier, 2 * epochs - 1, 2 * epochs + 1)
    ends = pc.fill_null(events["log_end_offset"], 0).to_numpy()[began]
    known = keys, marks, events["high_watermark"].to_numpy()
    low = ends < highest_before(known, keys[began], 2 * epochs[began])
    suspected = set(zip(keys[began][low].tolist(), epochs[began][low].tolist(), strict=True))
    places = zip(states.key[rows].tolist(), states.leader_epoch[rows].tolist(), strict=True)
    return rows[np.array([place in suspected for place in places], dtype=bool)]
