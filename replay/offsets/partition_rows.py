"""Rows of log-end offsets by partition of a bucket."""

from operator import itemgetter

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import Array
from replay.arrow.runs import groups, run_starts
from replay.arrow.schemas import PARTITION_KEY
from replay.offsets.evidence import Evidence, Row, index_rows
from replay.partitions.elections import States


def keys_of(rows: pa.Table, history: pa.Table, states: States) -> Array:
    """The partition key (`States.key`) of each row; -1 if the history does not have the partition."""
    begin = np.flatnonzero(run_starts(states.key))
    known = history.select(PARTITION_KEY).take(pa.array(begin)).append_column("key", pa.array(states.key[begin]))
    numbered = rows.select(PARTITION_KEY).append_column("row", pa.array(np.arange(len(rows))))
    joined = numbered.join(known, PARTITION_KEY, join_type="inner")
    keys = np.full(len(rows), -1, dtype=np.int64)
    keys[joined["row"].to_numpy()] = joined["key"].to_numpy()
    return keys


def by_partition(rows: pa.Table, history: pa.Table, states: States, wanted: Array) -> dict[int, list[Row]]:
    """The rows about some partitions, by partition key. wanted: keys (`States.key`)."""
    keys = keys_of(rows, history, states)
    chosen = np.isin(keys, wanted)
    pairs = zip(keys[chosen].tolist(), rows.filter(pa.array(chosen)).to_pylist(), strict=True)
    return {key: [row for _, row in own] for key, own in groups(pairs, itemgetter(0)).items()}


def evidence_of(history: pa.Table, states: States, offsets: pa.Table, wanted: Array) -> dict[int, Evidence]:
    """The evidence about each of some partitions, by partition key. wanted: as in `by_partition`."""
    rows = by_partition(offsets, history, states, wanted)
    return {key: index_rows(rows.get(key, [])) for key in wanted.tolist()}
