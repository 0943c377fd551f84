"""What recorded history says about partitions, in arrays for a whole bucket: who led, since when, who held the high
watermark by protocol, and where it stood still.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX, Array, to_lengths
from replay.cluster.configs import ElectionConfigs
from replay.cluster.facts import ClusterFacts
from replay.cluster.features import ELR_VERSION
from replay.partitions.effective_configs import config_points
from replay.partitions.elections import States, leader_changes, previous_leaders

# Layers of a config that every broker sees alike.
_SHARED = ("topic", "cluster")


@dataclass(frozen=True, slots=True)
class StateFacts:
    """Arrays beside `States`, one element a row; every one looks only within the row's stretch of known states.

    batch: base offset of the row's batch. stretch: first row of the stretch. anchored: the row is a snapshot's.
    changes: the leader epoch was raised. until_ms: when the row's leader epoch ended, or the last time at which it is
    known to have lasted; closed: it ended, by a row that is known. led: the last row up to this one with a leader, -1
    if none; reign: since which row that leader has led without a break. lowest_min_isr, highest_min_isr: of the
    effective min ISR in the row's life; below: for all the row's life |ISR| < min ISR, on every broker, whatever the
    configs were. frozen: since which row that is so without a break; the row's own number + 1 if it is not. elr_on: the
    ELR feature was on for all the row's life. marked: the row newly marks the leader RECOVERING.
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
    reign: Array
    lowest_min_isr: Array
    highest_min_isr: Array
    below: Array
    frozen: Array
    elr_on: Array
    marked: Array


def facts_of(history: pa.Table, states: States, cluster: ClusterFacts) -> StateFacts:
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
    lowest, highest = _min_isr_range(history, states, cluster.configs)
    below = _below_min_isr(history, states, lowest)
    frozen = np.maximum.accumulate(np.where(below, -1, index)) + 1
    until_ms, closed = _until(states, changes, timestamp_ms, cluster)
    return StateFacts(
        offset=history["offset"].to_numpy(),
        batch=history["batch_base_offset"].to_numpy(),
        timestamp_ms=timestamp_ms,
        stretch=stretch,
        anchored=history["origin"].to_numpy(zero_copy_only=False) == "checkpoint",
        changes=changes,
        until_ms=until_ms,
        closed=closed,
        previous_leader=previous_leaders(states),
        led=led,
        reign=np.where(led >= 0, reign[np.maximum(led, 0)], -1),
        lowest_min_isr=lowest,
        highest_min_isr=highest,
        below=below,
        frozen=np.maximum(frozen, stretch),
        elr_on=_elr_on(history, cluster),
        marked=states.marked,
    )


def _until(states: States, changes: Array, timestamp_ms: Array, cluster: ClusterFacts) -> tuple[Array, Array]:
    count = len(changes)
    if not count:
        return timestamp_ms, changes
    # The next row that ends a leader epoch, begins a stretch (its predecessor is the last known), or is another
    # partition.
    stops = changes | states.removed | states.begins
    following = np.append(np.minimum.accumulate(np.where(stops, np.arange(count), count)[::-1])[::-1][1:], count)
    last = np.append(states.key, -1)[following] != states.key
    gap = np.append(states.begins, True)[following] & ~last
    at = np.minimum(np.where(gap, following - 1, following), count - 1)
    return np.where(last, cluster.end_ms(timestamp_ms), timestamp_ms[at]), ~last & ~gap


def _min_isr_range(history: pa.Table, states: States, context: ElectionConfigs | None) -> tuple[Array, Array]:
    """(lowest, highest) in each row's life: a config change makes no row of its own unless it clears an ELR."""
    if context is None or not len(history):
        return states.min_isr, states.min_isr
    points = config_points(history, context)
    first = np.searchsorted(points.row, np.arange(len(history)), side="left")
    lowest = np.minimum(states.min_isr, np.minimum.reduceat(points.min_isr, first))
    return lowest, np.maximum(states.min_isr, np.maximum.reduceat(points.min_isr, first))


def _below_min_isr(history: pa.Table, states: States, lowest: Array) -> Array:
    """Rows for whose whole life the high watermark cannot advance on any broker that waits for min ISR.

    A leader uses its own replica count and its own configs, so only values that all brokers share count, and the
    lowest that was in force at any time of the row's life (Kafka's Partition.effectiveMinIsr).
    """
    source = history["min_isr_source"].to_numpy(zero_copy_only=False)
    shared = np.isin(source.astype(str), _SHARED)
    replicas = to_lengths(history["replicas"])
    below: Array = shared & ~states.removed & (states.isr_size < np.minimum(lowest, replicas))
    if len(below):
        at_end = np.append(states.min_isr[1:], 0)
        shared_at_end = np.append(shared[1:], False) & ~np.append(states.begins[1:], True)
        below &= shared_at_end & (states.isr_size < at_end)
    return below


def _elr_on(history: pa.Table, cluster: ClusterFacts) -> Array:
    """Rows for whose whole life the ELR feature was on."""
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
