"""Facts of the recorded history of a bucket's partitions, as arrays: who led and since when, who held the high
watermark by protocol, and where it did not advance.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX, Array, bools, sort_order, to_lengths
from replay.arrow.runs import Events, last_true, last_true_before, next_true, run_starts
from replay.cluster.configs import LAYERS
from replay.cluster.facts import ClusterFacts
from replay.cluster.features import ELR_VERSION
from replay.controller.transitions import Bucket
from replay.partitions.elections import States, leader_changes
from replay.terms.liveness import Sessions

# Whose min.insync.replicas is in force: the topic's, the cluster's default, what each node's file says, or unknown
# because a broker may have had a value of its own, or the layer changed.
TOPIC, CLUSTER, FILE, UNKNOWN = range(4)
_LAYER = dict(zip(LAYERS, (TOPIC, UNKNOWN, CLUSTER, FILE, FILE, FILE), strict=True))


@dataclass(frozen=True, slots=True)
class StateFacts:
    """Arrays parallel to `States`, one element per row; each considers only the row's stretch of known states.

    batch: base offset of the row's batch. stretch: first row of the stretch. anchored: the row is a snapshot's, or the
    first of a partition that came from ZooKeeper.
    changes: the row raised the leader epoch. until_ms: when the row's leader epoch ended, or the last time at which it
    is known to have lasted; closed: it ended with a known row. led: the last row up to this one with a leader, -1 if
    none; term_start: the row since which that leader has led without a break. lowest_min_isr, highest_min_isr: of the
    effective min ISR while the row was in force, by the leader's cap for the highest; layer: of the config that sets it
    all that time. shared: it is one that all brokers share.
    below: |ISR| < min ISR all the while the row was in force, on every broker, whatever the configs were. frozen: the
    row since which `below` holds without a break; the row's own number + 1 if it does not. elr_on: the ELR feature was
    on all the while the row was in force. marked: the row newly marks the leader RECOVERING.
    """

    offset: Array
    batch: Array
    timestamp_ms: Array
    stretch: Array
    anchored: Array
    changes: Array
    until_ms: Array
    closed: Array
    previous_leader: Array
    led: Array
    term_start: Array
    lowest_min_isr: Array
    highest_min_isr: Array
    layer: Array
    shared: Array
    below: Array
    frozen: Array
    elr_on: Array
    marked: Array

    def is_one_layer(self, rows: Array | slice) -> bool:
        """Whether in all these rows one layer set min ISR, and so for the leader if its value did not change."""
        layers = set(self.layer[rows].tolist())
        return len(layers) <= 1 and UNKNOWN not in layers


def facts_of(bucket: Bucket) -> StateFacts:
    """The facts of a bucket."""
    history, states, cluster = bucket.history, bucket.states, bucket.facts
    timestamp_ms, stretch = history["timestamp_ms"].to_numpy(), last_true(states.begins)
    changes = np.zeros(len(states.key), dtype=bool)
    changes[leader_changes(states)] = True
    led = last_true(states.leader >= 0)
    led = np.where(led >= stretch, led, -1)
    term_start = last_true(run_starts(states.leader) | states.begins)
    lowest, highest, layer = _min_isr(bucket)
    shared = np.isin(layer, (TOPIC, CLUSTER))
    below = _below_min_isr(history, states, lowest, shared)
    frozen = last_true(~below) + 1
    until_ms, closed = _until(states, changes, timestamp_ms, cluster)
    return StateFacts(
        offset=history["offset"].to_numpy(),
        batch=history["batch_base_offset"].to_numpy(),
        timestamp_ms=timestamp_ms,
        stretch=stretch,
        anchored=bools(pc.equal(history["origin"], "checkpoint")) | _is_imported(history, states),
        changes=changes,
        until_ms=until_ms,
        closed=closed,
        previous_leader=states.previous_leader,
        led=led,
        term_start=np.where(led >= 0, term_start[np.maximum(led, 0)], -1),
        lowest_min_isr=lowest,
        highest_min_isr=highest,
        layer=layer,
        shared=shared,
        below=below,
        frozen=np.maximum(frozen, stretch),
        elr_on=_elr_on(history, cluster),
        marked=states.marked,
    )


def _is_imported(history: pa.Table, states: States) -> Array:
    """Partitions' first rows that do not show their creation: a migration from ZooKeeper records what there is, with
    the epochs that it has (KIP-866, ZkTopicMigrationClient, 3.9.1). Kafka creates a partition with epochs of 0."""
    epoch = pc.fill_null(history["partition_epoch"], 0).to_numpy()
    result: Array = run_starts(states.key) & ~states.removed & ((states.leader_epoch > 0) | (epoch > 0))
    return result


def after_old_log_ends(
    states: States, facts: StateFacts, cluster: ClusterFacts, sessions: Sessions, noted: Array
) -> Array:
    """Rows, in a stretch of known states, after a leader epoch whose leader had led before with another one in between,
    and had not registered since: worth judging, no verdict (`LeaderTerms.counts_old_log_ends`).

    noted (bool): anything but the log is known of the row's partition. In other rows only the log can show that an
    election lost records, so those are left out for which it does not (`_may_lack_acknowledged`).
    """
    result = np.zeros(len(states.key), dtype=bool)
    rows = np.flatnonzero(facts.changes & (states.leader >= 0))
    back = rows[(states.previous_leader[rows] >= 0) & (states.previous_leader[rows] != states.leader[rows])]
    if not len(back):
        return result
    # The last row of the same leader in the same stretch before each; -1 if there is none.
    led = np.flatnonzero((states.leader >= 0) & ~states.removed)
    order = led[sort_order(facts.stretch[led], states.leader[led])]
    place = np.empty(len(states.key), dtype=np.int64)
    place[order] = np.arange(len(order))
    earlier = order[np.maximum(place[back] - 1, 0)]
    same = (earlier < back) & (facts.stretch[earlier] == facts.stretch[back])
    same &= states.leader[earlier] == states.leader[back]
    earlier = np.where(same, earlier, -1)
    begun = [(s.broker_id, s.batch_base_offset) for s in cluster.brokers.new_incarnations]
    events = Events(*np.array(begun, dtype=np.int64).reshape(-1, 2).T)
    registered = events.up_to(states.leader[back], facts.batch[back])
    registered = registered != events.up_to(states.leader[back], facts.batch[earlier + 1] - 1)
    result[back[same & ~registered]] = True
    # Every later election of the stretch that outlasts its own batch.
    brief = np.append((states.key[1:] == states.key[:-1]) & (facts.batch[1:] == facts.batch[:-1]), False)
    later: Array = (last_true_before(result) >= facts.stretch) & ~brief
    unknown = np.flatnonzero(later & ~noted & (states.leader >= 0))
    if len(unknown):
        later[unknown] = _may_lack_acknowledged(states, facts, sessions, unknown, (back, earlier))
    return later


def after_restarts(states: States, facts: StateFacts, sessions: Sessions, settled_ms: int) -> Array:
    """Elections of a member of the ISR that had registered anew as one, less than settled_ms before. Without ELR 3.9.1
    leaves it there, whatever its log lost (ReplicationControlManager.handleBrokerUncleanShutdown); its leader does
    not, for long."""
    result = np.zeros(len(states.key), dtype=bool)
    rows = np.flatnonzero(facts.changes & (states.leader >= 0))
    leader, before = states.leader[rows], rows - 1
    joined = _since(states, facts, states.isr, before, leader)
    since = np.minimum(joined, before)
    now, then = (sessions.numbers_at(leader, facts.batch[at]) for at in (rows, since))
    anew = (joined <= before) & (now != then) & (now >= 0) & (then >= 0) & ~(facts.elr_on[since] & facts.elr_on[before])
    begun_ms = np.array([*(s.begin_ms for own in sessions.by_broker.values() for s in own), 0], dtype=np.int64)
    result[rows[anew & (facts.timestamp_ms[rows] - begun_ms[now] < settled_ms)]] = True
    return result


def from_elr(states: States, facts: StateFacts) -> Array:
    """Elections of a member of the ELR while somebody led: it lacks what a leader with a min ISR of its own has
    committed alone."""
    rows, result = np.flatnonzero(facts.changes & (states.leader >= 0)), np.zeros(len(states.key), dtype=bool)
    before = rows - 1
    own = states.replicas.T.take(before, axis=1) == states.leader[rows]
    in_isr, in_elr = ((own & of.T.take(before, axis=1)).any(axis=0) for of in (states.isr, states.elr))
    result[rows] = (states.leader[before] >= 0) & in_elr & ~in_isr
    return result


def _may_lack_acknowledged(
    states: States, facts: StateFacts, sessions: Sessions, rows: Array, again: tuple[Array, Array]
) -> Array:
    """False where no leader since the row's own one joined can have counted on old log ends, as far as the log shows
    it: `LeaderTerms.counts_old_log_ends` finds none. Where the replicas changed, true.

    again: rows with a leader other than the one before, and the last row that this leader led before; -1: none.
    """
    back, earlier = again
    leader, led = states.leader[back], earlier >= 0
    now, then = (sessions.numbers_at(leader, at) for at in (facts.batch[back], facts.batch[earlier + 1] - 1))
    joined = np.minimum(_since(states, facts, states.isr, back - 1, leader), back)
    rejoined = (joined > earlier + 1) & (joined < back) & (states.leader[joined] >= 0)
    anew = np.where(led, (now >= 0) & (then >= 0) & ((now != then) | rejoined), ~facts.anchored[facts.stretch[back]])
    counts = np.zeros(len(states.key), dtype=bool)
    counts[back[~anew]] = True
    before = last_true(run_starts(states.key, facts.batch))[rows] - 1
    joined = _since(states, facts, states.holders, before, states.leader[rows])
    may: Array = (before >= facts.stretch[rows]) & (joined <= before) & (joined < last_true_before(counts)[rows])
    return may


def _since(states: States, facts: StateFacts, members: Array, rows: Array, brokers: Array) -> Array:
    """Since which row of the stretch each broker has been a member, up to `rows`; after these if it is none. The first
    row of the stretch if the replicas have changed since. members: which replicas of each row are (bool)."""
    replicas, first = states.replicas.T, facts.stretch[rows]
    since = np.maximum([last_true(~of_place)[rows] + 1 for of_place in members.T], first)
    since = np.where(since > last_true(run_starts(*replicas))[rows], since, first)
    found: Array = np.where(replicas.take(rows, axis=1) == brokers, since, INT64_MAX).min(axis=0)
    return found


def _until(states: States, changes: Array, timestamp_ms: Array, cluster: ClusterFacts) -> tuple[Array, Array]:
    """(until_ms, closed) of StateFacts."""
    count = len(changes)
    if not count:
        return timestamp_ms, changes
    # The next row that ends a leader epoch, begins a stretch (the row before it is the last known one) or is of another
    # partition.
    stops = changes | states.removed | states.begins
    following = np.append(next_true(stops)[1:], count)
    last = np.append(states.key, -1)[following] != states.key
    gap = np.append(states.begins, True)[following] & ~last
    at = np.minimum(np.where(gap, following - 1, following), count - 1)
    return np.where(last, cluster.end_ms(timestamp_ms), timestamp_ms[at]), ~last & ~gap


def _min_isr(bucket: Bucket) -> tuple[Array, Array, Array]:
    """(lowest, highest, layer) while each row was in force: a config change adds a row only if it clears an ELR.

    A leader caps the value at its own number of replicas, the controller at that of partition 0 (Kafka's
    Partition.effectiveMinIsr, ReplicationControlManager.getTopicEffectiveMinIsr). The layers below the topic's are the
    active controller's: they are the leader's, too, if no broker ever had a setting of its own, and all apply the
    cluster's. What is set for a topic is the leader's if it cannot have refused it.
    """
    history, states, cluster = bucket.history, bucket.states, bucket.facts
    found = pc.fill_null(pc.index_in(history["min_isr_source"], pa.array(LAYERS)), len(LAYERS))
    layer = np.array([*_LAYER.values(), UNKNOWN])[found.to_numpy()]
    if not cluster.shares_defaults:
        layer = np.where(layer == CLUSTER, UNKNOWN, layer)
    known = cluster.broker_min_isr.values()
    if any(source == "broker" for timeline in known for _, source in timeline.cluster.values):
        layer = np.where(layer == TOPIC, TOPIC, UNKNOWN)
    refused = pc.is_in(history["topic"], pa.array(sorted(cluster.refused_topics), pa.string()))
    layer = np.where(refused.to_numpy(), UNKNOWN, layer)
    if cluster.configs is None or not len(history):
        return states.min_isr, states.min_isr, layer
    points = bucket.config_points
    first = np.searchsorted(points.row, np.arange(len(history)), side="left")
    lowest = np.minimum(states.min_isr, np.minimum.reduceat(points.min_isr, first))
    own = np.minimum(points.configured, to_lengths(history["replicas"])[points.row])
    highest = np.maximum(states.min_isr, np.maximum.reduceat(own, first))
    steady = np.logical_and.reduceat(points.layer == points.layer[first][points.row], first)
    return lowest, highest, np.where(steady, layer, UNKNOWN)


def _below_min_isr(history: pa.Table, states: States, lowest: Array, shared: Array) -> Array:
    """Rows during which the high watermark cannot advance on any broker that waits for min ISR.

    A leader uses its own replica count and its own configs. So only values that all brokers share count, and of those
    the lowest that was in force at any time during the row (Kafka's Partition.effectiveMinIsr).
    """
    replicas = to_lengths(history["replicas"])
    below: Array = shared & ~states.removed & (states.isr_size < np.minimum(lowest, replicas))
    if len(below):
        at_end = np.append(states.min_isr[1:], 0)
        shared_at_end = np.append(shared[1:], False) & ~np.append(states.begins[1:], True)
        below &= shared_at_end & (states.isr_size < at_end)
    return below


def _elr_on(history: pa.Table, cluster: ClusterFacts) -> Array:
    """Rows during all of which the ELR feature was on."""
    offsets, levels = cluster.features.levels.get(ELR_VERSION, ([], []))
    last = dict(zip(offsets, levels, strict=True))
    switches = sorted(last)
    on = np.array([False, *(last[at] >= 1 for at in switches)], dtype=bool)
    offs = np.append(0, np.cumsum(~on))
    at = np.array(switches, dtype=np.int64)
    end = pc.fill_null(history["end_offset"], INT64_MAX).to_numpy()
    first = np.searchsorted(at, history["offset"].to_numpy(), side="right")
    last = np.maximum(first, np.searchsorted(at, end, side="left"))
    result: Array = offs[last + 1] == offs[first]
    return result
