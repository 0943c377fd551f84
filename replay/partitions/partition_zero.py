"""The number of replicas of each topic's partition 0, which caps min.insync.replicas for all of its partitions.

Source: Kafka's ReplicationControlManager.getTopicEffectiveMinIsr.
"""

from __future__ import annotations

import numpy as np

from replay.arrow.asof import Events
from replay.arrow.ragged import INT64_MAX, Array


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
