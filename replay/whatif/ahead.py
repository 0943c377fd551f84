"""What a step that is not taken yet would do: from the newest state, under the rules of the release that runs.

Predictions, never facts. Each step becomes the controller's events (replay/controller/triggers.py), which the same
rules answer that conformance tests hold against Kafka's own classes. Sources: Kafka's ReplicationControlManager
(handleBrokerInControlledShutdown, handleBrokerUncleanShutdown, handleBrokerUnfenced, electLeaders,
maybeElectUncleanLeaders), ConfigurationControlManager (a changed min.insync.replicas clears ELRs), 4.3.1.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import INT64_MAX, Array, Row, members_of
from replay.arrow.schemas import PARTITION
from replay.arrow.sets import empty, has, is_in, join, keep, same_set, size, where
from replay.cluster.broker_events import CONTROLLED_SHUTDOWN, UNFENCE
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.configs import MIN_ISR, UNCLEAN_LEADER_ELECTION, ConfigTimeline
from replay.cluster.facts import Clock
from replay.controller.partition_change_builder import (
    ELECT_ONLINE,
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    LISTS,
    RECOVERED,
    RECOVERING,
    Cases,
    predict,
    state_after,
)
from replay.controller.profiles import PROFILES, Profile
from replay.controller.transitions import Bucket
from replay.controller.triggers import CLEAN_RESTART, UNCLEAN_RESTART, of_broker, with_election
from replay.offsets.evidence import Evidence, last_seen_with_epoch

STOP, START, SET, ELECT = "stop", "start", "set", "elect"
LEADERLESS, UNCLEAN, LAST_COPY = "leaderless", "unclean_election", "last_copy"
REPLACED_DIRECTORY, CUT_LOG = "replaced_directory", "cut_log"
RECOVERY_LOST, UNDER_MIN_ISR, NOT_ELECTED = "recovery_lost", "under_min_isr", "not_elected"
ONE_LEFT, NO_CONTROLLER = "one_left", "no_controller"
# Effect -> what it means. All but ONE_LEFT make a step unsafe.
EFFECTS = {
    LEADERLESS: "loses its leader; a window opens",
    UNCLEAN: "gets a leader from outside ISR and ELR; acknowledged records may be lost",
    REPLACED_DIRECTORY: "gets a leader that ran and did not lead: it probably has a new directory, and an empty log",
    CUT_LOG: "gets a leader that stopped uncleanly: without ELR it is a member whatever its log lost",
    LAST_COPY: "no member of ISR or ELR is alive any more",
    RECOVERY_LOST: "no broker can be elected by rule any more: its last known leader is forgotten",
    UNDER_MIN_ISR: "has fewer members in its ISR than min.insync.replicas: acks=all is refused",
    NOT_ELECTED: "is not led by the broker that was asked for",
    ONE_LEFT: "is one failure from loss",
}
OPENS_WINDOW = (LEADERLESS, UNCLEAN)
_LOSES = {UNCLEAN, REPLACED_DIRECTORY, CUT_LOG}
MOST_DOUBTFUL = 6
_END = INT64_MAX - 1


@dataclass(frozen=True, slots=True)
class ClusterAction:
    """kind: STOP or START a broker, SET key to value (of a topic or of all), ELECT a broker for a partition."""

    kind: str
    broker: int = -1
    topic: str | None = None
    partition: int = -1
    key: str = ""
    value: str = ""

    def __str__(self) -> str:
        if self.kind == SET:
            return f"set {self.key}={self.value}" + (f" of {self.topic}" if self.topic else "")
        return (
            f"elect {self.topic}-{self.partition}={self.broker}" if self.kind == ELECT else f"{self.kind} {self.broker}"
        )


@dataclass(frozen=True, slots=True)
class Possibility:
    """What the evidence leaves open: the rules that run, and the brokers that come back after an unclean stop."""

    profile: Profile
    unclean: frozenset[int]


@dataclass(frozen=True, slots=True)
class Now:
    """All partitions at one moment, one element each.

    names: (topic_id, topic, partition), with timestamp_ms of the state. online: the replicas whose directory is online.
    active: brokers that are registered, unfenced and not shutting down.
    allowed: unclean.leader.election.enable. most_min_isr: the controller's cap of min.insync.replicas. passed_over: of
    a partition without a leader those whom it waits for and that are active, in a directory that is online: it was
    assigned after the last election, in place of the one that had their log
    (ReplicationControlManager.handleAssignReplicasToDirs elects by the old one, 3.9.1 to 4.3.1). cut: brokers that came
    back after an unclean stop.
    """

    names: pa.Table
    cases: Cases
    online: Array
    active: frozenset[int]
    allowed: Array
    most_min_isr: Array
    passed_over: Array
    cut: frozenset[int] = frozenset()

    @property
    def topic(self) -> Array:
        return np.array(self.names["topic"].to_pylist(), dtype=object)

    @property
    def copies(self) -> Array:
        """How many members of ISR and ELR are active, with the directory that has their log, of each partition."""
        held = join(self.cases.isr, self.cases.elr)
        whole = is_in(held, self.online) & ~is_in(held, self.passed_over)
        return size(keep(held, np.isin(held, list(self.active)) & whole))

    @property
    def under_min_isr(self) -> Array:
        wanted = np.minimum(self.cases.min_isr, size(self.cases.replicas))
        return size(self.cases.isr) < wanted


def newest(bucket: Bucket) -> Now:
    """The newest known state of every partition that is not removed; settings and brokers as at the log's end."""
    last = np.append(bucket.states.begins[1:], True) if len(bucket.history) else np.empty(0, bool)
    last &= bucket.history["end_offset"].is_null().to_numpy() & ~bucket.states.removed
    rows = np.flatnonzero(last)
    at = np.full(len(rows), _END)
    cases, configs = bucket.cases_at(rows, at), bucket.configs(rows, at)
    available = bucket.availability
    states = available.states(cases.replicas, at)
    everyone = replace(available, active=np.ones(len(available.active), dtype=bool))
    online = keep(cases.replicas, everyone.acceptable(cases.replicas, cases.directories, states))
    active = frozenset(state.broker_id for state in bucket.facts.brokers.latest() if state.active)
    names = bucket.history.select([*(f.name for f in PARTITION), "timestamp_ms"]).take(pa.array(rows))
    last = where(size(cases.last_known_elr) == 1, cases.last_known_elr, empty(cases.last_known_elr))
    held = where(size(cases.isr) > 0, cases.isr, where(size(cases.elr) > 0, cases.elr, last))
    could = np.isin(held, list(active)) & is_in(held, online) & (cases.leader < 0)[:, None]
    return Now(names, cases, online, active, configs.unclean, configs.most_min_isr, keep(held, could))


def branches(bucket: Bucket, steps: Sequence[ClusterAction], clean: Collection[int] = ()) -> list[Possibility]:
    """Every possible release, with each broker that starts back after a clean or an unclean stop if both may be; of
    more than MOST_DOUBTFUL only all of them after the one or the other. clean: brokers known to have stopped cleanly. A
    controlled shutdown shows no such stop: the controller lets a broker go before it closes its logs, and a broker that
    is killed in it is fenced, too (BrokerServer.shutdown, BrokerHeartbeatManager.calculateNextBrokerState)."""
    stopped = {s.broker for s in steps if s.kind == STOP}
    doubtful = sorted({s.broker for s in steps if s.kind == START and s.broker not in stopped} - {*clean})
    either = (False, True)
    ways = (
        product(either, repeat=len(doubtful))
        if len(doubtful) <= MOST_DOUBTFUL
        else ((way,) * len(doubtful) for way in either)
    )
    found = [frozenset(b for b, is_unclean in zip(doubtful, way, strict=True) if is_unclean) for way in ways]
    return [Possibility(PROFILES[name], way) for name in bucket.profiles.at(_END) for way in found]


def after(now: Now, step: ClusterAction, branch: Possibility, configs: tuple[ConfigTimeline, ConfigTimeline]) -> Now:
    """The state when the controller has answered a step. configs: min.insync.replicas and
    unclean.leader.election.enable."""
    profile = branch.profile
    if step.kind == STOP:
        if step.broker not in now.active:
            return now
        gone = replace(now, active=now.active - {step.broker})
        return _event(gone, CONTROLLED_SHUTDOWN, step.broker, profile)
    if step.kind == START:
        if step.broker in now.active:
            return now
        is_unclean = step.broker in branch.unclean
        back = _event(now, UNCLEAN_RESTART if is_unclean else CLEAN_RESTART, step.broker, profile)
        back = replace(back, cut=back.cut | {step.broker} if is_unclean else back.cut)
        return _event(replace(back, active=now.active | {step.broker}), UNFENCE, step.broker, profile)
    if step.kind == ELECT:
        mine = (now.topic == step.topic) & (now.names["partition"].to_numpy() == step.partition)
        cases, led = _cases(now), now.cases.leader >= 0
        first = mine & led & (cases.replicas[:, 0] == step.broker)
        now = _apply(now, with_election(cases, ELECT_PREFERRED), first, profile)
        return _apply(now, with_election(cases, ELECT_UNCLEAN), mine & ~led, profile)
    return _set(now, step, profile, *configs)


def _set(now: Now, step: ClusterAction, profile: Profile, min_isr: ConfigTimeline, unclean: ConfigTimeline) -> Now:
    timeline = min_isr if step.key == MIN_ISR else unclean
    own = {topic: values[-1] for topic, (_, values) in timeline.topics.items() if values[-1] is not None}
    if step.topic is None:
        is_hidden = timeline.cluster.values[-1][1] == "broker"
        mine = ~np.isin(now.topic, list(own)) & (not is_hidden)
    else:
        mine = now.topic == step.topic
    if step.key == UNCLEAN_LEADER_ELECTION:
        now = replace(now, allowed=np.where(mine, step.value == "true", now.allowed))
        # Each unclean.leader.election.interval.ms the controller looks at partitions without a leader.
        cases = _cases(now)
        return _apply(now, with_election(cases, ELECT_UNCLEAN), (cases.leader < 0) & now.allowed & mine, profile)
    cases, value = now.cases, np.minimum(now.most_min_isr, int(step.value))
    # A topic's value that stays the same makes no record; the default of all brokers always does.
    written = step.topic is None or own.get(step.topic) != step.value
    cleared = (mine | (step.topic is None)) & cases.elr_enabled & written
    lists = {
        name: where(cleared, empty(getattr(cases, name)), getattr(cases, name)) for name in ("elr", "last_known_elr")
    }
    return replace(now, cases=replace(cases, min_isr=np.where(mine, value, cases.min_isr), **lists))


def in_sync(now: Now, profile: Profile) -> Now:
    """The state once every active replica has caught up and its leader has reported that."""
    cases = _cases(now)
    isr = join(cases.isr, keep(cases.replicas, is_in(cases.replicas, cases.acceptable)))
    inputs = replace(cases, target_isr=isr, target_recovery=np.full(len(cases.leader), RECOVERED))
    return replace(_apply(now, inputs, cases.leader >= 0, profile), cut=frozenset())


def _cases(now: Now) -> Cases:
    """The partitions as input of PartitionChangeBuilder that requests nothing."""
    cases = now.cases
    may_lead = is_in(cases.replicas, now.online) & np.isin(cases.replicas, list(now.active))
    return replace(
        cases,
        election=np.where(now.allowed, ELECT_UNCLEAN, ELECT_ONLINE),
        acceptable=keep(cases.replicas, may_lead),
        target_isr=cases.isr,
        target_replicas=cases.replicas,
        target_removing=cases.removing,
        target_adding=cases.adding,
        target_recovery=cases.recovery,
    )


def _event(now: Now, trigger: str, broker: int, profile: Profile) -> Now:
    return _apply(now, *of_broker(trigger, _cases(now), np.full(len(now.names), broker)), profile)


def _apply(now: Now, inputs: Cases, concerned: Array, profile: Profile) -> Now:
    """The partitions after the controller's answer where they are concerned."""
    if not concerned.any():
        return now
    state = state_after(inputs, predict(inputs, profile))
    names = (*LISTS, "leader", "recovery")
    kept = {name: where(concerned, getattr(state, name), getattr(now.cases, name)) for name in names}
    passed_over = where(kept["leader"] < 0, now.passed_over, empty(now.passed_over))
    return replace(now, cases=replace(now.cases, **kept), passed_over=passed_over)


def effects(before: Now, then: Now, step: ClusterAction) -> list[list[str]]:
    """What is worse for each partition after a step: keys of EFFECTS."""
    was, now = before.cases, then.cases
    moved = (now.leader >= 0) & (now.leader != was.leader)
    marked = (now.recovery == RECOVERING) & (was.recovery != RECOVERING)
    clean = (has(was.isr, now.leader) | has(was.elr, now.leader)) & ~marked
    waits = (now.leader < 0) & (size(was.last_known_elr) > 0) & (size(now.last_known_elr) == 0)
    asked = (then.topic == step.topic) & (then.names["partition"].to_numpy() == step.partition)
    found = {
        LEADERLESS: (was.leader >= 0) & (now.leader < 0),
        UNCLEAN: moved & ~clean,
        REPLACED_DIRECTORY: moved & has(before.passed_over, now.leader),
        CUT_LOG: moved & clean & np.isin(now.leader, list(then.cut)),
        LAST_COPY: (before.copies > 0) & (then.copies == 0),
        RECOVERY_LOST: waits & (was.leader < 0),
        UNDER_MIN_ISR: then.under_min_isr & ~before.under_min_isr,
        NOT_ELECTED: asked & (now.leader != step.broker) & (step.kind == ELECT),
        ONE_LEFT: (before.copies > 1) & (then.copies == 1),
    }
    return [[name for name, mask in found.items() if mask[i]] for i in range(len(moved))]


def is_safe(found: Iterable[str]) -> bool:
    return set(found) <= {ONE_LEFT}


def rows_of(before: Now, then: Now, step: ClusterAction, condition: str | None) -> Iterator[Row]:
    """The partitions that a step changes: rows {step, condition: predicted only if this holds, null: in any case;
    topic_id, topic, partition, recorded_leader: before the step, leader: after it, -1: none; isr, elr: after it;
    effects: names of EFFECTS; loss_max: acknowledged offsets that the step itself loses at most}. loss_max is 0 where
    nobody leads or the leader is of ISR or ELR, with its own directory, else null: a caller that knows log ends may
    bound it."""
    found, was, now = effects(before, then, step), before.cases, then.cases
    same = (was.leader == now.leader) & same_set(was.isr, now.isr) & same_set(was.elr, now.elr)
    rows = np.flatnonzero(~same | np.array([bool(f) for f in found], dtype=bool))
    names = before.names.select([f.name for f in PARTITION]).take(pa.array(rows)).to_pylist()
    for row, name in zip(rows.tolist(), names, strict=True):
        yield {
            "step": str(step),
            "condition": condition,
            **name,
            "recorded_leader": int(was.leader[row]),
            "leader": int(now.leader[row]),
            "isr": sorted(members_of(now.isr[row])),
            "elr": sorted(members_of(now.elr[row])),
            "effects": found[row],
            "loss_max": 0 if _LOSES.isdisjoint(found[row]) else None,
        }


def loss_bound(
    evidence: Evidence, brokers: BrokerTimeline, holder: int, winner: int, since_ms: int, clock: Clock
) -> int | None:
    """The most acknowledged offsets that an election loses if a broker leads that was in neither ISR nor ELR; None: no
    bound.

    holder: the last leader, which stopped cleanly, so that its log end was never below the high watermark. Both log
    ends must have been read after since_ms, when nobody led any more, with the same last epoch: then one log is the
    beginning of the other (KIP-101). A holder that registered anew meanwhile may have stopped uncleanly before.
    """
    if any(state.timestamp_ms > since_ms for state in brokers.restarts(holder, -1)):
        return None
    ends = [last_seen_with_epoch(evidence, broker, _END, clock) for broker in (holder, winner)]
    if any(end is None or not clock.surely_after(end.row, since_ms) for end in ends):
        return None
    last, other = (end for end in ends if end is not None)
    epoch = last.last_written_leader_epoch
    if epoch is None or epoch != other.last_written_leader_epoch:
        return None
    return max(0, last.log_end_offset - other.log_end_offset)


def restart_order(
    nows: Sequence[tuple[Now, Possibility]],
    brokers: Sequence[int],
    last: int,
    configs: tuple[ConfigTimeline, ConfigTimeline],
) -> tuple[list[int], dict[int, list[Row]]]:
    """(brokers in an order in which each can be restarted safely, for each other one what its stop would do).

    Each is back in sync before the next one stops; those that are down are started first. brokers: all; last: one that
    should come last if it can, the active controller. Safe means: in every branch.
    """
    order: list[int] = []
    left = sorted(brokers, key=lambda broker: (broker in nows[0][0].active, broker == last, broker))
    states = list(nows)
    while left:
        why: dict[int, list[Row]] = {}
        for broker in left:
            following, worse = [], []
            for now, branch in states:
                then = now
                for step in (ClusterAction(STOP, broker), ClusterAction(START, broker)):
                    before, then = then, after(then, step, branch, configs)
                    worse += [r for r in rows_of(before, then, step, None) if not is_safe(r["effects"])]
                following.append((in_sync(then, branch.profile), branch))
            if not worse:
                order.append(broker)
                left.remove(broker)
                states = following
                break
            why[broker] = worse
        else:
            return order, why
    return order, {}
