"""How long a state is known to hold: up to the partition's next row, but never across a hole in the log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.cluster.log import Run

_NEVER = np.iinfo(np.int64).max


def clip_validity(history: pa.Table, runs: Sequence[Run], log_end: int) -> pa.Table:
    """End the validity of states where their replayable run ends, unless that is the end of the log.

    history: tables.PARTITION_HISTORY rows. What the state was from there on, up to the snapshot that the next run
    starts from, is not known: end_offset is the run's end, end_timestamp_ms is null.
    """
    if not runs or not len(history):
        return history
    # A run's base state stands at the offset before its start.
    first = np.array([run.start - 1 for run in runs], dtype=np.int64)
    end = np.array([_NEVER if run.end >= log_end else run.end for run in runs], dtype=np.int64)
    which = np.searchsorted(first, history["offset"].to_numpy(), side="right") - 1
    run_end = end[np.maximum(which, 0)]
    stated = pc.fill_null(history["end_offset"], _NEVER).to_numpy()
    cut = run_end < stated
    if not cut.any():
        return history
    mask = pa.array(cut)
    columns = {
        "end_offset": pc.if_else(mask, pa.array(run_end), history["end_offset"].combine_chunks()),
        "end_timestamp_ms": pc.if_else(mask, None, history["end_timestamp_ms"].combine_chunks()),
    }
    for name, values in columns.items():
        history = history.set_column(history.schema.get_field_index(name), history.schema.field(name), values)
    return history
