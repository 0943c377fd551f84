"""Broker records as arrays, to find the controller event that caused a partition change.

A controller writes a broker's registration change and the partition changes that follow from it as one event. The
partition changes come before it on fencing, unregistration, a new registration and failed directories, and after it on
unfencing and controlled shutdown. A batch may hold several events, so only the nearest broker record of the same batch
counts, or of the batches that an event of more than 10,000 records is split into.

Sources: Kafka's ReplicationControlManager (handleBrokerFenced, handleBrokerUnregistered, handleBrokerUnfenced,
handleBrokerInControlledShutdown, handleBrokerUncleanShutdown, handleDirectoriesOffline), QuorumController.appendRecords
(3.9.1 to 4.3.1); KIP-858, KIP-841.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from replay.arrow.ragged import Array
from replay.arrow.runs import last_true
from replay.cluster.brokers import BrokerState, BrokerTimeline

FENCE, CONTROLLED_SHUTDOWN, REGISTRATION = "fence", "controlled_shutdown", "registration"
UNREGISTER, UNFENCE, DIRECTORY_OFFLINE = "unregister", "unfence", "directory_offline"
OTHER = "other"
KINDS = (FENCE, CONTROLLED_SHUTDOWN, REGISTRATION, UNREGISTER, UNFENCE, DIRECTORY_OFFLINE, OTHER)
# The events whose record is written after the partition changes that they cause, and those written before.
AFTER_CHANGES = (FENCE, UNREGISTER, REGISTRATION, DIRECTORY_OFFLINE)
BEFORE_CHANGES = (CONTROLLED_SHUTDOWN, UNFENCE)

_NOBODY = -1
_MOST_RECORDS = 10_000  # of an event in one batch


@dataclass(frozen=True, slots=True)
class SplitEvents:
    """Base offsets of the batches that go on with an event, ascending, and of those in which that event began."""

    batch: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    begin: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def begin_of(self, batch: Array) -> Array:
        """The batch in which the event of each batch began; of one that goes on with none, itself."""
        at = np.searchsorted(self.batch, batch)
        goes_on = np.append(self.batch, _NOBODY)[at] == batch
        found: Array = np.where(goes_on, np.append(self.begin, _NOBODY)[at], batch)
        return found


def split_events(base: Array, last: Array, epoch: Array) -> SplitEvents:
    """The events that are split over batches (base and last offset, epoch; ascending): what follows a batch with the
    most records of an event may go on with it."""
    full = (last - base + 1 >= _MOST_RECORDS)[:-1] & (base[1:] == last[:-1] + 1) & (epoch[1:] == epoch[:-1])
    goes_on = np.append(False, full)[: len(base)]
    return SplitEvents(base[goes_on], base[last_true(~goes_on)[goes_on]])


@dataclass(frozen=True)
class BrokerEvents:
    """Broker records in offset order, one element each.

    kind: one of the names above. gone: ids of the directories that failed on a broker that stays registered. split: of
    the log.
    """

    offset: Array
    batch: Array
    broker: Array
    kind: Array
    gone: list[list[str]]
    split: SplitEvents

    @cached_property
    def kind_number(self) -> Array:
        """The kinds as indexes into KINDS."""
        numbers = {kind: number for number, kind in enumerate(KINDS)}
        return np.array([numbers[kind] for kind in self.kind.tolist()], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Nearest:
    """The nearest broker record of each change, in the same event: its index in BrokerEvents, kind (as an index into
    KINDS), broker and metadata offset. Without a record the index is undefined, the kind OTHER, the others -1."""

    index: Array
    kind_number: Array
    broker: Array
    offset: Array

    def are(self, *kinds: str) -> Array:
        """Which records are of these kinds."""
        return np.isin(self.kind_number, [KINDS.index(kind) for kind in kinds])

    @property
    def kind(self) -> Array:
        """The record's kind (str)."""
        return np.array(KINDS, dtype=object)[self.kind_number]


def broker_events(brokers: BrokerTimeline, split: SplitEvents) -> BrokerEvents:
    """The timeline's states as events. A record without an effect on partitions is OTHER."""
    steps = [(b, s) for states in brokers.states.values() for b, s in zip([None, *states], states, strict=False)]
    steps.sort(key=lambda step: step[1].offset)
    return BrokerEvents(
        offset=np.array([state.offset for _, state in steps], dtype=np.int64),
        batch=np.array([state.batch_base_offset for _, state in steps], dtype=np.int64),
        broker=np.array([state.broker_id for _, state in steps], dtype=np.int64),
        kind=np.array([_kind(before, state) for before, state in steps], dtype=object),
        gone=[_gone(before, state) for before, state in steps],
        split=split,
    )


def _kind(before: BrokerState | None, state: BrokerState) -> str:
    if state.incarnation_id is None:
        return UNREGISTER
    if before is None or before.incarnation_id != state.incarnation_id:
        return REGISTRATION
    if before.fenced != state.fenced:
        return FENCE if state.fenced else UNFENCE
    if state.in_controlled_shutdown and not before.in_controlled_shutdown:
        return CONTROLLED_SHUTDOWN
    # A fenced broker that stops is fenced once more (BrokerHeartbeatManager: from FENCED to SHUTDOWN_NOW).
    return DIRECTORY_OFFLINE if _gone(before, state) else FENCE if state.fenced else OTHER


def _gone(before: BrokerState | None, state: BrokerState) -> list[str]:
    if before is None or before.incarnation_id != state.incarnation_id:
        return []
    return sorted(set(before.log_dirs or ()) - set(state.log_dirs or before.log_dirs or ()))


def nearest(events: BrokerEvents, offset: Array, batch: Array) -> tuple[Nearest, Nearest]:
    """The nearest events after and before each change. offset, batch: int64, one element per change, which is none of
    the events."""
    begin_of, following = events.split.begin_of, np.searchsorted(events.offset, offset)
    begun, own, none = np.append(begin_of(events.batch), _NOBODY), begin_of(batch), len(events.offset)
    columns = ((events.kind_number, KINDS.index(OTHER)), (events.broker, _NOBODY), (events.offset, _NOBODY))
    padded = [np.append(values, missing) for values, missing in columns]
    places = ((index, np.where(begun[index] == own, index, none)) for index in (following, following - 1))
    after, before = (Nearest(index, *(values[place] for values in padded)) for index, place in places)
    return after, before


def went_offline(events: BrokerEvents, near: Nearest, directory: Array) -> Array:
    """True where the nearest event of a change is the failure of its `directory` (str)."""
    result = np.zeros(len(directory), dtype=bool)
    rows = np.flatnonzero(near.are(DIRECTORY_OFFLINE))
    for event in np.unique(near.index[rows]).tolist():
        mine = rows[near.index[rows] == event]
        result[mine] = np.isin(directory[mine].astype(str), events.gone[event])
    return result
