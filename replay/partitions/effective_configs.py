"""The effective values of the two configs that elections depend on, over the whole history.

They may also change where the partition itself does not: with a config, the active controller or partition 0.

Sources: Kafka's ReplicationControlManager.getTopicEffectiveMinIsr (the cap by partition 0's replicas) and
KafkaConfigSchema.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.asof import Events
from replay.arrow.ragged import INT64_MAX, Array, to_lengths
from replay.arrow.runs import run_starts
from replay.cluster.configs import ElectionConfigs
from replay.partitions.partition_zero import PartitionZero


@dataclass(frozen=True, slots=True)
class Points:
    """Where a state or one of its two effective configs begins, in the order of the history, then of offsets.

    row: number of the history row with the state. offset: metadata offset from which this applies. min_isr (int64) and
    unclean (bool): effective from there on.
    """

    row: Array
    offset: Array
    min_isr: Array
    unclean: Array


def config_points(history: pa.Table, context: ElectionConfigs) -> Points:
    """A point for each row of `history`, and for each offset inside a row's validity where its configs may change.

    history: schemas.PARTITION_HISTORY of whole topics.
    """
    encoded = history["topic_id"].combine_chunks().dictionary_encode()
    topics = [context.topic_names.get(i) or "" for i in encoded.dictionary.to_pylist()]
    topic = encoded.indices.to_numpy().astype(np.int64)
    partition, start = history["partition"].to_numpy(), history["offset"].to_numpy()
    end = pc.fill_null(history["end_offset"], INT64_MAX).to_numpy()
    alive = ~history["removed"].to_numpy(zero_copy_only=False).astype(bool)
    count = to_lengths(history["replicas"])
    found = [
        context.min_isr.changes(topics),
        context.unclean.changes(topics),
        _resized(topic, partition, start, count, alive),
    ]
    events = np.unique([np.concatenate([f[side] for f in found]) for side in (0, 1)], axis=1)
    which, inside = Events(events[0], events[1]).between(topic[alive], start[alive], end[alive])
    row = np.concatenate([np.arange(len(start)), np.flatnonzero(alive)[which]])
    offset = np.concatenate([start, inside])
    if len(inside):
        order = np.lexsort((offset, row))
        row, offset = row[order], offset[order]
    cap = PartitionZero(len(topics), topic, partition, start, count, alive).replicas(topic[row], offset, count[row])
    min_isr = np.minimum(context.min_isr.resolve(topics, topic[row], offset).ints(), cap)
    return Points(row, offset, min_isr, context.unclean.resolve(topics, topic[row], offset).bools())


def _resized(topic: Array, partition: Array, offset: Array, count: Array, alive: Array) -> tuple[Array, Array]:
    """(topic, offset) where partition 0's number of replicas changes."""
    zero = np.flatnonzero((partition == 0) & alive)
    zero = zero[np.lexsort((offset[zero], topic[zero]))]
    zero = zero[run_starts(topic[zero], count[zero])]
    return topic[zero], offset[zero]
