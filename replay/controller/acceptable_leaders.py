"""Which brokers were acceptable as leaders at an offset: registered, unfenced, not shutting down, directory online.

Sources: Kafka's ClusterControlManager.isActive and defaultDir, BrokerRegistration.hasOnlineDir, DirectoryId (KIP-858).
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import PAD, Array, to_lengths, to_matrix, whole
from replay.arrow.runs import places
from replay.cluster.brokers import BrokerTimeline
from replay.partitions.elections import LOST
from replay.partitions.reducer import MIGRATING

# Kafka's DirectoryId.UNASSIGNED.
UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"
# Directory numbers of the reserved ids; UNASSIGNED is 0 (partition_change_builder.UNASSIGNED).
_RESERVED = (UNASSIGNED, MIGRATING, LOST)


class Directories:
    """Directory ids as numbers. UNASSIGNED is 0, MIGRATING 1, LOST 2."""

    def __init__(self, *columns: pa.ChunkedArray) -> None:
        used = pa.chunked_array([c for column in columns for c in column.chunks], type=columns[0].type)
        self.names = [*_RESERVED, *(n for n in pc.list_flatten(used).unique().to_pylist() if n not in _RESERVED)]

    def codes(self, column: pa.ChunkedArray) -> Array:
        """int64 matrix of the lists' numbers, padded with PAD."""
        lists = whole(column)
        numbers = pc.index_in(pc.list_flatten(lists), value_set=pa.array(self.names))
        ends = np.cumsum(to_lengths(lists)).astype(np.int32)
        return to_matrix(pa.ListArray.from_arrays(pa.array(np.append(np.int32(0), ends)), numbers))


@dataclass(frozen=True, slots=True)
class Availability:
    """BrokerTimeline.all_states as arrays. online: sorted numbers state * directories + directory."""

    brokers: BrokerTimeline
    active: Array
    has_directories: Array
    default_directory: Array
    online: Array
    directories: int

    def states(self, brokers: Array, offsets: Array) -> Array:
        """The number of each broker's state right before its row's offset; -1 if unknown. brokers: matrix."""
        return self.brokers.by_offset.last(brokers, offsets[:, None] - 1)

    def states_after(self, brokers: Array, offsets: Array) -> Array:
        """The number of each broker's state after the batch that has its row's offset; -1 if unknown."""
        return self.brokers.by_batch.last(brokers, offsets[:, None])

    def acceptable(self, brokers: Array, directories: Array, states: Array) -> Array:
        """Whether each broker was acceptable as leader with its replica in that directory; bool matrix."""
        return (brokers != PAD) & np.append(self.active, False)[states] & self.has_online(directories, states)

    def has_online(self, directories: Array, states: Array) -> Array:
        """Whether each directory was online, or is not known to have failed; bool matrix. states: of their brokers."""
        wanted = states * self.directories + directories
        # Looked up, for np.isin would sort all states again for each few brokers that are asked for.
        online: Array = np.append(self.online, -1)[places(self.online, wanted)] == wanted
        online |= (directories < _RESERVED.index(LOST)) | ~np.append(self.has_directories, False)[states]
        online &= directories != _RESERVED.index(LOST)
        return online

    def placed(self, replicas: Array, held: tuple[Array, Array], offsets: Array) -> Array:
        """The directory number of each replica right before its row's offset.

        held: the replicas before, and their directories in as many columns or fewer. A replica keeps its directory; a
        new one gets its broker's only directory, else UNASSIGNED.
        """
        new = np.append(self.default_directory, 0)[self.states(replicas, offsets)]
        result: Array = np.where(replicas == PAD, PAD, new)
        for j in range(min(lists.shape[1] for lists in held)):
            replica, directory = (lists[:, j, None] for lists in held)
            result = np.where((replicas == replica) & (replicas != PAD), directory, result)
        return result


def availability(brokers: BrokerTimeline, directories: Directories) -> Availability:
    """Convert the timeline to arrays."""
    numbers, count = {name: number for number, name in enumerate(directories.names)}, len(directories.names)
    states = brokers.all_states
    known = ((index, numbers.get(name)) for index, state in enumerate(states) for name in state.log_dirs or ())
    only = [(state.log_dirs or (MIGRATING,)) if state.incarnation_id else () for state in states]
    default = [numbers.get(names[0], -1) if len(names) == 1 else 0 for names in only]
    return Availability(
        brokers,
        active=brokers.are("active", np.arange(len(states))),
        has_directories=brokers.are("log_dirs", np.arange(len(states))),
        default_directory=np.array(default, dtype=np.int64),
        online=np.array(sorted(i * count + number for i, number in known if number is not None), dtype=np.int64),
        directories=count,
    )
