"""Broker sessions over metadata offsets, and until when the process of each was surely the one that had registered.

A broker that crashes can be back before its session times out. The new process cannot register while the old session is
valid, but it reads the metadata log, and leads whatever partitions the old session led, with the log that it loaded
(Kafka's BrokerMetadataPublisher and ClusterControlManager.registerBroker: DuplicateBrokerRegistrationException). So a
session says which process a broker ran only up to the last time at which the controller had surely heard from it.

Sources: Kafka's ClusterControlManager, BrokerHeartbeatManager (broker.session.timeout.ms), KIP-631.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from replay.arrow.ragged import Array
from replay.cluster.brokers import BrokerState, BrokerTimeline
from replay.cluster.facts import Clock, ClusterFacts
from replay.offsets.evidence import Scrape


@dataclass(frozen=True, slots=True)
class Session:
    """One incarnation of a broker. Batches are base offsets of metadata batches; times are the controllers', in ms.

    registered: whether the log shows the registration (else a snapshot does, and the begin is the snapshot's).
    end_batch: of the record that ended it for good, another registration or an unregistration; None: none did.
    shutdown_ms, shutdown_batch: when it asked for a controlled shutdown that it never came back from; None: it did not.
    alive_until_ms: up to then its process surely ran. newest_level: the newest metadata.version that it supports, as a
    feature level; None where the registration does not say.
    """

    broker_id: int
    broker_epoch: int
    begin_batch: int
    begin_ms: int
    registered: bool
    end_batch: int | None
    shutdown_ms: int | None
    shutdown_batch: int | None
    alive_until_ms: int
    newest_level: int | None

    def ran_until(self, timestamp_ms: int) -> bool:
        """Whether one process ran, without a break, from the session's begin up to a time."""
        return self.alive_until_ms >= timestamp_ms


@dataclass(frozen=True, slots=True)
class Sessions:
    """Every broker's sessions in the order of the log."""

    by_broker: dict[int, list[Session]]

    def at(self, broker_id: int, batch: int) -> Session | None:
        """The session in force once the batch was applied; None if the broker was not registered then."""
        sessions = self.by_broker.get(broker_id, [])
        index = bisect_right(sessions, batch, key=lambda s: s.begin_batch) - 1
        if index < 0:
            return None
        found = sessions[index]
        return found if found.end_batch is None or batch < found.end_batch else None

    def begun(self, broker_id: int, after_batch: int, up_to_batch: int | None = None) -> Sequence[Session]:
        """The sessions of new incarnations with after_batch < begin_batch <= up_to_batch."""
        sessions = self.by_broker.get(broker_id, [])
        first = bisect_right(sessions, after_batch, key=lambda s: s.begin_batch)
        behind = len(sessions)
        if up_to_batch is not None:
            behind = bisect_right(sessions, up_to_batch, key=lambda s: s.begin_batch)
        return sessions[first:behind]

    def last_begun(self, broker_id: int, timestamp_ms: int) -> Session | None:
        """The last session begun before a time, whether it lasted or not."""
        sessions = self.by_broker.get(broker_id, [])
        index = bisect_right(sessions, timestamp_ms, key=lambda s: s.begin_ms) - 1
        return sessions[index] if index >= 0 else None

    def seen_alive(self, scrapes: Mapping[int, Sequence[Scrape]], clock: Clock) -> Sessions:
        """The same, with what exporters say: a process that had started before it registered ran until it was read."""
        found = dict(self.by_broker)
        for broker in scrapes.keys() & self.by_broker.keys():
            read = [(s.process_start_ms, s.captured_at_ms) for s in scrapes[broker] if s.process_start_ms is not None]
            if read:
                found[broker] = [_lengthened(session, read, clock.error_ms) for session in self.by_broker[broker]]
        return Sessions(found)


def _lengthened(session: Session, read: Sequence[tuple[int, int]], error_ms: int) -> Session:
    """Up to the last reading of the process that registered: it had started before, and after the one before it."""
    if not session.registered:
        return session
    own = [start for start, _ in read if start + error_ms <= session.begin_ms]
    if not own:
        return session
    last = max(at - error_ms for start, at in read if start == max(own))
    return replace(session, alive_until_ms=max(session.alive_until_ms, last))


def sessions_of(cluster: ClusterFacts, timestamp_ms: Array) -> Sessions:
    """The brokers' sessions. timestamp_ms: of the history, at least one."""
    return broker_sessions(cluster.brokers, cluster.end_ms(timestamp_ms), cluster.heard_ms, cluster.fail_overs)


def broker_sessions(
    brokers: BrokerTimeline, end_ms: int, heard_ms: int, fail_overs: Sequence[tuple[int, int]] = ()
) -> Sessions:
    """The sessions of a timeline. end_ms: after it no state is known; heard_ms: see `heard_within_ms`; fail_overs:
    (time of the last record of a controller's epoch, of the first of the next), ascending: a new controller takes every
    broker for just heard of."""
    found = {}
    for broker, states in brokers.states.items():
        found[broker] = list(_sessions(states, end_ms, heard_ms, sorted(fail_overs)))
    return Sessions(found)


def _sessions(
    states: Sequence[BrokerState], end_ms: int, heard_ms: int, fail_overs: Sequence[tuple[int, int]]
) -> Iterator[Session]:
    groups = [list(group) for _, group in groupby(states, key=lambda s: s.incarnation_id)]
    for own, after in pairwise([*groups, []]):
        first = own[0]
        if first.incarnation_id is None:
            continue
        later = after[0] if after else None
        following = [*own[1:], *([later] if later else [])]
        # What was between a state and a snapshot after a hole of the log is not known.
        times = [s.timestamp_ms if a.anchored else a.timestamp_ms for s, a in zip(own, following, strict=False)]
        times += [] if later else [end_ms]
        alive = max(_signs_of_life(own, times, heard_ms, fail_overs), default=first.timestamp_ms - heard_ms)
        left = _controlled_shutdown(own)
        yield Session(
            broker_id=first.broker_id,
            broker_epoch=own[-1].broker_epoch,
            begin_batch=first.batch_base_offset,
            begin_ms=first.timestamp_ms,
            registered=not first.anchored,
            end_batch=later.batch_base_offset if later else None,
            shutdown_ms=left.timestamp_ms if left else None,
            shutdown_batch=left.batch_base_offset if left else None,
            alive_until_ms=alive,
            newest_level=first.newest_level,
        )


def _signs_of_life(
    own: Sequence[BrokerState], until_ms: Iterable[int], heard_ms: int, fail_overs: Sequence[tuple[int, int]]
) -> Iterator[int]:
    """Times at which the process that registered surely ran."""
    if not own[0].anchored:
        yield own[0].timestamp_ms
    for before, state in pairwise(own):
        if state.anchored:
            continue
        # The broker asks for either in a heartbeat with its broker epoch.
        unfenced = before.fenced and not state.fenced
        leaves = state.in_controlled_shutdown and not before.in_controlled_shutdown
        if unfenced or leaves:
            yield state.timestamp_ms
    for state, end_ms in zip(own, until_ms, strict=True):
        if not state.fenced:
            yield last_heard_ms(end_ms, heard_ms, fail_overs)


def last_heard_ms(valid_ms: int, heard_ms: int, fail_overs: Sequence[tuple[int, int]]) -> int:
    """The earliest time at which a broker can have been heard of last whose session was valid at a time."""
    at = valid_ms - heard_ms
    for last_ms, first_ms in reversed(fail_overs):
        if first_ms <= at:
            break
        if last_ms <= valid_ms:
            at = min(at, last_ms - heard_ms)
    return at


def _controlled_shutdown(own: Sequence[BrokerState]) -> BrokerState | None:
    """The record of a controlled shutdown after which the incarnation never was active again."""
    leaving = [i for i, s in enumerate(own) if s.in_controlled_shutdown]
    active = [i for i, s in enumerate(own) if s.active]
    last = active[-1] if active else -1
    return next((own[i] for i in leaving if i > last), None)
