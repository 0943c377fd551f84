"""What the log of each replica of one partition kept: of a broker's process, machine, disks and directories, and of
its time in the ISR.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from replay.arrow.once import once_each
from replay.arrow.ragged import INT64_MAX, Array, members_of
from replay.arrow.runs import run_starts
from replay.cluster.boots import is_same_boot, ran_until_read
from replay.cluster.facts import ClusterFacts
from replay.controller.acceptable_leaders import UNASSIGNED
from replay.offsets.broker_lines import NO_LINES, BrokerLines
from replay.offsets.evidence import PROPAGATION_MS, Row, Scrape, read_by
from replay.partitions.elections import States
from replay.partitions.reducer import MIGRATING
from replay.terms.facts import StateFacts
from replay.terms.liveness import Session, Sessions
from replay.terms.read_again import is_first

# Topics to which a broker that leads a partition in its own eyes appends by itself, before anybody reaches it: the
# coordinators' (Kafka's Topic.INTERNAL_TOPICS and CoordinatorRuntime).
APPENDED_BY_BROKERS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
# Directory ids that mean: not known yet.
NO_DIRECTORY = (UNASSIGNED, MIGRATING)
# How long a replica must have been in sync, by Kafka's defaults and at least: see `settled_ms`.
SETTLED_MS = 60_000


def settled_ms(cluster: ClusterFacts) -> int:
    """A replica that has been in sync for this long (ms), on a broker that ran all that time, follows its leader's log
    and has written its high watermark since: a leader looks for replicas that lag twice in replica.lag.time.max.ms
    (Kafka's ReplicaManager, `isr-expiration`), and the file is written at its interval after that. Both processes may
    hang for as long as nothing need be heard of them."""
    lag_ms = cluster.lag_time_max_ms * 3 // 2
    return max(SETTLED_MS, lag_ms + cluster.checkpoint_interval_ms + PROPAGATION_MS + 2 * cluster.heard_ms)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the history records of a partition beside its states. topic: its name; None if unknown. Of its rows:
    directories, ids in the order of the replicas, and partition_epochs."""

    topic: str | None = None
    directories: Sequence[Sequence[str] | None] = ()
    partition_epochs: Sequence[int] = ()


@dataclass(eq=False)
class ReplicaLogs:
    """The logs of one partition's replicas, rows [first, end) of the bucket's facts and states. stopped:
    `Evidence.stopped`; lines, scrapes: what brokers logged about the partition, and what their exporters show."""

    facts: StateFacts
    states: States
    first: int
    end: int
    sessions: Sessions
    cluster: ClusterFacts
    end_ms: int
    stopped: Mapping[tuple[int, int], int]
    recorded: Recorded
    lines: BrokerLines = NO_LINES
    scrapes: Mapping[int, Sequence[Scrape]] = field(default_factory=dict)

    @cached_property
    def times(self) -> list[int]:
        """The rows' times, in ms, of which none is before an earlier row's."""
        return np.maximum.accumulate(self.facts.timestamp_ms[self.first : self.end]).tolist()

    @cached_property
    def sound(self) -> bool:
        """Whether leader epochs only rise. If not, two histories were mixed and evidence may be about either."""
        rows = slice(self.first, self.end)
        epochs = self.states.leader_epoch[rows][~self.states.removed[rows]]
        return bool((np.diff(epochs) >= 0).all())

    @cached_property
    def known_since_ms(self) -> int:
        """When the partition was created, or the time of the snapshot with which its history begins."""
        return int(self.facts.timestamp_ms[self.first])

    @cached_property
    def is_written_by_clients(self) -> bool:
        """Whether only clients and leaders write to the topic: brokers append to a coordinator's by themselves, and
        what is in tiered storage outlives the process that wrote it."""
        topic = self.recorded.topic
        return topic is not None and topic not in APPENDED_BY_BROKERS and not self.cluster.may_be_tiered(topic)

    def session_at(self, broker: int, row: int) -> Session | None:
        """The broker's session after the row's batch; None if it was not registered then."""
        return self.sessions.at(broker, int(self.facts.batch[row]))

    def begun_by(self, broker: int, first: int, row: int) -> Sequence[Session]:
        """The sessions of the broker that began after the batch of row `first`, up to that of a later row or with
        it."""
        return self.sessions.begun(broker, *self.facts.batch[[first, row]].tolist())

    def begun_within(self, broker: int, first: int, end: int) -> Sequence[Session]:
        """The sessions of the broker that began after the batch of row `first` and before that of row `end`, if that
        is one of the partition's."""
        last = int(self.facts.batch[end]) - 1 if end < self.end else None
        return self.sessions.begun(broker, int(self.facts.batch[first]), last)

    def is_first(self, broker: int, row: int, at_ms: int | None) -> bool:
        """See `replay.terms.read_again.is_first`."""
        return is_first(self.facts, self.sessions, self.cluster, broker, row, at_ms)

    def directory_of(self, row: int, broker: int) -> str | None:
        """The id of the directory in which the broker has its replica; None if it has none, or none is recorded."""
        directories = self.recorded.directories[row - self.first] if self.recorded.directories else None
        replicas = members_of(self.states.replicas[row])
        if not directories or len(directories) != len(replicas) or broker not in replicas:
            return None
        return directories[replicas.index(broker)]

    def stayed(self, broker: int, since_ms: int, last: int) -> bool:
        """Whether the broker's replica is recorded in one directory from since_ms to row `last`.

        While a replica is moved, its new directory may be recorded before its new log has all records of the old one.
        If the process ends then, the next one takes the new log (Kafka's LogManager.recoverAbandonedFutureLogs).
        """
        begin = self.first + max(bisect_right(self.times, since_ms) - 1, 0)
        if self.facts.anchored[begin] and self.times[begin - self.first] > since_ms:
            return False  # where it was before the snapshot is not known
        return self.in_one_directory(broker, begin, last)

    def in_one_directory(self, broker: int, first: int, last: int) -> bool:
        """Whether rows first to last record no more than one directory of the broker's replica."""
        found = {self.directory_of(row, broker) for row in range(first, last + 1)}
        return len(found - {*NO_DIRECTORY, None}) <= 1

    def kept_directory(self, broker: int, joined: int, row: int) -> bool:
        """Whether from the row with which it joined to an election the broker's log stayed in one registered directory,
        whenever it started again."""
        (first, last), brokers = (self.directory_of(at, broker) for at in (joined, row - 1)), self.cluster.brokers
        begun, session = self.begun_by(broker, joined, row), self.session_at(broker, joined)
        state = brokers.after_batch(broker, int(self.facts.batch[row]))
        online = state is None or state.log_dirs is None or last is None or last in (*state.log_dirs, *NO_DIRECTORY)
        stayed = not begun or (session is not None and self.stayed(broker, session.begin_ms, row - 1))
        same = first == last
        if {first, last} <= {*NO_DIRECTORY, None}:
            # It may be in any of them. Kafka makes an empty log in place of one whose directory is no longer in
            # log.dirs.
            same = brokers.kept_log_dirs(broker, *self.facts.timestamp_ms[[joined, row]].tolist())
        return (same or not begun) and online and stayed

    def has_no_other_log(self, broker: int, first: int, last: int) -> bool:
        """Whether in rows first to last no second log of the broker's replica, in another directory, can have taken the
        place of the first one (see `stayed`)."""
        state = self.cluster.brokers.after_batch(broker, int(self.facts.batch[first]))
        if state is not None and len(state.log_dirs or ()) <= 1:
            return True  # it has one directory, or its release records none and recovers no such log
        return self.stayed(broker, self._life_ms(self.session_at(broker, first)), last)

    def _life_ms(self, session: Session | None) -> int:
        """Since when, at the latest, the session's process has had the partition's log: see `stayed`."""
        return self.known_since_ms if session is None else session.begin_ms

    def ran_on(
        self, broker: int, session: Session | None, since_ms: int, until_ms: int, run: tuple[int, int] | None = None
    ) -> bool:
        """Whether a broker's log lost nothing from since_ms to until_ms, however often its process was killed: its
        machine did not start again (SIGKILL leaves what was written in the page cache), and it kept its log
        directories. The process of the session at since_ms, if there is one, ran up to its last sign of
        life. run: of `collect`, in which its files were read at until_ms or later (see `ran_until_read`)."""
        if self.cluster.disk_failed(broker, since_ms - PROPAGATION_MS, until_ms + PROPAGATION_MS):
            return False
        is_same = self._same_log(broker, session, since_ms, until_ms, run)
        return is_same and not self.shows_less(broker, since_ms, until_ms)

    def shows_less(self, broker: int, since_ms: int, until_ms: int = INT64_MAX) -> bool:
        """Whether from since_ms to until_ms a start of the broker may have cut off damage, or it made its log anew."""
        return self._cut_damage(broker, since_ms, until_ms) or self.made_anew(broker, since_ms, until_ms)

    def made_anew(self, broker: int, since_ms: int, until_ms: int) -> bool:
        """Whether from since_ms to until_ms the broker, long a replica, made an empty log in place of the one that it
        had: somebody deleted that, or put another disk there."""
        long_ms, times = SETTLED_MS + self.cluster.clock.error_ms, self.lines.created.get(broker, ())
        anew = [at for at in times if any(begin + long_ms <= at <= end for begin, end in self._replica_spans(broker))]
        return self._is_within(anew, since_ms, until_ms)

    def was_damaged(self, broker: int, session: Session | None, since_ms: int, until_ms: int) -> bool:
        """Whether only damage that a start cut off keeps `ran_on` from being true."""
        return self._cut_damage(broker, since_ms, until_ms) and self._same_log(broker, session, since_ms, until_ms)

    def _same_log(
        self, broker: int, session: Session | None, since_ms: int, until_ms: int, run: tuple[int, int] | None = None
    ) -> bool:
        until_ms += PROPAGATION_MS
        # One may fail while the process runs on, and be back later with less (LogManager.handleLogDirFailure).
        if not self.cluster.brokers.kept_log_dirs(broker, since_ms, until_ms):
            return False
        since_ms = since_ms if session is None else max(since_ms, session.alive_until_ms)
        boots, error_ms = self.cluster.boots.get(broker, ()), self.cluster.clock.error_ms
        was_read = run is not None and ran_until_read(boots, since_ms, run, error_ms)
        if not was_read and not is_same_boot(boots, since_ms, until_ms, error_ms):
            return False
        # The file of log starts has names, and a start empties a log that ends below what it says (LogLoader).
        is_used_again = self.cluster.is_used_again(self.recorded.topic)
        if is_used_again and not self.ran_as_replica(broker, since_ms, SETTLED_MS + PROPAGATION_MS):
            return False
        last = bisect_right(self.times, until_ms) - 1
        return self.stayed(broker, self._life_ms(session), self.first + max(last, 0))

    def cut_unasked(self, broker: int, since_ms: int, until_ms: int) -> bool:
        """Whether a start after a clean stop may have cut off damage (LogLoader.loadSegmentFiles)."""
        return self._is_within(self.lines.cut_unasked.get(broker, ()), since_ms, until_ms)

    def _cut_damage(self, broker: int, since_ms: int, until_ms: int) -> bool:
        return self._is_within(self.lines.corrupted.get(broker, ()), since_ms, until_ms)

    def _is_within(self, times: Sequence[int | None], since_ms: int, until_ms: int) -> bool:
        return self.cluster.clock.may_be_within(times, since_ms - PROPAGATION_MS, until_ms + PROPAGATION_MS)

    @once_each
    def taken_in(self, broker: int) -> list[int]:
        """The rows in which another leader has just taken the broker into the ISR, certainly not an earlier process."""
        joined = self._joins(broker, np.arange(self.first, self.end))
        found = joined[~self.facts.anchored[joined] & (self.states.leader[joined] != broker)]
        return [at for at in found.tolist() if not self.may_have_joined_earlier(broker, at)]

    def may_have_joined_earlier(self, broker: int, joined: int) -> bool:
        """Whether the leader may have asked to take in a process before the one that had registered when the replica
        joined.

        A request has the partition epoch before it, and is sent again until it is answered. So it may be from any time
        since that state at which the broker was active. The controller compares broker epochs (KIP-903), but not that
        of a process which fetches before it has registered, -1, nor those of fetches before metadata.version 3.5-IV1.
        """
        session, before = self.session_at(broker, joined), joined - 1
        if session is None or joined <= self.facts.stretch[joined]:
            return False
        return self.cluster.brokers.was_active(broker, int(self.facts.batch[before]), session.begin_batch)

    def _joins(self, broker: int, rows: Array) -> Array:
        """Of consecutive rows, those in which the broker has just joined the ISR while somebody leads."""
        inside = self.is_in_isr(broker)[rows - self.first]
        return rows[1:][inside[1:] & ~inside[:-1] & (self.states.leader[rows[1:]] >= 0)]

    def was_replica(self, broker: int, first: int, end: int) -> bool:
        """Whether the broker was a replica in all rows [first, end): Kafka deletes the log of one that is none."""
        return bool(self._is_replica(broker)[first - self.first : end - self.first].all())

    def ran_as_replica(self, broker: int, until_ms: int, needed: int, since_ms: int = 0) -> bool:
        """Whether a process of the broker did between two times, as a replica, what it does every so many ms."""
        error_ms = self.cluster.clock.error_ms
        return any(
            self.did_since(session, (max(since + error_ms, since_ms), min(until_ms, end)), needed) is not None
            for session in self.sessions.by_broker.get(broker, [])
            for since, end in self._replica_spans(broker)
        )

    def did_since(self, session: Session, between_ms: tuple[int, int], needed: int) -> int | None:
        """The last time from which on the session's process did what it does every so many ms, between two times; None
        if it need not have done it. It may hang, and stay active as long as nothing need be heard of it; what was due
        it does as soon as it goes on (Java's ScheduledThreadPoolExecutor, KafkaScheduler), but not in a log directory
        that has failed."""
        broker, brokers, last_heard_ms = session.broker_id, self.cluster.brokers, self.cluster.last_heard_ms
        until_ms = min(between_ms[1], brokers.log_dirs_until(broker, session.begin_ms))
        active = brokers.active_spans(broker, max(between_ms[0], session.begin_ms), until_ms)
        done = ((since, min(session.alive_until_ms, last_heard_ms(end)) - needed) for since, end in active)
        return max((by for since, by in done if by >= since), default=None)

    def rewrote_files(self, broker: int, until_ms: int) -> bool:
        """Whether a process of the broker has rewritten its checkpoint files as a replica, by a time at which it ran or
        they were read. Who may have hung then counts as well if no earlier topic had that name."""
        is_used_again = self.cluster.is_used_again(self.recorded.topic)
        sure_ms = until_ms if is_used_again else until_ms + self.cluster.heard_ms
        return self.ran_as_replica(broker, sure_ms, self.rewritten_ms)

    @cached_property
    def rewritten_ms(self) -> int:
        """After how long a process of a replica's broker has rewritten its checkpoint files, and none has what an
        earlier topic of that name left: of high watermarks, and of log starts, below which none is
        (UnifiedLog.updateLogStartOffset)."""
        is_used_again = self.cluster.is_used_again(self.recorded.topic)
        return self.rewritten_after_cut_ms if is_used_again else self.cluster.checkpoint_interval_ms + PROPAGATION_MS

    @property
    def rewritten_after_cut_ms(self) -> int:
        """After how long a process that has truncated a log has rewritten all its checkpoint files: that of log starts,
        too, which may have where an earlier leader had deleted up to (log.flush.start.offset.checkpoint.interval.ms),
        and the next process begins with no less (LogLoader)."""
        return max(self.cluster.checkpoint_interval_ms, SETTLED_MS) + PROPAGATION_MS

    def may_have_cut(self, broker: int, row: int) -> bool:
        """Whether the broker may have truncated its log to follow another leader, up to that row."""
        led = self.states.leader[self.first + 1 : row + 1][self.facts.changes[self.first + 1 : row + 1]]
        return bool(self.facts.anchored[self.first]) or not set(led.tolist()) <= {broker, -1}

    @once_each
    def _replica_spans(self, broker: int) -> list[tuple[int, int]]:
        """From when to when, in ms, the broker was a replica of the partition."""
        is_replica, times = self._is_replica(broker), [*self.times, self.end_ms]
        starts = [*np.flatnonzero(run_starts(is_replica)).tolist(), len(is_replica)]
        return [(times[a], times[b]) for a, b in pairwise(starts) if is_replica[a]]

    def in_isr(self, broker: int, row: int) -> bool:
        """Whether the broker is in the row's ISR."""
        return bool(self.is_in_isr(broker)[row - self.first])

    @once_each
    def is_in_isr(self, broker: int) -> Array:
        """For each row of the partition, whether the broker is in its ISR."""
        return np.asarray((self.places_of(broker) & self.states.isr[self.first : self.end]).any(axis=1))

    @once_each
    def places_of(self, broker: int) -> Array:
        """For each row of the partition, where among its replicas the broker is (bool, as States.replicas)."""
        return np.asarray(self.states.replicas[self.first : self.end] == broker)

    @once_each
    def _is_replica(self, broker: int) -> Array:
        return np.asarray(self.places_of(broker).any(axis=1))

    def settled(self, row: Row) -> int | None:
        """The leader epoch under which the row's replica had been in sync, on a running broker, for `settled_ms` when
        the row was read; None if it had not, or that is unknown."""
        broker, error = row["broker_id"], self.cluster.clock.error_ms
        begin_ms = row["captured_at_ms"] - settled_ms(self.cluster) - error
        return self.in_sync_since(broker, begin_ms, read_by(row) + error)

    def in_sync_since(self, broker: int, begin_ms: int, end_ms: int) -> int | None:
        """The leader epoch at begin_ms if from then to end_ms the metadata log shows the broker running and in the ISR,
        under a leader; None if it does not."""
        first, last = bisect_right(self.times, begin_ms) - 1, bisect_right(self.times, end_ms) - 1
        if first < 0 or self.breaks(broker)[last] >= first or not self.known_at(end_ms):
            return None
        if not self.cluster.brokers.steady(broker, begin_ms, end_ms):
            return None
        return int(self.states.leader_epoch[self.first + first])

    def known_at(self, timestamp_ms: int) -> bool:
        """Whether the partition's state at a time is known: it is not if the log ended before, or if the next row is a
        snapshot's, which follows a hole in the log."""
        following = bisect_right(self.times, timestamp_ms)
        if following == len(self.times):
            return timestamp_ms <= self.end_ms
        return not self.facts.anchored[self.first + following] or timestamp_ms <= self.times[following - 1]

    @once_each
    def breaks(self, broker: int) -> list[int]:
        """For every row of the partition (counted from its first), the last one up to it without a leader, without the
        broker in the ISR, or (counted from the next row on) followed by unknown states; -1 for none."""
        inside, states = slice(self.first, self.end), self.states
        index = np.arange(self.end - self.first)
        out = np.where(self.is_in_isr(broker) & (states.leader[inside] >= 0), -1, index)
        out = np.where(self.facts.anchored[inside], np.maximum(out, index - 1), out)
        last: list[int] = np.maximum.accumulate(out).tolist()
        return last
