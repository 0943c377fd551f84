"""The steps of a simulation: every broker event and every request that concerns a partition, in offset order.

A request (of a leader, an administrator, the controller's own timer) is known from the change that it made. A broker's
event concerns every partition that the broker holds, whether or not it changed anything in the recorded history.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX, Array, to_lengths
from replay.arrow.runs import Events, ranges
from replay.arrow.sets import joined, take
from replay.cluster import broker_events as events
from replay.cluster.broker_events import BEFORE_CHANGES
from replay.controller import triggers
from replay.controller.predictions import Compared
from replay.controller.transitions import Bucket
from replay.partitions.elections import States

CLEAR_ELR = "clear_elr"
_REQUESTS = (
    *(triggers.ALTER_PARTITION, triggers.DIRECTORY_ASSIGNMENT, triggers.REASSIGNMENT, triggers.CANCELLED_REASSIGNMENT),
    *(triggers.PREFERRED_ELECTION, triggers.UNCLEAN_ELECTION),
)
_NOBODY = -1


@dataclass(frozen=True, slots=True)
class Subjects:
    """The stretches of known states to simulate: at least one, ascending, as row numbers of the history. The state with
    which one ends may be that with which the next one begins.

    start: the state to begin with; last: the last recorded state in the range; until: metadata offset where the stretch
    ends. stops: it ends with `last`, after which nothing is known or the partition is gone. to_offset: of the range.
    """

    start: Array
    last: Array
    until: Array
    stops: Array
    to_offset: int

    def of(self, rows: Array) -> Array:
        """The subject that contains each row, of two the later one; -1 for rows in none."""
        at = np.searchsorted(self.start, rows, side="right") - 1
        return np.where((at >= 0) & (rows <= self.last[np.maximum(at, 0)]), at, -1)


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps, sorted by subject and offset.

    batch: base offset of the record's batch. trigger: of replay.controller.triggers, or CLEAR_ELR. broker: of the
    event, else -1. at: broker states before this offset apply. row: of the history, where only a change shows the
    trigger, else -1.
    """

    subject: Array
    offset: Array
    batch: Array
    timestamp_ms: Array
    trigger: Array
    broker: Array
    at: Array
    row: Array


def subjects_of(history: pa.Table, states: States, from_offset: int, to_offset: int) -> Subjects | None:
    """Every stretch with a known state in a range of metadata offsets, both ends included; a batch counts as a whole.

    history: from `schemas.sorted_history`. None if there is no such stretch.
    """
    offset, batch = history["offset"].to_numpy(), history["batch_base_offset"].to_numpy()
    begin = np.flatnonzero(states.begins)
    if not len(begin):
        return None
    first = begin + np.maximum(np.add.reduceat(batch <= from_offset, begin) - 1, 0)
    last = begin + np.add.reduceat(batch <= to_offset, begin) - 1
    end = pc.fill_null(history["end_offset"], INT64_MAX).to_numpy()
    # A state that ended before the range begins, with nothing after it, is not in the range.
    kept = (last >= first) & ~states.removed[first] & (end[first] > from_offset)
    kept |= (last > first) & ~states.removed[first]
    if not kept.any():
        return None
    goes_on = last + 1 < np.append(begin[1:], len(offset))
    until = np.where(states.removed[last], offset[last], np.where(goes_on, INT64_MAX, end[last]))
    return Subjects(first[kept], last[kept], until[kept], (until <= to_offset)[kept], to_offset)


def steps_of(bucket: Bucket, compared: Compared, subjects: Subjects, rebalanced: Sequence[int] = ()) -> Steps:
    """All steps of the subjects. compared: all changes of the bucket. rebalanced: offsets at which preferred leaders
    are to be elected."""
    steps = joined(
        [
            _requests(bucket, compared, subjects),
            _broker_steps(bucket, subjects),
            _cleared(bucket, subjects),
            _rebalances(bucket.history, subjects, rebalanced),
        ]
    )
    return take(steps, np.lexsort((steps.offset, steps.subject)))


def _requests(bucket: Bucket, compared: Compared, subjects: Subjects) -> Steps:
    history, (subject, inside) = bucket.history, ranges(subjects.start + 1, subjects.last - subjects.start)
    at = np.searchsorted(compared.rows, inside)
    known = np.append(compared.rows, -1)[at] == inside
    subject, rows, trigger = subject[known], inside[known], compared.trigger(at[known])
    # A change that nothing explains is assumed to be its leader's request.
    trigger[trigger == np.array(None)] = triggers.ALTER_PARTITION
    asked = np.isin(trigger.astype(str), _REQUESTS)
    subject, rows, trigger = (values[asked] for values in (subject, rows, trigger))
    columns = ("offset", "batch_base_offset", "timestamp_ms")
    offset, batch, timestamp_ms = (history[name].to_numpy()[rows] for name in columns)
    return Steps(subject, offset, batch, timestamp_ms, trigger, np.full(len(rows), _NOBODY), offset, rows)


def _broker_steps(bucket: Bucket, subjects: Subjects) -> Steps:
    history, unclean_restarts = bucket.history, bucket.facts.unclean_restarts
    timeline = bucket.facts.broker_events
    times = {state.offset: state.timestamp_ms for state in bucket.facts.brokers.all_states}
    subject, inside = ranges(subjects.start, subjects.last - subjects.start + 1)
    replicas = history["replicas"].take(pa.array(inside)).combine_chunks()
    owner = np.repeat(subject, to_lengths(replicas))
    pairs = np.unique(np.stack([pc.list_flatten(replicas).to_numpy().astype(np.int64), owner]), axis=1)
    wanted = np.flatnonzero(timeline.kind != events.OTHER)
    of_broker = Events(timeline.broker[wanted], timeline.offset[wanted])
    begin = history["offset"].to_numpy()[subjects.start]
    which, found = of_broker.between(pairs[0], begin[pairs[1]], subjects.until[pairs[1]])
    event, owner = wanted[found], pairs[1][which]
    kept = timeline.batch[event] <= subjects.to_offset
    event, owner = event[kept], owner[kept]
    offset = timeline.offset[event]
    kind = timeline.kind[event]
    restart = kind == events.REGISTRATION
    kind[restart] = np.where(
        np.isin(offset[restart], unclean_restarts), triggers.UNCLEAN_RESTART, triggers.CLEAN_RESTART
    )
    timestamp_ms = np.array([times[o] for o in offset.tolist()], dtype=np.int64)
    at = offset + np.isin(kind.astype(str), BEFORE_CHANGES)
    no_row = np.full(len(event), -1)
    return Steps(owner, offset, timeline.batch[event], timestamp_ms, kind, timeline.broker[event], at, no_row)


def _cleared(bucket: Bucket, subjects: Subjects) -> Steps:
    begin = bucket.history.select(["topic_id", "offset"]).take(pa.array(subjects.start))
    topic = begin["topic_id"].combine_chunks().dictionary_encode()
    cleared = bucket.facts.topic_events.filter(pc.invert(bucket.facts.topic_events["removes"]))
    cleared = cleared.filter(pc.is_in(cleared["topic_id"], topic.dictionary))
    of_topic = pc.index_in(cleared["topic_id"], topic.dictionary).to_numpy().astype(np.int64)
    at, timestamp_ms, batch = (cleared[n].to_numpy() for n in ("offset", "timestamp_ms", "batch_base_offset"))
    numbers = topic.indices.to_numpy().astype(np.int64)
    subject, found = Events(of_topic, at).between(numbers, begin["offset"].to_numpy(), subjects.until)
    subject, found = (values[batch[found] <= subjects.to_offset] for values in (subject, found))
    none, trigger = np.full(len(found), -1), np.full(len(found), CLEAR_ELR, dtype=object)
    return Steps(subject, at[found], batch[found], timestamp_ms[found], trigger, none, at[found], none)


def _rebalances(history: pa.Table, subjects: Subjects, offsets: Sequence[int]) -> Steps:
    """A preferred election at each offset within a subject; for an offset before it, at the subject's start."""
    begin, begin_ms = (history[name].to_numpy()[subjects.start] for name in ("offset", "timestamp_ms"))
    wanted = np.array(offsets, dtype=np.int64)
    subject = np.repeat(np.arange(len(begin)), len(wanted))
    offset = np.maximum(np.tile(wanted, len(begin)), begin[subject])
    kept = (offset < subjects.until[subject]) & (offset <= subjects.to_offset)
    subject, offset = subject[kept], offset[kept]
    none, trigger = np.full(len(subject), -1), np.full(len(subject), triggers.PREFERRED_ELECTION, dtype=object)
    return Steps(subject, offset, offset, begin_ms[subject], trigger, none, offset + 1, none)
