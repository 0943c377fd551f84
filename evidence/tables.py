"""Arrow schemas of the tables that `evidence` produces, from tables.toml; the Delta tables are created from them.

Null always means that the source does not give the value. Times are milliseconds since the Unix epoch (UTC), offsets
and byte positions are int64, replica lists keep Kafka's order.
"""

import tomllib
from importlib.resources import files
from typing import Any, TypeVar

import pyarrow as pa

Row = dict[str, Any]
INT32_LIST = pa.list_(pa.int32())
STRING_LIST = pa.list_(pa.string())
_COLUMNS = tomllib.loads(files("evidence").joinpath("tables.toml").read_text("utf-8"))


def column(name: str, dtype: pa.DataType, comment: str) -> pa.Field:
    """A nullable Arrow field with a comment; the comment is also that of the Delta column."""
    return pa.field(name, dtype, metadata={"comment": comment})


def _fields(table: str) -> list[pa.Field]:
    found: dict[str, pa.Field] = {}
    for name, given in _COLUMNS[table].items():
        if given == "*":
            found |= {each.name: each for each in _fields(name) if each.name not in found}
        else:
            found[name] = column(name, _type(given[0]), given[1]) if given[1:] else pa.field(name, _type(given[0]))
    return list(found.values())


def _struct(group: str) -> pa.StructType:
    return pa.struct([(each.name, each.type) for each in _fields(group)])


def _type(name: str) -> pa.DataType:
    if name.endswith("[]"):
        return pa.list_(_type(name[:-2]))
    return _struct(name) if name in _COLUMNS else pa.type_for_alias(name)


Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def with_column(rows: Rows, name: str, values: Any) -> Rows:
    """The rows with other values in a column: an array, or Python's values."""
    index, field = rows.schema.get_field_index(name), rows.schema.field(name)
    return rows.set_column(index, field, pa.array(values, field.type) if isinstance(values, list) else values)


PROVENANCE = _fields("provenance")
PARTITION_CHANGE, OUT_OF_SYNC = _struct("partition_change"), pa.list_(_struct("out_of_sync"))
EVIDENCE_FILES = pa.schema(_fields("evidence_files"))
QUARANTINE = pa.schema(_fields("quarantine"))
LOG_BATCHES = pa.schema(_fields("log_batches"))
METADATA_RECORDS = pa.schema(_fields("metadata_records"))
SNAPSHOT_RECORDS = pa.schema(_fields("snapshot_records"))
LOG_END_OFFSETS = pa.schema(_fields("log_end_offsets"))
DESCRIBED_PARTITIONS = pa.schema(_fields("described_partitions"))
QUORUM_REPORTS = pa.schema(_fields("quorum_reports"))
CAPTURES = pa.schema(_fields("captures"))
BROKER_LOG_EVENTS = pa.schema(_fields("broker_log_events"))
NODE_BOOTS = pa.schema(_fields("node_boots"))
BOOT_IDS = pa.schema(_fields("boot_ids"))
NODE_CLOCKS = pa.schema(_fields("node_clocks"))
