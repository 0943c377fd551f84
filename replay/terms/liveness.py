"""Broker sessions over metadata offsets, and until when each ran the process that had registered.

A broker that crashes can be back before its session times out. The new process cannot register while the old session is
valid (ClusterControlManager.registerBroker: DuplicateBrokerRegistrationException). It serves nobody before it is
registered and unfenced (BrokerServer.startup calls socketServer.enableRequestProcessing last), but it reads the
metadata log, leads in its own eyes with the log that it loaded, and rewrites its own files. So a session shows which
process served, and it shows whose files a broker has only up to the last time at which the controller had certainly
heard from it.

Sources: Kafka's BrokerServer, ClusterControlManager, BrokerHeartbeatManager (broker.session.timeout.ms), KIP-631.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np

from replay.arrow.ragged import INT64_MAX, Array
from replay.arrow.runs import Events
from replay.cluster.boots import is_same_boot
from replay.cluster.brokers import BrokerState, BrokerTimeline
from replay.cluster.facts import Clock, ClusterFacts, last_heard_ms, silences
from replay.offsets.evidence import Scrape

# metadata.version 3.7-IV0 as a level: brokers that support it do not advance the high watermark below min ISR.
WAITS_FOR_MIN_ISR_LEVEL = 15


@dataclass(frozen=True, slots=True)
class Session:
    """One incarnation of a broker. Batches are base offsets of metadata batches; times are the controllers', in ms.

    registered: the log shows the registration; otherwise a snapshot does, and the session begins with the snapshot.
    end_batch: of the record that ended it for good (another registration or an unregistration); None if none did.
    shutdown_batch: in which it asked for a controlled shutdown from which it never came back; None if in none.
    alive_until_ms: its process ran until then. alone_until_ms: until then no other process of the broker can have run,
    so that its log and its files are as that process left them. newest_level: the newest metadata.version that it
    supports, as a feature level; None if the registration does not show it. log_dirs: ids of
    its directories; None if the registration does not name them (KIP-858). has_zookeeper: see `BrokerState`.
    """

    broker_id: int
    broker_epoch: int
    begin_batch: int
    begin_ms: int
    registered: bool
    end_batch: int | None
    shutdown_batch: int | None
    alive_until_ms: int
    newest_level: int | None
    log_dirs: frozenset[str] | None = None
    has_zookeeper: bool = False
    alone_until_ms: int = -1

    @property
    def waits_for_min_isr(self) -> bool:
        """Whether the broker does not advance the high watermark below min ISR: its release, and that it has topics'
        configs from the metadata log. In a migration it has them from ZooKeeper, however late (KafkaServer, 3.9.1)."""
        return (self.newest_level or 0) >= WAITS_FOR_MIN_ISR_LEVEL and not self.has_zookeeper

    @property
    def has_one_directory(self) -> bool:
        """Whether it has one log directory: those that register none may have several (KafkaConfig, 3.6.2)."""
        return len(self.log_dirs or ()) == 1

    def shows_end_of(self, earlier: "Session") -> bool:
        """Whether the earlier session's process had ended when this one registered: it may run on beside one on another
        machine, or other disks, not beside one that locks all of its directories (Kafka's LogManager.lockLogDirs). It
        gives up the lock of one that failed, and runs on with the others (handleLogDirFailure, 3.9.1 to 4.3.1)."""
        own, locked = earlier.log_dirs or frozenset(), self.log_dirs or frozenset()
        return bool(own) and own <= locked

    def ran_until(self, timestamp_ms: int) -> bool:
        """Whether one process ran, without a break, from the session's begin up to a time."""
        return self.alive_until_ms >= timestamp_ms

    def was_alone_until(self, timestamp_ms: int) -> bool:
        """Whether no other process of the broker can have run from the session's begin up to a time."""
        return max(self.alive_until_ms, self.alone_until_ms) >= timestamp_ms


@dataclass(frozen=True)
class Sessions:
    """The sessions of every broker, in log order."""

    by_broker: dict[int, list[Session]]

    @cached_property
    def _begins(self) -> dict[int, list[int]]:
        """By broker, the batches that its sessions begin with."""
        return {broker: [session.begin_batch for session in own] for broker, own in self.by_broker.items()}

    def at(self, broker_id: int, batch: int) -> Session | None:
        """The session in force after the batch; None if the broker was not registered then."""
        index = bisect_right(self._begins.get(broker_id, ()), batch) - 1
        if index < 0:
            return None
        found = self.by_broker[broker_id][index]
        return found if found.end_batch is None or batch < found.end_batch else None

    def numbers_at(self, brokers: Array, batches: Array) -> Array:
        """As `at` for many: a number for each session, -1 for None."""
        found = [session for own in self.by_broker.values() for session in own]
        begun = np.array([(s.broker_id, s.begin_batch) for s in found], dtype=np.int64).reshape(-1, 2)
        ends = np.array([INT64_MAX if s.end_batch is None else s.end_batch for s in found] + [-1])
        number = Events(*begun.T).last(brokers, batches)
        return np.where(batches < ends[number], number, -1)

    def begun(self, broker_id: int, after_batch: int, up_to_batch: int | None = None) -> Sequence[Session]:
        """The sessions of new incarnations with after_batch < begin_batch <= up_to_batch."""
        begins = self._begins.get(broker_id, ())
        end = len(begins) if up_to_batch is None else bisect_right(begins, up_to_batch)
        return self.by_broker.get(broker_id, [])[bisect_right(begins, after_batch) : end]

    def excludes_a_second_process(self, broker_id: int, session: Session) -> bool:
        """Whether no process of an earlier session of the broker can still run beside the session's. All sessions up to
        it have the same directories, and a process locks them (.lock in each, Kafka's LogManager.lockLogDirs)."""
        earlier = self.begun(broker_id, -1, session.begin_batch - 1)
        return all(s.log_dirs is not None and s.log_dirs == session.log_dirs for s in earlier)

    def last_begun(self, broker_id: int, timestamp_ms: int) -> Session | None:
        """The last session that began by a time, whether or not it had ended by then."""
        sessions = self.by_broker.get(broker_id, [])
        index = bisect_right(sessions, timestamp_ms, key=lambda s: s.begin_ms) - 1
        return sessions[index] if index >= 0 else None

    def of_current_processes(self, scrapes: Mapping[int, Sequence[Scrape]], clock: Clock) -> dict[int, list[Scrape]]:
        """The texts without those of a process that may have started before the last registration but one: on another
        machine it may run on, superseded."""

        def is_current(broker: int, scrape: Scrape) -> bool:
            start, read_ms = scrape.process_start_ms, scrape.captured_at_ms - clock.error_ms
            begun = [session.begin_ms for session in self.by_broker.get(broker, []) if session.begin_ms <= read_ms]
            return start is None or len(begun) < 2 or start - clock.error_ms > begun[-2]

        return {broker: [each for each in own if is_current(broker, each)] for broker, own in scrapes.items()}

    def extended(self, scrapes: Mapping[int, Sequence[Scrape]], clock: Clock) -> "Sessions":
        """The sessions with exporters' evidence added: a process that had started before the registration ran until it
        was last read."""
        by_broker = {}
        for broker in scrapes.keys() & self.by_broker.keys():
            starts = [(s.process_start_ms, s.captured_at_ms) for s in scrapes[broker] if s.process_start_ms is not None]
            if starts:
                by_broker[broker] = [_extended(session, starts, clock.error_ms) for session in self.by_broker[broker]]
        return Sessions(self.by_broker | by_broker) if by_broker else self


def _extended(session: Session, starts: Sequence[tuple[int, int]], error_ms: int) -> Session:
    """The session, alive at least until the last reading of the process that registered: the latest process that had
    started before the registration. starts: (process start, capture time) of each reading, in ms."""
    if not session.registered:
        return session
    own = [start for start, _ in starts if start + error_ms <= session.begin_ms]
    if not own:
        return session
    last = max(at - error_ms for start, at in starts if start == max(own))
    return replace(session, alive_until_ms=max(session.alive_until_ms, last))


def sessions_of(cluster: ClusterFacts, timestamp_ms: Array) -> Sessions:
    """The sessions of the cluster's brokers. timestamp_ms: of the history, at least one."""
    end_ms = cluster.end_ms(timestamp_ms)
    found = broker_sessions(cluster.brokers, end_ms, cluster.heard_ms, cluster.fail_overs)
    for broker, sessions in found.by_broker.items():
        found.by_broker[broker] = [_as_logged(_before_falls(session, cluster), cluster) for session in sessions]
    return found


def _before_falls(session: Session, cluster: ClusterFacts) -> Session:
    """The session, alive only until no later record of the log can have an earlier time: where the next controller's
    clock is behind, an election after a sign of life may seem to be from before it."""
    alive_ms = session.alive_until_ms
    for before_ms, after_ms in sorted(cluster.fail_overs, reverse=True):
        if after_ms < alive_ms <= before_ms:
            alive_ms = after_ms
    return replace(session, alive_until_ms=alive_ms)


def _as_logged(session: Session, cluster: ClusterFacts) -> Session:
    """The session with what the broker's own server.log says of its process.

    A process ran up to its last line. If the next process of the same file is known, nobody ran between the two, and if
    there is none, nobody ran until the file was copied: a start writes lines of its own, and the file has all of them
    as long as the machine did not start again.
    """
    logged = cluster.processes.get((session.broker_id, session.broker_epoch))
    if logged is None:
        return session
    error_ms, readings = cluster.clock.error_ms, cluster.boots.get(session.broker_id, ())
    alive_ms = max(session.alive_until_ms, logged.last_ms - error_ms)
    until = [at_ms - error_ms for at_ms in logged.alone_until_ms]
    alone = [at_ms for at_ms in until if is_same_boot(readings, alive_ms, at_ms, error_ms)]
    return replace(session, alive_until_ms=alive_ms, alone_until_ms=max([session.alone_until_ms, *alone]))


def broker_sessions(
    brokers: BrokerTimeline, end_ms: int, heard_ms: int, fail_overs: Sequence[tuple[int, int]] = ()
) -> Sessions:
    """The sessions of a timeline.

    end_ms: after it no state is known. heard_ms: see `heard_within_ms`. fail_overs: (time of the last record of a
    controller's epoch, time of the first record of the next): a new controller treats every broker as just heard
    from.
    """
    silent = silences(fail_overs, heard_ms)
    return Sessions({b: list(_sessions(states, end_ms, heard_ms, silent)) for b, states in brokers.states.items()})


def _sessions(
    states: Sequence[BrokerState], end_ms: int, heard_ms: int, silent: Sequence[tuple[int, int]]
) -> Iterator[Session]:
    groups = [list(group) for _, group in groupby(states, key=lambda s: s.incarnation_id)]
    for own, after in pairwise([*groups, []]):
        first = own[0]
        if first.incarnation_id is None:
            continue
        later = after[0] if after else None
        following = [*own[1:], *([later] if later else [])]
        # Between a state and a snapshot after a gap of the log, nothing is known.
        times = [s.timestamp_ms if a.anchored else a.timestamp_ms for s, a in zip(own, following, strict=False)]
        times += [] if later else [end_ms]
        alive = max(_signs_of_life(own, times, heard_ms, silent), default=first.timestamp_ms - heard_ms)
        left = _controlled_shutdown(own)
        yield Session(
            broker_id=first.broker_id,
            broker_epoch=own[-1].broker_epoch,
            begin_batch=first.batch_base_offset,
            begin_ms=first.timestamp_ms,
            registered=not first.anchored,
            end_batch=later.batch_base_offset if later else None,
            shutdown_batch=left.batch_base_offset if left else None,
            alive_until_ms=alive,
            newest_level=first.newest_level,
            log_dirs=None if first.log_dirs is None else frozenset(first.log_dirs),
            has_zookeeper=first.has_zookeeper,
        )


def _signs_of_life(
    own: Sequence[BrokerState], until_ms: Iterable[int], heard_ms: int, silent: Sequence[tuple[int, int]]
) -> Iterator[int]:
    """Times at which the process that registered ran."""
    if not own[0].anchored:
        yield own[0].timestamp_ms
    for before, state in pairwise(own):
        if state.anchored:
            continue
        # The broker requests both in heartbeats that carry its broker epoch.
        unfenced = before.fenced and not state.fenced
        leaves = state.in_controlled_shutdown and not before.in_controlled_shutdown
        if unfenced or leaves:
            yield state.timestamp_ms
    for state, end_ms in zip(own, until_ms, strict=True):
        if not state.fenced:
            yield last_heard_ms(end_ms, heard_ms, silent)


def _controlled_shutdown(own: Sequence[BrokerState]) -> BrokerState | None:
    """The state that began a controlled shutdown after which the incarnation was never active again."""
    leaving = [i for i, s in enumerate(own) if s.in_controlled_shutdown]
    active = [i for i, s in enumerate(own) if s.active]
    last = active[-1] if active else -1
    return next((own[i] for i in leaving if i > last), None)
