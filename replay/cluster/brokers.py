"""Registrations over metadata offsets: which brokers were registered, unfenced and not shutting down, in which
incarnation; and controllers, whose registrations list what they support.

A controller's registration is independent of votes (KRaftVotersRecord): an unregistered one keeps its vote, if it has
one, and registers again when it notices.

Sources: Kafka's ClusterControlManager (replay of the registration records), BrokerRegistration; KIP-841, KIP-966;
QuorumController.unregisterController (4.4.0: it refuses the active controller, and ids that are not registered).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from replay.arrow.ragged import INT64_MAX, Array, Row
from replay.arrow.runs import Events
from replay.cluster.log import Problem, json_int

BROKER_TYPES = frozenset(
    (
        *("REGISTER_BROKER_RECORD", "UNREGISTER_BROKER_RECORD", "BROKER_REGISTRATION_CHANGE_RECORD"),
        *("FENCE_BROKER_RECORD", "UNFENCE_BROKER_RECORD"),
    )
)
_VERSION = "metadata.version"


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker after one record.

    incarnation_id None: not registered. log_dirs: ids of the online directories; None if the records lack them
    (KIP-858). newest_level: feature level of the newest metadata.version that it supports; None if its registration
    does not name it. anchored: the state comes from a snapshot. has_zookeeper: while the cluster migrates, its process
    takes part by ZooKeeper, too (KIP-866).
    """

    offset: int
    batch_base_offset: int
    timestamp_ms: int
    broker_id: int
    broker_epoch: int
    incarnation_id: str | None
    fenced: bool
    in_controlled_shutdown: bool
    rack: str | None = None
    log_dirs: tuple[str, ...] | None = None
    newest_level: int | None = None
    anchored: bool = False
    has_zookeeper: bool = False

    @property
    def active(self) -> bool:
        """Whether it may be elected: registered, unfenced, not in controlled shutdown (Kafka's isAcceptableLeader)."""
        return self.incarnation_id is not None and not self.fenced and not self.in_controlled_shutdown


@dataclass
class BrokerTimeline:
    """Every broker's states in offset order; filled once by `broker_timeline`, and not changed after that."""

    states: dict[int, list[BrokerState]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def after_batch(self, broker_id: int, batch_base_offset: int) -> BrokerState | None:
        """The state after the whole batch, since a controller's batch is one event; None if it is not known."""
        index = bisect_right(self._batches.get(broker_id, ()), batch_base_offset)
        return self.states[broker_id][index - 1] if index else None

    @cached_property
    def _batches(self) -> dict[int, list[int]]:
        """By broker, the base offset of each state's batch: many ask for a state by it."""
        return {broker: [state.batch_base_offset for state in own] for broker, own in self.states.items()}

    @property
    def incarnations(self) -> dict[tuple[int, int], str | None]:
        """The registered incarnations, by (broker, broker epoch)."""
        return {(b, state.broker_epoch): state.incarnation_id for b, own in self.states.items() for state in own}

    def active(self, broker_id: int, batch_base_offset: int) -> bool:
        state = self.after_batch(broker_id, batch_base_offset)
        return state is not None and state.active

    def was_active(self, broker_id: int, from_batch: int, before_batch: int) -> bool:
        """Whether the broker was active after some batch from from_batch on and before before_batch."""
        batches = self._batches.get(broker_id, ())
        first, end = bisect_right(batches, from_batch) - 1, bisect_left(batches, before_batch)
        return any(state.active for state in self.states.get(broker_id, [])[max(first, 0) : end])

    def active_members(self, lists: Array, batch_base_offset: Array) -> Array:
        """`active` for matrices: bool, true for each member (broker id) that was active after its row's batch.

        lists: of ragged.to_matrix; batch_base_offset: one element per row. PAD gives false.
        """
        return self.are("active", self.by_batch.last(lists, batch_base_offset[:, None]))

    @cached_property
    def all_states(self) -> list[BrokerState]:
        """The states of all brokers, one broker after the other."""
        return [state for _, own in sorted(self.states.items()) for state in own]

    @cached_property
    def had_zookeeper(self) -> bool:
        """Whether the cluster ever migrated from it."""
        return any(state.has_zookeeper for state in self.all_states)

    @cached_property
    def by_offset(self) -> Events:
        """`all_states` by broker and metadata offset."""
        return self._events("offset")

    @cached_property
    def by_batch(self) -> Events:
        """`all_states` by broker and base offset of the batch."""
        return self._events("batch_base_offset")

    def _events(self, name: str) -> Events:
        places = np.array([(s.broker_id, getattr(s, name)) for s in self.all_states], dtype=np.int64)
        return Events(*places.reshape(-1, 2).T)

    def are(self, name: str, numbers: Array) -> Array:
        """A property of some of `all_states`, by their numbers, as bool; false for -1."""
        return np.array([*(bool(getattr(s, name)) for s in self.all_states), False])[numbers]

    def restarts(self, broker_id: int, after_offset: int, up_to_offset: int | None = None) -> list[BrokerState]:
        """The registrations of new incarnations with after_offset < offset <= up_to_offset."""
        states = self.states.get(broker_id, [])
        first = bisect_right(states, after_offset, key=lambda s: s.offset)
        end = len(states) if up_to_offset is None else bisect_right(states, up_to_offset, key=lambda s: s.offset)
        pairs = zip([None, *states][first:end], states[first:end], strict=True)
        return [s for before, s in pairs if s.incarnation_id not in (None, before and before.incarnation_id)]

    @cached_property
    def new_incarnations(self) -> list[BrokerState]:
        """`restarts` of every broker, all of them."""
        return [state for broker in self.states for state in self.restarts(broker, -1)]

    def registered_with(self, broker_ids: Array, batch_base_offsets: Array) -> Array:
        """True for each broker that registered a new incarnation in its row's batch."""
        begun = {(s.broker_id, s.batch_base_offset) for s in self.new_incarnations}
        found = np.isin(batch_base_offsets, np.array([batch for _, batch in begun], dtype=np.int64))
        for row in np.flatnonzero(found).tolist():
            found[row] = (int(broker_ids[row]), int(batch_base_offsets[row])) in begun
        return found

    def latest(self) -> list[BrokerState]:
        """The last state of every broker."""
        return [states[-1] for states in self.states.values() if states]

    def steady(self, broker_id: int, from_ms: int, to_ms: int) -> bool:
        """Whether the broker was active, in one incarnation, from from_ms to to_ms."""
        states = self.states.get(broker_id, [])
        first = bisect_right(states, from_ms, key=lambda s: s.timestamp_ms) - 1
        end = bisect_right(states, to_ms, key=lambda s: s.timestamp_ms)
        during = states[max(first, 0) : end]
        return first >= 0 and all(s.active for s in during) and len({s.incarnation_id for s in during}) == 1

    def kept_log_dirs(self, broker_id: int, from_ms: int, to_ms: int) -> bool:
        """Whether no log directory of the broker went from from_ms to to_ms, nor at its first record, or registration,
        after that: a process may have started before to_ms and registered later, once the session before it was fenced.
        False if the records do not name directories."""
        known = self._log_dirs_within(broker_id, from_ms, to_ms)
        return bool(known and known[0]) and all(known[0] <= later for later in known)

    def added_log_dirs(self, broker_id: int, from_ms: int, to_ms: int) -> bool:
        """Whether the broker's records, the same ones, show a log directory that it did not have at from_ms."""
        known = self._log_dirs_within(broker_id, from_ms, to_ms)
        return any(not later <= known[0] for later in known)

    def _log_dirs_within(self, broker_id: int, from_ms: int, to_ms: int) -> list[set[str]]:
        """The broker's log directories at from_ms (empty: unknown) and at each of its records up to to_ms, and at the
        first one, and registration, after that; nothing if it had no record by from_ms."""
        states = self.states.get(broker_id, [])
        first = bisect_right(states, from_ms, key=lambda s: s.timestamp_ms) - 1
        end = bisect_right(states, to_ms, key=lambda s: s.timestamp_ms)
        if first < 0:
            return []
        during = [*states[first : end + 1], *self.restarts(broker_id, states[end - 1].offset)[:1]]
        return [set(state.log_dirs or ()) for state in during]

    def log_dirs_until(self, broker_id: int, from_ms: int) -> int:
        """When (ms) the first of the log directories had gone that the broker had at from_ms, by its records."""
        states = self.states.get(broker_id, [])
        known = states[max(bisect_right(states, from_ms, key=lambda s: s.timestamp_ms) - 1, 0) :]
        own = set(known[0].log_dirs or ())
        return next((s.timestamp_ms for s in known if not own <= set(s.log_dirs or ())), INT64_MAX)

    def lost_log_dirs(self, broker_id: int, by_ms: int) -> bool:
        """Whether the broker's last registration up to a time may lack a log directory of an earlier one: a disk that
        was replaced keeps what it had, and may be copied by itself long after. Below metadata.version 3.7-IV2 the log
        does not show that."""
        begun = [directories for at_ms, directories in self._log_dirs_begun_with.get(broker_id, ()) if at_ms <= by_ms]
        return any(not directories or not directories <= begun[-1] for directories in begun[:-1])

    @cached_property
    def _log_dirs_begun_with(self) -> dict[int, list[tuple[int, set[str]]]]:
        """By broker, when each incarnation registered (ms), and its log directories: each row of a file asks for it."""
        found: dict[int, list[tuple[int, set[str]]]] = {broker: [] for broker in self.states}
        for state in self.new_incarnations:
            found[state.broker_id].append((state.timestamp_ms, set(state.log_dirs or ())))
        return found

    def active_spans(self, broker_id: int, from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
        """From when to when (ms) the broker was active without a break, between from_ms and to_ms."""
        states = self.states.get(broker_id, [])
        first = max(bisect_right(states, from_ms, key=lambda s: s.timestamp_ms) - 1, 0)
        since = None
        for state in states[first:]:
            if state.timestamp_ms >= to_ms:
                break
            if since is not None and not state.active:
                yield since, state.timestamp_ms
            if not state.active:
                since = None
            elif since is None:
                since = max(state.timestamp_ms, from_ms)
        if since is not None:
            yield since, to_ms


def broker_of(data: Mapping[str, Any]) -> int:
    """The broker that a record of BROKER_TYPES is about."""
    return int(data.get("brokerId", data.get("id", -1)))


def broker_timeline(records: Iterable[dict[str, Any]]) -> BrokerTimeline:
    """Replay the broker records (dicts with offset, batch_base_offset, timestamp_ms, type, data) in offset order.

    A change whose broker epoch is not the registered one is reported and not applied (Kafka's ClusterDelta throws).
    """
    timeline = BrokerTimeline()
    for record in records:
        broker = broker_of(record["data"])
        history = timeline.states.setdefault(broker, [])
        state = _apply(history[-1] if history else None, record, broker)
        if isinstance(state, Problem):
            timeline.problems.append(state)
        else:
            history.append(state)
    return timeline


def _apply(current: BrokerState | None, record: dict[str, Any], broker: int) -> BrokerState | Problem:
    data, kind, offset = record["data"], record["type"], record["offset"]
    where = {"offset": offset, "batch_base_offset": record["batch_base_offset"], "timestamp_ms": record["timestamp_ms"]}
    where["anchored"] = "place" in record
    epoch = json_int(data, "brokerEpoch", json_int(data, "epoch", -1))
    if kind == "REGISTER_BROKER_RECORD":
        return BrokerState(
            **where,
            broker_id=broker,
            broker_epoch=epoch,
            incarnation_id=data["incarnationId"],
            fenced=data["fenced"],
            in_controlled_shutdown=data.get("inControlledShutdown", False),
            rack=data.get("rack"),
            log_dirs=tuple(data.get("logDirs") or ()) or None,
            newest_level=next(
                (f["maxSupportedVersion"] for f in data.get("features", ()) if f["name"] == _VERSION), None
            ),
            has_zookeeper=data.get("isMigratingZkBroker", False),
        )
    if current is None or current.incarnation_id is None:
        return Problem("unknown_broker", offset, f"{kind} for broker {broker}, which is not registered")
    if current.broker_epoch != epoch:
        message = f"{kind} for broker {broker} has epoch {epoch}, registered is {current.broker_epoch}: not applied"
        return Problem("broker_epoch_mismatch", offset, message)
    if kind == "UNREGISTER_BROKER_RECORD":
        return replace(current, **where, incarnation_id=None)
    if kind == "BROKER_REGISTRATION_CHANGE_RECORD":
        fenced, shutdown = json_int(data, "fenced"), json_int(data, "inControlledShutdown")
        return replace(
            current,
            **where,
            fenced=fenced == 1 if fenced else current.fenced,
            in_controlled_shutdown=shutdown == 1 if shutdown else current.in_controlled_shutdown,
            log_dirs=tuple(data.get("logDirs") or ()) or current.log_dirs,
        )
    return replace(current, **where, fenced=kind == "FENCE_BROKER_RECORD")


REGISTER_CONTROLLER, UNREGISTER_CONTROLLER = "REGISTER_CONTROLLER_RECORD", "UNREGISTER_CONTROLLER_RECORD"
CONTROLLER_TYPES = frozenset({REGISTER_CONTROLLER, UNREGISTER_CONTROLLER})


@dataclass(frozen=True, slots=True)
class ControllerReleases:
    """The evidence of which release each active controller ran (replay/controller/profiles.py).

    controllers: (offset, active controller's node id or None if unknown), ascending. registrations: (offset, data of a
    RegisterControllerRecord or an UnregisterControllerRecord), ascending. named: the releases that manifests name.
    """

    controllers: tuple[tuple[int, int | None], ...] = ()
    registrations: tuple[tuple[int, Row], ...] = ()
    named: tuple[str, ...] = ()


def registered_after(registered: Iterable[int], record: Row) -> set[int]:
    """The ids of the registered controllers after one record of CONTROLLER_TYPES."""
    node = record["data"]["controllerId"]
    return {*registered, node} if record["type"] == REGISTER_CONTROLLER else set(registered) - {node}


def controller_problems(records: Iterable[Row], controllers: Sequence[tuple[int, int | None]]) -> list[Problem]:
    """Report unregistrations that no Kafka controller writes. They are applied nevertheless.

    records: of CONTROLLER_TYPES that count, in offset order. controllers: (offset, active controller's node id or None
    if unknown), ascending.
    """
    problems = []
    begins = [offset for offset, _ in controllers]
    registered: set[int] = set()
    for record in records:
        node, offset = record["data"]["controllerId"], record["offset"]
        term = bisect_right(begins, offset) - 1
        if record["type"] == UNREGISTER_CONTROLLER and "place" not in record:
            if node not in registered:
                message = f"{UNREGISTER_CONTROLLER} for controller {node}, which is not registered"
                problems.append(Problem("unknown_controller", offset, message))
            elif term >= 0 and controllers[term][1] == node:
                message = f"{UNREGISTER_CONTROLLER} for controller {node}, which was the active controller"
                problems.append(Problem("active_controller_unregistered", offset, message))
        registered = registered_after(registered, record)
    return problems
