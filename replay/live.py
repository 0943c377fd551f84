"""A metadata log that grows: the newest state of every partition, moved on by each piece of the log, and alarms.

Between two pieces only what later pieces need is kept, so that memory follows the cluster's size and not the log's. A
piece is reduced as in a replay (replay/partitions/reducer.py), so the states are those of a replay of the whole log
(a test).
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array, Row, bools
from replay.arrow.runs import run_starts
from replay.arrow.schemas import PARTITION_HISTORY, schema
from replay.arrow.sets import size
from replay.cluster.brokers import BROKER_TYPES, broker_of
from replay.cluster.configs import TOPIC
from replay.cluster.facts import Clock, ClusterFacts, cluster_facts
from replay.cluster.log import LogBatches, LogRange
from replay.cluster.state import ClusterState, LogShape, changes_that_count, resolve_cluster, subject_of
from replay.controller.transitions import Bucket
from replay.partitions.elections import RISKY, States, build_elections, leader_changes
from replay.partitions.reducer import build_history
from replay.partitions.resume import as_base, news

Place = tuple[str, int]  # topic id, partition

WINDOW_OPENED, WINDOW_CLOSED, UNCLEAN, ONE_LEFT = "window_opened", "window_closed", "unclean_election", "one_left"
PLAN_CHANGED = "plan_changed"
ALARMS = schema("alarms")
# The fields of a BrokerRegistrationChangeRecord, each with the value that changes nothing.
_REGISTRATION = {"fenced": 0, "inControlledShutdown": 0, "logDirs": None}


@dataclass(frozen=True, slots=True)
class Live:
    """position: metadata offset up to which the log was read (exclusive). base: PARTITION_HISTORY, the newest state of
    every partition. records: cluster-wide records that still count, in offset order (as for `resolve_cluster`).
    epochs: (epoch, offset of its first record, timestamp_ms of that), ascending. opened: the partitions with an open
    window. static: node id -> its server.properties."""

    cluster_id: str
    position: int = 0
    base: pa.Table = field(default_factory=PARTITION_HISTORY.empty_table)
    records: tuple[Row, ...] = ()
    epochs: tuple[tuple[int, int, int], ...] = ()
    opened: frozenset[Place] = frozenset()
    static: Mapping[int, Mapping[str, str]] | None = None

    def epoch_at(self, offset: int) -> int:
        """The controller epoch of the record at an offset that was read; -1 before the first."""
        index = bisect_right(self.epochs, offset, key=lambda epoch: epoch[1]) - 1
        return self.epochs[index][0] if index >= 0 else -1


@dataclass(frozen=True, slots=True)
class Piece:
    """What a piece of the log made. states: PARTITION_HISTORY rows of the piece. alarms: ALARMS rows. end_ms: timestamp
    of its last record."""

    states: pa.Table
    alarms: list[Row]
    facts: ClusterFacts
    end_ms: int


def advance(
    live: Live, changes: pa.Table, records: Sequence[Row], epochs: Sequence[tuple[int, int, int]], end: int, end_ms: int
) -> tuple[Live, Piece]:
    """Move on to offset `end` (exclusive). No transaction may be open there.

    changes: schemas.CHANGES of the records from live.position on; those of a snapshot have the offset before its end.
    records: the cluster-wide ones. epochs: those that begin in the piece. end_ms: timestamp of the last record.
    """
    logged, begun = [*live.records, *records], (*live.epochs, *epochs)
    state = _resolved(live, logged, begun, end)
    events = state.topic_events.filter(pc.greater_equal(state.topic_events["offset"], live.position))
    touched = pa.array({*changes["topic_id"].to_pylist(), *events["topic_id"].to_pylist()}, pa.string())
    is_touched = pc.is_in(live.base["topic_id"], touched)
    before = live.base.filter(is_touched)
    counted = changes_that_count(pa.concat_tables([as_base(before), changes]), state)
    history = build_history(counted, events, state.configs).table.cast(PARTITION_HISTORY)
    new = news(history, live.position)
    new = new.filter(pc.greater_equal(new["offset"], live.position))
    facts = cluster_facts(live.cluster_id, state, Clock(), None)
    bucket = Bucket(history.select(PARTITION_HISTORY.names), facts)
    opened, alarms = _alarms(bucket, live)
    last = history.filter(pc.and_(pc.is_null(history["end_offset"]), pc.invert(history["removed"])))
    base = pa.concat_tables([live.base.filter(pc.invert(is_touched)), last.select(PARTITION_HISTORY.names)])
    kept = tuple(still_counting(logged))
    moved = replace(live, position=end, base=base.combine_chunks(), records=kept, epochs=begun[-1000:], opened=opened)
    alarms.sort(key=lambda a: (a["offset"], a["kind"], a["topic"], a["partition"]))
    return moved, Piece(new, alarms, facts, end_ms)


def _resolved(live: Live, logged: Sequence[Row], epochs: Sequence[tuple[int, int, int]], end: int) -> ClusterState:
    batches = [
        {"epoch": e, "base_offset": o, "last_offset": o, "base_timestamp_ms": ms, "crc": 0, "nodes": []}
        for e, o, ms in epochs
    ]
    shape = LogShape(LogBatches.of(batches), np.arange(len(batches)), [LogRange(0, end, None)], [], [], [], end, [])
    return resolve_cluster(shape, logged, (), live.static or {})


def still_counting(records: Sequence[Row]) -> Iterator[Row]:
    """The records that a later piece of the log still needs: of each subject the last one, and of a broker, since its
    registration, the last one of those that set the same fields."""
    last: dict[tuple[Any, ...], Row] = {}
    for row in records:
        data, kind, subject = row["data"], row["type"], subject_of(row)
        over: tuple[Any, ...] = ()
        if kind == "REMOVE_TOPIC_RECORD":
            removed = last.pop(("topic", data["topicId"]), None)
            subject, over = None, ("config", TOPIC, removed["data"]["name"]) if removed else ()
        elif kind in BROKER_TYPES and subject is not None:
            over = "registration", data["brokerId"]
        elif kind in BROKER_TYPES:
            is_change = kind == "BROKER_REGISTRATION_CHANGE_RECORD"
            fields = [n for n, none in _REGISTRATION.items() if data.get(n, none) not in (none, [])]
            subject = "registration", broker_of(data), *(fields if is_change else ["fenced"])
        elif kind in ("LEADER_CHANGE", "KRAFT_VOTERS", "KRAFT_VERSION"):
            subject = (kind,)
        for key in [k for k in last if k[: len(over)] == over] if over else ():
            del last[key]
        if subject is not None:
            last[subject] = row
    yield from sorted(last.values(), key=lambda row: row["offset"])


def _alarms(bucket: Bucket, live: Live) -> tuple[frozenset[Place], list[Row]]:
    """(partitions with an open window, alarms of the states from live.position on)."""
    history, states = bucket.history, bucket.states
    if not len(history):
        return live.opened, []
    new = bucket.offset >= live.position
    names = [history["topic_id"], history["partition"]]
    opened, alarms = set(live.opened), []

    def add(kind: str, row: int, text: str) -> None:
        alarms.append(alarm(kind, history.slice(row, 1).to_pylist()[0], text))

    exposed = states.exposing & new
    in_sync = np.minimum(states.min_isr, size(states.replicas))
    safe = ((states.leader >= 0) & (states.isr_size >= in_sync) & ~exposed) | states.removed
    begin = np.flatnonzero(run_starts(states.key))
    end = np.append(begin[1:], len(states.key))
    any_exposed = np.add.reduceat(exposed, begin) > 0
    for number, (first, after) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        place = (names[0][first].as_py(), names[1][first].as_py())
        if not any_exposed[number] and place not in opened:
            continue
        for row in (r for r in range(first, after) if new[r]):
            if exposed[row] and place not in opened:
                opened.add(place)
                leads = f"broker {states.leader[row]} leads and may lack acknowledged records"
                add(WINDOW_OPENED, row, "the partition has no leader" if states.leader[row] < 0 else leads)
            elif safe[row] and place in opened:
                opened.discard(place)
                if not states.removed[row]:
                    add(
                        WINDOW_CLOSED,
                        row,
                        f"broker {states.leader[row]} leads, and min.insync.replicas are in sync again",
                    )
    for row, election in _risky(bucket, live.position):
        how = "hidden: not marked as RECOVERING" if election["hidden_unclean"] else election["cause"]
        isr, elr = (", ".join(map(str, election[f"{n}_before"] or ())) or "nobody" for n in ("isr", "elr"))
        add(
            UNCLEAN,
            row,
            f"broker {election['leader']} was elected from outside ISR and ELR ({how}); ISR was {isr}, ELR {elr}",
        )
    for row in _alone(states, new).tolist():
        held: list[int] = history["isr"][row].as_py() + history["elr"][row].as_py()
        add(ONE_LEFT, row, f"one failure from loss: only broker {held[0]} is in ISR or ELR")
    return frozenset(opened), alarms


def _risky(bucket: Bucket, position: int) -> Iterator[tuple[int, Row]]:
    """(row of the history, election) of each unclean one from the position on."""
    elections = build_elections(bucket.history, bucket.states, bucket.facts)
    mask = pc.and_(
        pc.greater_equal(elections["offset"], position),
        pc.or_(elections["hidden_unclean"], pc.is_in(elections["cause"], pa.array(sorted(RISKY)))),
    )
    rows = leader_changes(bucket.states)[bools(mask)]
    yield from zip(rows.tolist(), elections.filter(mask).to_pylist(), strict=True)


def _alone(states: States, new: Array) -> Array:
    """New rows in which one broker is left in ISR and ELR, and were more before."""
    left = states.isr_size + size(states.lists["elr"])
    alone = (left == 1) & (size(states.replicas) > 1) & ~states.removed
    before = np.append(False, alone[:-1])[: len(alone)] & ~states.begins
    return np.flatnonzero(alone & ~before & new)


def alarm(kind: str, state: Row, text: str) -> Row:
    """An ALARMS row. state: with what identifies the place and time."""
    place = (kind, state.get("topic_id"), state.get("partition"), state["offset"], state["controller_epoch"])
    shared = {f.name: state.get(f.name) for f in ALARMS}
    number = sha256(repr(place).encode()).hexdigest()[:16]
    return {**shared, "alarm_id": number, "kind": kind, "text": text}
