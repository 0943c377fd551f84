"""The JSON text of partition records, made from their typed columns: `payload` has only what these do not hold."""

import pyarrow as pa
import pyarrow.compute as pc

from evidence.tables import PARTITION_CHANGE, with_column
from evidence.wire.schema import camel

# The columns of tables.PARTITION_CHANGE and Kafka's names of the fields.
_OTHERWISE = {"partition": "partitionId", "elr": "eligibleLeaderReplicas"}
FIELDS = {field.name: _OTHERWISE.get(field.name, camel(field.name)) for field in PARTITION_CHANGE}
# After partition and topic id, in the order of Kafka's PartitionChangeRecordJsonConverter and
# PartitionRecordJsonConverter.
_ORDER = {
    "PARTITION_CHANGE_RECORD": (
        *("isr", "leader", "replicas", "removing_replicas", "adding_replicas", "leader_recovery_state"),
        *("elr", "last_known_elr", "directories"),
    ),
    "PARTITION_RECORD": (
        *("replicas", "isr", "removing_replicas", "adding_replicas", "leader", "leader_epoch", "partition_epoch"),
        *("directories", "leader_recovery_state", "elr", "last_known_elr"),
    ),
}
_TEXTS = pa.list_(pa.string())


def with_text(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of tables.SNAPSHOT_RECORDS, each with its text in `payload`."""
    made = partition_text(rows["type"], rows["version"], rows["partition_change"])
    return with_column(rows, "payload", pc.coalesce(rows["payload"], made))


def without_text(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without the texts that `with_text` makes again."""
    is_made = pc.equal(rows["payload"], partition_text(rows["type"], rows["version"], rows["partition_change"]))
    return with_column(rows, "payload", pc.if_else(pc.fill_null(is_made, False), None, rows["payload"]))


def partition_text(types: pa.Array, versions: pa.Array, changes: pa.Array) -> pa.Array:
    """The text that the columns of each partition record give, null for other records: as rows.to_json for what the
    record has, if it gives no empty list of directories or of (last known) ELR."""
    text = pa.nulls(len(types), pa.string())
    for name in _ORDER:
        mask = pc.and_(pc.is_valid(changes), pc.equal(types, name))
        if pc.any(mask).as_py():
            text = pc.replace_with_mask(text, mask, _text(name, versions.filter(mask), changes.filter(mask)))
    return text


def _text(type_name: str, versions: pa.Array, changes: pa.Array) -> pa.Array:
    columns = dict(zip(FIELDS, changes.flatten(), strict=True))
    if type_name == "PARTITION_RECORD":  # as rows.partition_change fills them
        is_default = {name: pc.equal(pc.list_value_length(columns[name]), 0) for name in ("elr", "last_known_elr")}
        is_default["leader_recovery_state"] = pc.equal(columns["leader_recovery_state"], 0)
        is_default["directories"] = pc.equal(versions, 0)
        columns |= {name: pc.if_else(mask, None, columns[name]) for name, mask in is_default.items()}
    parts = ['{"partitionId":', columns["partition"].cast(pa.string()), ',"topicId":"', columns["topic_id"], '"']
    for name in _ORDER[type_name]:
        if columns[name].null_count < len(changes):
            parts.append(_field(FIELDS[name], columns[name]))
    return pc.binary_join_element_wise(*parts, "}", "", null_handling="replace")


def _field(name: str, column: pa.Array) -> pa.Array:
    """`,"name":value`; null for null."""
    if not pa.types.is_list(column.type):
        return pc.binary_join_element_wise(f',"{name}":', column.cast(pa.string()), "")
    quote = '"' if pa.types.is_string(column.type.value_type) else ""
    values = pc.binary_join(column.cast(_TEXTS), f"{quote},{quote}")
    text = pc.binary_join_element_wise(f',"{name}":[', values, "]", quote)
    return pc.replace_substring(text, '[""]', "[]") if quote else text
