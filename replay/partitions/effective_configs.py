"""The effective values of the two configs that elections depend on, over the whole history.

They may also change where the partition itself does not: with a config, the active controller or partition 0.

Sources: Kafka's ReplicationControlManager.getTopicEffectiveMinIsr (the cap by partition 0's replicas) and
KafkaConfigSchema.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX, Array, bools, to_lengths, whole
from replay.arrow.runs import Events, run_starts
from replay.cluster.configs import ElectionConfigs


class PartitionZero:
    """The partitions 0 of a history of whole topics.

    All arrays have one element per row of the history: topic (a number below topics), partition, metadata offset,
    count (of the row's own replicas); alive is false on rows of a removal.
    """

    def __init__(self, topics: int, topic: Array, partition: Array, offset: Array, count: Array, alive: Array) -> None:
        lowest, highest = np.full(topics, INT64_MAX), np.full(topics, -1)
        np.minimum.at(lowest, topic[alive], count[alive])
        np.maximum.at(highest, topic[alive], count[alive])
        # Most topics have as many replicas of every partition at any time.
        self._constant = np.where(lowest == highest, lowest, -1)
        self._zero = np.flatnonzero(partition == 0)
        self._events = Events(topic[self._zero], offset[self._zero])
        self._count, self._alive = count, alive

    def replicas(self, topic: Array, offset: Array, own: Array) -> Array:
        """How many replicas partition 0 of each topic had at an offset; `own` where that is unknown."""
        result = own.copy()
        other = np.flatnonzero(self._constant[topic] != own)
        if not len(other) or not len(self._zero):
            return result
        last = self._events.last(topic[other], offset[other])
        found = self._zero[np.maximum(last, 0)]
        result[other] = np.where((last >= 0) & self._alive[found], self._count[found], own[other])
        return result


@dataclass(frozen=True, slots=True)
class Points:
    """Where a state or one of its two effective configs begins, in the order of the history, then of offsets.

    row: number of the history row with the state. offset: metadata offset from which this applies. min_isr (int64) and
    unclean (bool): effective from there on, for the controller. configured: min.insync.replicas before the controller's
    cap (int64); layer: index into replay.cluster.configs.LAYERS.
    """

    row: Array
    offset: Array
    min_isr: Array
    unclean: Array
    configured: Array
    layer: Array


@dataclass(frozen=True, slots=True)
class ConfigKeys:
    """By what the configs of a history's rows are looked up. topics: names, "" if it is not known. topic: each row's
    index into `topics`. replica_count: of each row. zero: the partitions 0."""

    configs: ElectionConfigs
    topics: list[str]
    topic: Array
    replica_count: Array
    zero: PartitionZero


def config_keys(history: pa.Table, configs: ElectionConfigs) -> ConfigKeys:
    """history: schemas.PARTITION_HISTORY of whole topics."""
    encoded = whole(history["topic_id"]).dictionary_encode()
    topics = [configs.topic_names.get(i) or "" for i in encoded.dictionary.to_pylist()]
    topic, count = encoded.indices.to_numpy().astype(np.int64), to_lengths(history["replicas"])
    partition, offset = history["partition"].to_numpy(), history["offset"].to_numpy()
    zero = PartitionZero(len(topics), topic, partition, offset, count, ~bools(history["removed"]))
    return ConfigKeys(configs, topics, topic, count, zero)


def config_points(history: pa.Table, keys: ConfigKeys) -> Points:
    """A point for each row of `history`, and for each offset inside a row's validity where its configs may change.

    history: schemas.PARTITION_HISTORY of whole topics; keys: of the same.
    """
    context, topics, topic, count = keys.configs, keys.topics, keys.topic, keys.replica_count
    partition, start, alive = history["partition"].to_numpy(), history["offset"].to_numpy(), ~bools(history["removed"])
    end = pc.fill_null(history["end_offset"], INT64_MAX).to_numpy()
    found = [
        context.min_isr.changes(topics),
        context.unclean.changes(topics),
        _resized(topic, partition, start, count, alive),
    ]
    events = np.unique([np.concatenate([f[side] for f in found]) for side in (0, 1)], axis=1)
    which, inside = Events(*events).between(topic[alive], start[alive], end[alive])
    row = np.concatenate([np.arange(len(start)), np.flatnonzero(alive)[which]])
    offset = np.concatenate([start, events[1][inside]])
    if len(inside):
        order = np.lexsort((offset, row))
        row, offset = row[order], offset[order]
    cap = keys.zero.replicas(topic[row], offset, count[row])
    min_isr = context.min_isr.resolve(topics, topic[row], offset)
    unclean = context.unclean.resolve(topics, topic[row], offset).bools()
    configured = min_isr.ints()
    return Points(row, offset, np.minimum(configured, cap), unclean, configured, min_isr.layers())


def _resized(topic: Array, partition: Array, offset: Array, count: Array, alive: Array) -> tuple[Array, Array]:
    """(topic, offset) where partition 0's number of replicas changes."""
    zero = np.flatnonzero((partition == 0) & alive)
    zero = zero[np.lexsort((offset[zero], topic[zero]))]
    zero = zero[run_starts(topic[zero], count[zero])]
    return topic[zero], offset[zero]
