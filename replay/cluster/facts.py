"""The cluster's facts: everything except the partitions that judging one bucket needs."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import Array, Row
from replay.arrow.schemas import PARTITION_HISTORY, PROVENANCE_NAMES, TOPIC_EVENTS
from replay.cluster.boots import Boots, Processes
from replay.cluster.broker_events import BrokerEvents, SplitEvents, broker_events, split_events
from replay.cluster.brokers import BROKER_TYPES, BrokerTimeline, ControllerReleases
from replay.cluster.configs import (
    BROKER,
    DEFAULTS,
    MIN_ISR,
    TOPIC,
    UNSET,
    ConfigChange,
    ConfigTimeline,
    ElectionConfigs,
    config_changes,
    config_timeline,
)
from replay.cluster.features import FeatureLevels
from replay.cluster.log import is_complete
from replay.cluster.state import ClusterState, LogShape

# Records that affect partitions without being partition records: of configs, brokers and the active controller.
CLUSTER_RECORDS = pa.schema([PARTITION_HISTORY.field(name) for name in ("offset", "timestamp_ms", *PROVENANCE_NAMES)])

# Kafka's defaults of a controller's and a broker's static config.
DEFAULT_SESSION_TIMEOUT_MS = 9_000
DEFAULT_CHECKPOINT_INTERVAL_MS = 5_000
DEFAULT_LAG_TIME_MAX_MS = 30_000
SESSION_TIMEOUT = "broker.session.timeout.ms"
# A topic's tiered storage; Confluent's, which is also a broker's default; topics without local logs (KIP-1150).
REMOTE_STORAGE = ("remote.storage.enable", "confluent.tier.enable", "diskless.enable", "inkless.enable")
# What kafka-reassign-partitions sets for brokers.
_THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
# A topic's, and a broker's default for topics that have none.
CLEANUP_POLICY, DEFAULT_CLEANUP_POLICY = "cleanup.policy", "log.cleanup.policy"
CHECKPOINT_INTERVAL = "replica.high.watermark.checkpoint.interval.ms"
LAG_TIME_MAX = "replica.lag.time.max.ms"
# The controller checks for stale brokers four or eight times per session timeout; its queue and its log appends add to
# that.
_LATENESS, _SLACK_MS, _CHECKS = 0.5, 1_000, 8
# What a file's text may hold, and the longest time that sums with any timestamp fit 64 bits: a thousand years.
_DIGITS = re.compile(r"[0-9]{1,19}")
_LONGEST_MS = 1000 * 366 * 24 * 60 * 60 * 1000
REQUEST_THREADS, DEFAULT_REQUEST_THREADS = "num.io.threads", 8
METADATA_LOG_DIR, LOG_DIRS = "metadata.log.dir", ("log.dirs", "log.dir")
_OF_BATCH = ("base_offset", "last_offset", "epoch")
# Every node's own properties file names its roles. A manifest that lists a few configs does not.
_ROLES = "process.roles"


@dataclass(frozen=True, slots=True)
class Clock:
    """How to order evidence by time.

    error_ms: the largest difference between two nodes' clocks. measured_ms: the smallest difference that is consistent
    with the evidence itself.
    """

    error_ms: int = 0
    measured_ms: int = 0

    def surely_before(self, row: Row, timestamp_ms: int) -> bool:
        """True if the row's value was read before the time, for every clock error and any moment of the capture."""
        begin = row["captured_at_ms"]
        return begin is not None and read_by(row) + self.error_ms < timestamp_ms

    def surely_after(self, row: Row, timestamp_ms: int) -> bool:
        """True if the row's value was read after the time, for every clock error."""
        begin = row["captured_at_ms"]
        return begin is not None and begin - self.error_ms > timestamp_ms

    def may_be_within(self, times: Iterable[int | None], since_ms: int, until_ms: int) -> bool:
        """Whether one of the times (ms; None: unknown) may lie between the two."""
        return any(at is None or since_ms - self.error_ms <= at <= until_ms + self.error_ms for at in times)


def read_by(row: Row) -> int:
    """The latest time (ms) at which the value of a row with a capture time was read."""
    return int(row["captured_at_ms"]) + (row["uncertainty_ms"] or 0)


@dataclass(frozen=True)
class ClusterFacts:
    """Everything about the cluster that judging a bucket needs.

    log_end_ms: timestamp of the metadata log's last record; the leader is unknown after it. None: the last timestamp of
    the history and of the broker records is used. session_timeout_ms: the largest broker.session.timeout.ms of the
    controllers; session_timeout_source: 'static' or 'assumed_default'. fail_overs: (time of the last record of one
    controller's epoch, time of the first record of the next), ascending; also `standstills`. checkpoint_interval_ms:
    the longest interval at which a broker writes its high watermarks. lag_time_max_ms: the longest for which a leader
    keeps a replica in the ISR that does not catch up. configs: min.insync.replicas and
    unclean.leader.election.enable over offsets; None: only the values in the states themselves are known, and no other
    rules are simulated. cleared: offsets of ClearElrRecords, ascending. topic_events: schemas.TOPIC_EVENTS.
    unclean_restarts: metadata offsets of the registrations that followed an unclean shutdown.
    broker_min_isr: min.insync.replicas as each broker resolves it. shares_defaults: whether all brokers apply the
    cluster's defaults of the configs that elections depend on. records: CLUSTER_RECORDS, the records that change
    something other than a partition. boots: by broker, the readings of its machine's boot id. tiered_topics: names of
    topics that ever had tiered storage; None: any may have had it, by default. refused_topics: of `refused_topics`.
    compacted_topics: of those that ever had the cleanup policy compact; None: any may have had it, by default.
    processes: what nodes' own logs show of the registered processes. request_threads: by broker whose server.properties
    was captured, the most threads that its processes can have had to append what clients produce (num.io.threads).
    disk_errors: by broker, when it logged that a disk could not be written, in ms by its own clock; None: its zone is
    not known.
    metadata_apart: brokers whose file names a directory of the metadata log that is none of its log directories.
    knows_all_topics: the metadata log is known from its first record on. split: its events of several batches.
    """

    cluster_id: str
    brokers: BrokerTimeline
    features: FeatureLevels
    clock: Clock = field(default_factory=Clock)
    log_end_ms: int | None = None
    session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS
    session_timeout_source: str = "assumed_default"
    fail_overs: Sequence[tuple[int, int]] = ()
    checkpoint_interval_ms: int = DEFAULT_CHECKPOINT_INTERVAL_MS
    lag_time_max_ms: int = DEFAULT_LAG_TIME_MAX_MS
    configs: ElectionConfigs | None = None
    controller_releases: ControllerReleases = field(default_factory=ControllerReleases)
    cleared: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    topic_events: pa.Table = field(default_factory=TOPIC_EVENTS.empty_table)
    unclean_restarts: Sequence[int] = ()
    broker_min_isr: Mapping[int, ConfigTimeline] = field(default_factory=dict)
    shares_defaults: bool = True
    records: pa.Table = field(default_factory=CLUSTER_RECORDS.empty_table)
    boots: Boots = field(default_factory=dict)
    tiered_topics: frozenset[str] | None = frozenset()
    refused_topics: frozenset[str] = frozenset()
    compacted_topics: frozenset[str] | None = frozenset()
    processes: Processes = field(default_factory=dict)
    request_threads: Mapping[int, int] = field(default_factory=dict)
    disk_errors: Mapping[int, Sequence[int | None]] = field(default_factory=dict)
    metadata_apart: frozenset[int] = frozenset()
    knows_all_topics: bool = True
    split: SplitEvents = field(default_factory=SplitEvents)

    def known_configs(self) -> ElectionConfigs:
        """`configs`. Errors: ValueError if they are not known."""
        if self.configs is None:
            raise ValueError(f"cluster {self.cluster_id}: the configs are not known, so no rules can be applied")
        return self.configs

    def may_be_compacted(self, topic: str | None) -> bool:
        """Whether records may be missing below the topic's log ends."""
        return topic is None or self.compacted_topics is None or topic in self.compacted_topics

    def may_be_tiered(self, topic: str | None) -> bool:
        """Whether some of the topic may be in tiered storage."""
        return topic is None or self.tiered_topics is None or topic in self.tiered_topics

    def disk_failed(self, broker: int, since_ms: int, until_ms: int) -> bool:
        """Whether a disk of the broker may have failed between the two times (ms) to write what a process had handed to
        the system: that is lost although its machine ran on."""
        return self.clock.may_be_within(self.disk_errors.get(broker, ()), since_ms, until_ms)

    def may_have_new_copy(self, broker: int, since_ms: int, until_ms: int) -> bool:
        """Whether the broker may have begun its copy of the metadata log anew between the two times (ms) although it
        kept its log directories: the copy is in none of these, or in the first of log.dirs, which may be one that was
        added (KafkaConfig.metadataLogDir). A start takes an empty directory (MetaPropertiesEnsemble.verify,
        3.9.1 to 4.3.1)."""
        return broker in self.metadata_apart or self.brokers.added_log_dirs(broker, since_ms, until_ms)

    def may_be_of_lost_disk(self, row: Row) -> bool:
        """Whether a row of a file may be of a disk that its broker had lost when the file was read."""
        return self.brokers.lost_log_dirs(row["broker_id"], read_by(row) + self.clock.error_ms)

    def is_used_again(self, topic: str | None) -> bool:
        """Whether an earlier topic may have had that name. The log has none that was deleted while ZooKeeper was alone
        (ZkTopicMigrationClient, 3.9.1). A broker that has it serves before it is registered (KafkaServer.startup)."""
        is_known = self.knows_all_topics and not self.brokers.had_zookeeper
        return not is_known or topic in self._names_used_again

    @cached_property
    def _names_used_again(self) -> frozenset[str]:
        names = Counter(self.configs.topic_names.values() if self.configs else ())
        return frozenset(name for name, count in names.items() if count > 1)

    @cached_property
    def broker_events(self) -> BrokerEvents:
        """The brokers' events as arrays, worked out once."""
        return broker_events(self.brokers, self.split)

    @property
    def heard_ms(self) -> int:
        """Upper bound (ms) on the time from a broker's last heartbeat to its fencing."""
        return heard_within_ms(self.session_timeout_ms)

    @cached_property
    def _silences(self) -> Sequence[tuple[int, int]]:
        return silences(self.fail_overs, self.heard_ms)

    def heard_by_ms(self, since_ms: int) -> int:
        """By when the controller has certainly heard, since a time, from a broker whose session is valid up to then."""
        heard_by_ms = since_ms + self.heard_ms
        index = bisect_right(self._silences, since_ms, key=itemgetter(1))
        if index < len(self._silences) and self._silences[index][0] <= heard_by_ms:
            return self._silences[index][1] + self.heard_ms
        return heard_by_ms

    def last_heard_ms(self, valid_ms: int) -> int:
        """The earliest possible time of the last heartbeat of a broker whose session was valid at valid_ms."""
        return last_heard_ms(valid_ms, self.heard_ms, self._silences)

    @cached_property
    def _last_of_brokers(self) -> int | None:
        return max((s.timestamp_ms for s in self.brokers.latest()), default=None)

    @property
    def all_topics_until_ms(self) -> int | None:
        """Up to when, by every clock, every topic that there was is known; None if an earlier one may not be."""
        if not self.knows_all_topics or self.log_end_ms is None:
            return None
        return self.log_end_ms - self.clock.error_ms

    def end_ms(self, timestamp_ms: Array) -> int:
        """The time (ms) after which no state is known. timestamp_ms: of the history, at least one element."""
        if self.log_end_ms is not None:
            return self.log_end_ms
        return max([int(timestamp_ms.max()), *([] if self._last_of_brokers is None else [self._last_of_brokers])])


def heard_within_ms(session_timeout_ms: int) -> int:
    """Upper bound (ms) on the time from a broker's last heartbeat to its fencing."""
    return int(session_timeout_ms * (1 + _LATENESS)) + _SLACK_MS


def silences(fail_overs: Iterable[tuple[int, int]], heard_ms: int) -> list[tuple[int, int]]:
    """The spans in which the controller may have heard nothing of a broker with a valid session, in order. Those that
    overlap are one (a controller may take over while another one fences many brokers, one after the other), and so are
    those with no more than heard_ms between them: nothing need be heard there either."""
    result: list[tuple[int, int]] = []
    for first, last in sorted(fail_overs):
        if result and first <= result[-1][1] + heard_ms:
            result[-1] = result[-1][0], max(first, last, result[-1][1])
        else:
            result.append((first, max(first, last)))  # where times go back, too, the ends are in order
    return result


def last_heard_ms(valid_ms: int, heard_ms: int, silent: Sequence[tuple[int, int]]) -> int:
    """The earliest possible time of the last heartbeat of a broker whose session was valid at valid_ms. silent: of
    `silences`."""
    index = bisect_right(silent, valid_ms, key=itemgetter(0)) - 1
    if index >= 0 and silent[index][1] >= valid_ms - heard_ms:
        return silent[index][0] - heard_ms
    return valid_ms - heard_ms


def cluster_facts(cluster_id: str, state: ClusterState, clock: Clock, log_end_ms: int | None) -> ClusterFacts:
    """Build the facts from a resolved cluster with its records (not from `for_tasks`); what else is known of restarts,
    machines, processes and disks is left empty.

    A config that no node's captured file names gets Kafka's default; session_timeout_source is 'assumed_default' if no
    controller's file was captured, or one that names another place where the value is, or if that of a controller that
    was active was not.
    """
    static = state.static
    shown = {node: f for node, f in static.items() if _ROLES in f or SESSION_TIMEOUT in f}
    led = {node for _, node in state.controller_releases.controllers if node is not None}
    files = [f for f in shown.values() if "controller" in f.get(_ROLES, "controller")]
    files += [{SESSION_TIMEOUT: "not captured"} for _ in led - shown.keys()]
    timeout = _longest(files, SESSION_TIMEOUT, DEFAULT_SESSION_TIMEOUT_MS)
    known = bool(files) and all(_shows(f, SESSION_TIMEOUT) for f in files)
    beside = BROKER_TYPES | {"CONFIG_RECORD", "LEADER_CHANGE"}
    changes = config_changes(state.records)
    return ClusterFacts(
        cluster_id,
        state.brokers,
        state.features,
        clock,
        log_end_ms,
        session_timeout_ms=timeout,
        session_timeout_source="static" if known else "assumed_default",
        fail_overs=sorted(
            (*fail_overs(state.shape), *standstills(state.shape, timeout), *fencings(state.brokers, timeout))
        ),
        checkpoint_interval_ms=_longest(static.values(), CHECKPOINT_INTERVAL, DEFAULT_CHECKPOINT_INTERVAL_MS),
        lag_time_max_ms=_longest(static.values(), LAG_TIME_MAX, DEFAULT_LAG_TIME_MAX_MS),
        configs=state.configs,
        controller_releases=state.controller_releases,
        cleared=state.cleared,
        topic_events=state.topic_events,
        broker_min_isr=_broker_min_isr(state, changes, static),
        shares_defaults=shares_defaults(changes),
        records=pa.Table.from_pylist([r for r in state.records if r["type"] in beside], schema=CLUSTER_RECORDS),
        tiered_topics=tiered_topics(changes, static),
        refused_topics=refused_topics(changes),
        compacted_topics=compacted_topics(changes, static, state.brokers.states),
        request_threads=_request_threads(changes, static),
        metadata_apart=frozenset(node for node, file in static.items() if _keeps_metadata_apart(file)),
        knows_all_topics=is_complete(state.shape.runs),
        split=split_events(*(state.shape.batches.column(name)[state.shape.live] for name in _OF_BATCH)),
    )


def _request_threads(changes: Iterable[ConfigChange], static: Mapping[int, Mapping[str, str]]) -> dict[int, int]:
    """By broker. The config can change while a broker runs, for it or for all of them (Kafka's DynamicThreadPool)."""
    changed = [{_ROLES: "", REQUEST_THREADS: c.value or ""} for c in changes if c.name == REQUEST_THREADS]
    return {
        broker: _longest([file, *changed], REQUEST_THREADS, DEFAULT_REQUEST_THREADS)
        for broker, file in static.items()
        if _ROLES in file and _shows(file, REQUEST_THREADS)
    }


def _keeps_metadata_apart(file: Mapping[str, str]) -> bool:
    """Whether the metadata log may be in no log directory of a node, or in another one than before, by what all
    captures show of its file."""
    dirs = [re.sub(r",\s+", ",", file.get(name, UNSET)).split() for name in LOG_DIRS]
    own, firsts = set(_values(file, METADATA_LOG_DIR)), {value.partition(",")[0] for value in dirs[0]}
    known = {each for values in dirs for value in values for each in value.split(",")}
    return len(own) > 1 or len(firsts) > 1 or not own <= known | {UNSET}


def _shows(file: Mapping[str, str], name: str) -> bool:
    """Whether a complete file shows the number that a config has: Kafka reads a value like ${env:NAME} from elsewhere
    (config.providers, AbstractConfig.resolveConfigVariables)."""
    return all(value == UNSET or _DIGITS.fullmatch(value) for value in _values(file, name))


def _values(file: Mapping[str, str], name: str) -> list[str]:
    """What captures show of a config, see `of_all_captures`."""
    return file.get(name, UNSET).split() or [""]


def tiered_topics(
    changes: Iterable[ConfigChange], static: Mapping[int, Mapping[str, str]] = MappingProxyType({})
) -> frozenset[str] | None:
    """Names of the topics that ever had tiered storage; None: it was some broker's or the cluster's default."""
    found = {c.resource if c.resource_type == TOPIC else "" for c in changes if _is_tiering(c)}
    of_files = (value for file in static.values() for name in REMOTE_STORAGE for value in _values(file, name))
    return None if "" in found or any(value.lower() == "true" for value in of_files) else frozenset(found)


def _is_tiering(change: ConfigChange) -> bool:
    return change.name in REMOTE_STORAGE and (change.value or "").strip().lower() == "true"


def refused_topics(changes: Iterable[ConfigChange]) -> frozenset[str]:
    """Names of the topics that ever had a config that some broker may refuse, and with it all that is set for the topic
    (DynamicConfigPublisher, LogManager.updateTopicConfig, 3.9.1 to 4.3.1): tiered storage, which the broker's own file
    may turn off; a segment below 1 MiB (from 4.0 on); a policy named twice (after 4.1)."""

    def may_be_refused(change: ConfigChange) -> bool:
        value = (change.value or "").strip()
        policies = [policy.strip() for policy in value.split(",")]
        is_small = change.name == "segment.bytes" and _DIGITS.fullmatch(value) and int(value) < 1 << 20
        is_double = change.name == CLEANUP_POLICY and (len(policies) > len(set(policies)) or "" in policies[1:])
        return bool(is_small or is_double or _is_tiering(change))

    return frozenset(c.resource for c in changes if c.resource_type == TOPIC and may_be_refused(c))


def compacted_topics(
    changes: Iterable[ConfigChange], static: Mapping[int, Mapping[str, str]], brokers: Iterable[int]
) -> frozenset[str] | None:
    """Names of the topics that ever had the cleanup policy compact; None: it was some broker's or the cluster's
    default, as far as records or files show, or the file of one of the brokers was not captured."""
    policies = [("", file.get(DEFAULT_CLEANUP_POLICY)) for file in static.values()]
    files = [static.get(broker, {}) for broker in brokers]
    is_known = all(DEFAULT_CLEANUP_POLICY in file or "broker" in file.get(_ROLES, "") for file in files)
    for change in changes:
        if change.name in (CLEANUP_POLICY, DEFAULT_CLEANUP_POLICY):
            policies.append((change.resource if change.name == CLEANUP_POLICY else "", change.value))
    found = frozenset(name for name, policy in policies if "compact" in (policy or ""))
    return None if "" in found or not is_known else found


def _broker_min_isr(
    state: ClusterState, changes: Iterable[ConfigChange], static: Mapping[int, Mapping[str, str]]
) -> dict[int, ConfigTimeline]:
    """min.insync.replicas as each broker resolves it: like a controller with its id (KafkaConfigSchema).

    Topic settings are the same for all brokers.
    """
    changes = [change for change in changes if change.resource_type == BROKER]
    topics = state.configs.min_isr.topics
    return {
        broker: replace(config_timeline(MIN_ISR, changes, [(-1, broker)], static), topics=topics)
        for broker in sorted({*state.brokers.states, *static})
    }


def shares_defaults(changes: Iterable[ConfigChange]) -> bool:
    """Whether no broker can have refused the cluster's defaults. It applies all of them or none, and none beside one of
    its own configs that it cannot apply (Kafka's DynamicBrokerConfig.updateCurrentConfig, 3.9.1 to 4.3.1). Whether it
    can apply one may depend on its own file, e.g. a number of threads that is more than twice its own
    (DynamicThreadPool): only the broker that got the request checked it. Any broker can throttle replication."""
    return all(c.name in DEFAULTS or c.name in _THROTTLES for c in changes if c.resource_type == BROKER)


def _longest(files: Iterable[Mapping[str, str]], name: str, default: int) -> int:
    """The largest value in the files. A complete file without the config counts as the default, as does no file."""
    found = [value for f in files if name in f or _ROLES in f for value in _values(f, name)]
    values = [min(int(text), _LONGEST_MS) if _DIGITS.fullmatch(text) else default for text in found]
    return max(values, default=default)


def standstills(shape: LogShape, session_timeout_ms: int) -> Sequence[tuple[int, int]]:
    """(last batch's time before, first batch's time after) of each time, in ms, in which the active controller wrote
    nothing for longer than the session margin allows for: it may have stood still. And where its clock was set back.

    So it may have heard late of a broker, or fenced it late, and a new controller need not have taken over: the only
    one has nobody to do so. It writes no-op records to show that it runs, but for where they are turned off.
    Sources: QuorumController.registerWriteNoOpRecord, metadata.max.idle.interval.ms (500 ms; 0: none).
    """
    epoch, at_ms = (shape.batches.column(name)[shape.live] for name in ("epoch", "base_timestamp_ms"))
    result: list[tuple[int, int]] = []
    for own in np.split(at_ms, np.flatnonzero(np.diff(epoch)) + 1):
        times = np.maximum.accumulate(own)
        is_late = np.diff(times) > _late_ms(session_timeout_ms)
        result += [(int(times[i]), int(own[i + 1])) for i in np.flatnonzero(is_late | (np.diff(own) < 0))]
    return result


def fencings(brokers: BrokerTimeline, session_timeout_ms: int) -> Iterator[tuple[int, int]]:
    """(first, last) time in ms of brokers that were fenced one after the other for longer than the session margin
    allows for: the controller fences one stale broker at a time, so the sessions of the later ones had been over for
    some time. Source: ReplicationControlManager.maybeFenceOneStaleBroker, 3.9.1 to 4.3.1."""
    most_ms = _late_ms(session_timeout_ms)
    changes = (pair for states in brokers.states.values() for pair in pairwise(states))
    at_ms = sorted(state.timestamp_ms for before, state in changes if state.fenced and before.active)
    begins = [0, *(i for i, (a, b) in enumerate(pairwise(at_ms), 1) if b - a > most_ms), len(at_ms)]
    for first, end in pairwise(begins):
        if first < end and at_ms[end - 1] - at_ms[first] > most_ms:
            yield at_ms[first], at_ms[end - 1]


def _late_ms(session_timeout_ms: int) -> int:
    """How late (ms) a controller may fence a broker within the session margin, beside its own checks."""
    return heard_within_ms(session_timeout_ms) - session_timeout_ms - session_timeout_ms // _CHECKS


def fall_ms(shape: LogShape) -> int:
    """The most, in ms, by which the times of the surviving log go back: some controller's clock was off by that."""
    at_ms = shape.batches.column("base_timestamp_ms")[shape.live]
    return int((np.maximum.accumulate(at_ms) - at_ms).max(initial=0))


def fail_overs(shape: LogShape) -> Sequence[tuple[int, int]]:
    """(last batch's time of one controller's epoch, first batch's time of the next), in ms, for the surviving log."""
    epoch, at_ms = (shape.batches.column(name)[shape.live] for name in ("epoch", "base_timestamp_ms"))
    first = np.unique(epoch, return_index=True)[1]
    last = len(epoch) - 1 - np.unique(epoch[::-1], return_index=True)[1]
    return tuple(zip(at_ms[last[:-1]].tolist(), at_ms[first[1:]].tolist(), strict=True))
