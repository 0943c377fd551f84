"""What recorded history says about the elections to judge: who led before, since when the winner was in sync, whether
it restarted, where the high watermark stood still. Worked out in arrays for a whole bucket, then partition by
partition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from replay.brokers import BrokerTimeline
from replay.elections import States, leader_changes, previous_leaders
from replay.lineage import Step, floors, reports
from replay.lists import Array, mask_of, to_lengths
from replay.offsets import Bound, Clock, Evidence, Leaders, Row, exact_log_end, index_rows, read_by
from replay.verdicts import Election

# A replica that has been in sync for so long, on a broker that ran all the time, follows its leader's log, and has
# written its high watermark since (replica.lag.time.max.ms, 30 s, and replica.high.watermark.checkpoint.interval.ms, 5
# s).
SETTLED_MS = 60_000


@dataclass(frozen=True, slots=True)
class Cluster:
    """What holds for the whole cluster. elr_enabled: whether ELR was on at an offset (FeatureLevelRecord).

    log_end_ms: timestamp of the metadata log's last record; behind it nobody knows who led. None: the last one among
    the history and the broker records stands in for it.
    """

    cluster_id: str
    brokers: BrokerTimeline
    elr_enabled: Callable[[int], bool]
    clock: Clock
    log_end_ms: int | None = None

    def end_ms(self, timestamp_ms: Array) -> int:
        """Behind this time no state is known. timestamp_ms: the history's, one at least."""
        if self.log_end_ms is not None:
            return self.log_end_ms
        return max([int(timestamp_ms.max()), *(s.timestamp_ms for s in self.brokers.latest())])


@dataclass(frozen=True, slots=True)
class Facts:
    """Arrays beside `States`, one element a row; every one looks only within the row's stretch of known states.

    stretch: first row of the stretch. anchored: the row is a snapshot's. changes: the leader epoch was raised.
    until_ms: when the row's leader epoch ended, or the last time at which it is known to have lasted. led: the last row
    up to this one with a leader, -1 if none; reign: since which row that leader has led without a break. frozen: since
    which row |ISR| < min ISR without a break; the row's own number + 1 if it is not below.
    """

    offset: Array
    timestamp_ms: Array
    stretch: Array
    anchored: Array
    changes: Array
    until_ms: Array
    previous_leader: Array
    led: Array
    reign: Array
    frozen: Array


@dataclass(frozen=True, slots=True)
class Case:
    """An election to judge (row: its row in the history). last_epoch: the leader epoch of the last leader before it;
    -1 if there was none. leaderless_ms: since when nobody led, None if somebody led up to the election."""

    row: int
    election: Election
    evidence: Evidence
    floor: Bound
    log_end_min: Bound
    previous_leader: int
    last_epoch: int
    leaderless_ms: int | None


def facts_of(history: pa.Table, states: States, cluster: Cluster) -> Facts:
    """history: tables.PARTITION_HISTORY sorted by (topic_id, partition, offset); states: of it."""
    count = len(states.key)
    index = np.arange(count)
    begins, timestamp_ms = states.begins, history["timestamp_ms"].to_numpy()
    stretch = np.maximum.accumulate(np.where(begins, index, 0))
    changes = np.zeros(count, dtype=bool)
    changes[leader_changes(states)] = True
    led = np.maximum.accumulate(np.where(states.leader >= 0, index, -1))
    led = np.where(led >= stretch, led, -1)
    new_reign = np.ones(count, dtype=bool)
    new_reign[1:] = begins[1:] | (states.leader[1:] != states.leader[:-1])
    reign = np.maximum.accumulate(np.where(new_reign, index, 0))
    frozen = np.maximum.accumulate(np.where(_below_min_isr(history, states), -1, index)) + 1
    return Facts(
        offset=history["offset"].to_numpy(),
        timestamp_ms=timestamp_ms,
        stretch=stretch,
        anchored=history["origin"].to_numpy(zero_copy_only=False) == "checkpoint",
        changes=changes,
        until_ms=_until(states, changes, timestamp_ms, cluster),
        previous_leader=previous_leaders(states),
        led=led,
        reign=np.where(led >= 0, reign[np.maximum(led, 0)], -1),
        frozen=np.maximum(frozen, stretch),
    )


def _until(states: States, changes: Array, timestamp_ms: Array, cluster: Cluster) -> Array:
    count = len(changes)
    if not count:
        return timestamp_ms
    # The next row that ends a leader epoch, begins a stretch (its predecessor is the last known), or is another
    # partition.
    stops = changes | states.removed | states.begins
    following = np.append(np.minimum.accumulate(np.where(stops, np.arange(count), count)[::-1])[::-1][1:], count)
    last = np.append(states.key, -1)[following] != states.key
    gap = np.append(states.begins, True)[following] & ~last
    at = np.minimum(np.where(gap, following - 1, following), count - 1)
    result: Array = np.where(last, cluster.end_ms(timestamp_ms), timestamp_ms[at])
    return result


def _below_min_isr(history: pa.Table, states: States) -> Array:
    """Rows for whose whole life the high watermark cannot advance on any broker.

    A leader uses its own replica count and its own configs, so only values that all brokers share count, and those in
    force at the row's begin as well as at its end (Kafka's Partition.effectiveMinIsr).
    """
    source = history["min_isr_source"].to_numpy(zero_copy_only=False)
    shared = (source == "topic") | (source == "cluster")
    replicas = to_lengths(history["replicas"])
    below: Array = shared & ~states.removed & (states.isr_size < np.minimum(states.min_isr, replicas))
    if len(below):
        at_end = np.append(states.min_isr[1:], 0)
        shared_at_end = np.append(shared[1:], False) & ~np.append(states.begins[1:], True)
        below &= shared_at_end & (states.isr_size < at_end)
    return below


def partition_cases(
    facts: Facts, states: States, span: tuple[int, int], rows: Iterable[int], evidence: Evidence, cluster: Cluster
) -> list[Case]:
    """The cases of one partition. span: its rows in the history [first, behind); rows: the elections to judge."""
    return _Partition(facts, states, span, evidence, cluster).cases(list(rows))


class _Partition:
    """One partition's rows, with what several of its cases share."""

    def __init__(
        self, facts: Facts, states: States, span: tuple[int, int], evidence: Evidence, cluster: Cluster
    ) -> None:
        self.facts, self.states, self.cluster = facts, states, cluster
        self.first, self.behind = span
        epochs = states.leader_epoch[self.first : self.behind][~states.removed[self.first : self.behind]]
        # Leader epochs only ever rise. Where they do not, two histories were mixed, and evidence speaks of either.
        self.evidence = evidence if (np.diff(epochs) >= 0).all() else index_rows([])
        self.times: list[int] = np.maximum.accumulate(facts.timestamp_ms[self.first : self.behind]).tolist()
        self.absences: dict[int, Array] = {}
        self.unsettled: dict[int, list[int]] = {}
        self.leaders: dict[int, Leaders] = {}

    def cases(self, rows: list[int]) -> list[Case]:
        facts, states = self.facts, self.states
        inside = np.arange(self.first, self.behind)
        asked = inside[(facts.changes[inside] & (states.leader[inside] >= 0)) | facts.anchored[inside]].tolist()
        steps = [self._step(row) for row in asked]
        created = None
        if not facts.anchored[self.first]:
            created = (int(states.leader_epoch[self.first]), int(facts.timestamp_ms[self.first]))
        known = reports(self.evidence, created, steps, self._settled, self.cluster.clock)
        floor_of = dict(zip(asked, floors(steps, known), strict=True))
        return [self._case(row, floor_of[row]) for row in rows]

    def _case(self, row: int, floor: Bound) -> Case:
        facts, states = self.facts, self.states
        led = int(facts.led[row - 1])
        leaderless = None if led == row - 1 else int(facts.timestamp_ms[max(led + 1, facts.stretch[row])])
        return Case(
            row=row,
            election=self._election(row),
            evidence=self.evidence,
            floor=floor,
            log_end_min=self._log_end(row),
            previous_leader=int(facts.previous_leader[row]),
            last_epoch=int(states.leader_epoch[led]) if led >= 0 else -1,
            leaderless_ms=leaderless,
        )

    def _election(self, row: int) -> Election:
        facts, states = self.facts, self.states
        winner, offset = int(states.leader[row]), int(facts.offset[row])
        absent = int(self._absences(winner)[row - 1 - self.first])
        joined = max(absent + 1, int(facts.stretch[row]))
        restarts = self.cluster.brokers.restarts(winner, offset)
        return Election(
            leader=winner,
            leader_epoch=int(states.leader_epoch[row]),
            elected_ms=int(facts.timestamp_ms[row]),
            until_ms=min([int(facts.until_ms[row]), *(s.timestamp_ms for s in restarts[:1])]),
            frozen=self._frozen(row),
            **self._before(row),
            held=joined < row,
            joined_ms=int(facts.timestamp_ms[min(joined, row - 1)]),
            taken_in=bool(states.taken_in[row]),
            joined_offset=int(facts.offset[min(joined, row - 1)]),
            restarted=joined < row and self._doubtful(winner, joined, offset),
        )

    def _before(self, row: int) -> dict[str, Any]:
        """Of the leader before: its epoch, how long it led, its session if it went away (see `Election`)."""
        facts, states = self.facts, self.states
        led = int(facts.led[row - 1])
        if led < 0:
            return {}
        leader, begin = int(states.leader[led]), int(facts.reign[led])
        restarts = self.cluster.brokers.restarts(leader, int(facts.offset[begin]), int(facts.offset[row]))
        end = min([int(facts.timestamp_ms[row]), *(s.timestamp_ms for s in restarts[:1])])
        gone = self.cluster.brokers.gone(leader, int(facts.offset[led]), int(facts.offset[row]))
        return {
            "old_epoch": int(states.leader_epoch[led]),
            "reign": (leader, int(facts.timestamp_ms[begin]), end),
            "session": None if gone is None else (leader, gone),
        }

    def _absences(self, broker: int) -> Array:
        """For every row of the partition the last row up to it where the broker was in neither ISR nor ELR."""
        if broker not in self.absences:
            inside = slice(self.first, self.behind)
            replicas = self.states.replicas[inside]
            bit = mask_of(replicas, np.full(len(replicas), broker))
            absent = (bit & self.states.holders[inside]) == 0
            self.absences[broker] = np.maximum.accumulate(np.where(absent, np.arange(self.first, self.behind), -1))
        return self.absences[broker]

    def _doubtful(self, winner: int, joined: int, offset: int) -> bool:
        """It restarted since it joined, and nobody looked how. With ELR on, the controller takes a broker that
        restarted uncleanly off ISR and ELR; what was before a snapshot that history begins with is not known."""
        since = int(self.facts.offset[joined])
        restarts = self.cluster.brokers.restarts(winner, since, offset)
        if any(not self.cluster.elr_enabled(s.offset) for s in restarts):
            return True
        return bool(self.facts.anchored[joined]) and not self.cluster.elr_enabled(since)

    def _frozen(self, row: int) -> tuple[int, int, int] | None:
        """(leader, start, end) of the last leader's part of the stretch right before the election in which
        |ISR| < min ISR kept the high watermark where it was. ELR on: brokers older than that rule do not stop there."""
        facts = self.facts
        led = int(facts.led[row - 1])
        start = max(int(facts.frozen[row - 1]), int(facts.reign[led]) if led >= 0 else row)
        if led < start or not self.cluster.elr_enabled(int(facts.offset[start])):
            return None
        leader, end = int(self.states.leader[led]), int(facts.timestamp_ms[row])
        restarts = self.cluster.brokers.restarts(leader, int(facts.offset[start]))
        return leader, int(facts.timestamp_ms[start]), min([end, *(s.timestamp_ms for s in restarts[:1])])

    def _step(self, row: int) -> Step:
        facts, epoch = self.facts, int(self.states.leader_epoch[row])
        at_ms = int(facts.timestamp_ms[row])
        if facts.anchored[row]:
            return Step(epoch, at_ms, carries=False)
        winner = int(self.states.leader[row])
        if facts.previous_leader[row] == winner:
            reign = int(facts.reign[facts.led[row - 1]])
            if not self.cluster.brokers.restarts(winner, int(facts.offset[reign]), int(facts.offset[row])):
                return Step(epoch, at_ms, carries=True)
        return Step(epoch, at_ms, carries=False, survives=self._log_end(row))

    def _log_end(self, row: int) -> Bound:
        stretch = int(self.facts.stretch[row])
        if stretch not in self.leaders:
            inside = np.arange(stretch, self.behind)
            inside = inside[self.facts.stretch[inside] == stretch]
            opened = inside[(self.states.leader[inside] >= 0) & (self.facts.changes[inside] | (inside == stretch))]
            epochs, brokers = self.states.leader_epoch[opened].tolist(), self.states.leader[opened].tolist()
            self.leaders[stretch] = Leaders(epochs, brokers)
        winner, epoch = int(self.states.leader[row]), int(self.states.leader_epoch[row])
        return exact_log_end(self.evidence, self.leaders[stretch], winner, epoch)

    def _settled(self, row: Row) -> int | None:
        """The leader epoch under which the row's replica has been in sync, on a running broker, for SETTLED_MS."""
        broker, error = row["broker_id"], self.cluster.clock.error_ms
        start, end = row["captured_at_ms"] - SETTLED_MS - error, read_by(row) + error
        first, last = bisect_right(self.times, start) - 1, bisect_right(self.times, end) - 1
        if first < 0:
            return None
        if broker not in self.unsettled:
            self.unsettled[broker] = self._unsettled(broker)
        breaks = self.unsettled[broker]
        if breaks[last] >= first or not self.cluster.brokers.steady(broker, start, end):
            return None
        return int(self.states.leader_epoch[self.first + first])

    def _unsettled(self, broker: int) -> list[int]:
        """For every row of the partition (counted from its first) the last one up to it without a leader or without the
        broker in the ISR, or before which states are unknown."""
        inside, states = slice(self.first, self.behind), self.states
        replicas = states.replicas[inside]
        in_sync = (mask_of(replicas, np.full(len(replicas), broker)) & states.isr[inside]) != 0
        index = np.arange(len(replicas))
        out = np.where(in_sync & (states.leader[inside] >= 0), -1, index)
        out = np.where(self.facts.anchored[inside], np.maximum(out, index - 1), out)
        unsettled: list[int] = np.maximum.accumulate(out).tolist()
        return unsettled
