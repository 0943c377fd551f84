"""Clock differences that the evidence itself shows: a leader epoch in a file cannot have been opened after the file was
read. If the times say that it was, the controller's clock was ahead of the capturer's by at least the difference.

This is a lower bound; nothing bounds a clock's error from above. Sources: Kafka's LeaderEpochFileCache (a line is
written when a replica leads in an epoch or copies its first record), KIP-631.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_EPOCH_KEY = ["topic_id", "partition", "leader_epoch"]


def least_clock_error_ms(history: pa.Table, offsets: pa.Table) -> int:
    """By how many ms the controllers' clocks were ahead of the capturer's; 0 if nothing shows that they were.

    history: topic_id, topic, partition, leader_epoch, timestamp_ms, origin of schemas.PARTITION_HISTORY; offsets:
    topic_id, topic, partition, leader_epoch, epoch_start_offset, captured_at_ms, uncertainty_ms of LOG_END_OFFSETS. A
    line that identifies its topic only by name counts if the log has no snapshot state and exactly one topic with that
    name.
    """
    opened = _opened(history)
    if not len(opened):
        return 0
    lines = offsets.filter(pc.and_(offsets["epoch_start_offset"].is_valid(), offsets["captured_at_ms"].is_valid()))
    lines = _named(lines, history)
    joined = lines.join(opened, _EPOCH_KEY, join_type="inner")
    if not len(joined):
        return 0
    read_by = pc.add(joined["captured_at_ms"], pc.fill_null(joined["uncertainty_ms"], 0))
    return max(0, int(np.max(pc.subtract(joined["timestamp_ms_min"], read_by).to_numpy())))


def _opened(history: pa.Table) -> pa.Table:
    """When each leader epoch was opened: _EPOCH_KEY, timestamp_ms_min. Without those that a snapshot shows, and without
    a partition's first one, unless that is 0: it may have been opened before the log begins, or in ZooKeeper."""
    known = history.filter(history["leader_epoch"].is_valid())
    first = known.group_by(_EPOCH_KEY[:2]).aggregate([("leader_epoch", "min")])
    epochs = known.group_by(_EPOCH_KEY).aggregate([("timestamp_ms", "min"), ("origin", "min")])
    epochs = epochs.join(first, _EPOCH_KEY[:2], join_type="inner")
    later = pc.or_(pc.equal(epochs["leader_epoch"], 0), pc.greater(epochs["leader_epoch"], epochs["leader_epoch_min"]))
    return epochs.filter(pc.and_(later, pc.equal(epochs["origin_min"], "log")))


def _named(lines: pa.Table, history: pa.Table) -> pa.Table:
    """The lines with their topic_id filled in; lines whose topic is not certain are left out."""
    columns = ["topic", "partition", "leader_epoch", "captured_at_ms", "uncertainty_ms"]
    sure = lines.filter(lines["topic_id"].is_valid()).select(["topic_id", *columns])
    if pc.any(pc.equal(history["origin"], "checkpoint")).as_py():
        return sure
    ids = history.group_by(["topic"]).aggregate([("topic_id", "count_distinct"), ("topic_id", "max")])
    one = ids.filter(pc.equal(ids["topic_id_count_distinct"], 1)).select(["topic", "topic_id_max"])
    named = lines.filter(lines["topic_id"].is_null()).select(columns).join(one, "topic", join_type="inner")
    named = named.rename_columns([n if n != "topic_id_max" else "topic_id" for n in named.column_names])
    return pa.concat_tables([sure, named.select(sure.column_names).cast(sure.schema)])
