"""Look up rows by values of a column, and topics that were deleted."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.lake.lake import Lake, Row
from jobs.views.in_duckdb import ask

# Other columns that rows are looked up by are texts.
_TYPES = {"offset": pa.int64(), "position": pa.int64(), "partition": pa.int32(), "broker_id": pa.int32()}


def among(column: str, values: Iterable[Any]) -> pc.Expression:
    """The condition that the column has one of the values; null is none of them."""
    # The type is explicit because Arrow cannot infer it from an empty list.
    found = pa.array(sorted({value for value in values if value is not None}), _TYPES.get(column, pa.string()))
    return pc.field(column).isin(found)


def load_deleted(lake: Lake, cluster: str) -> list[Row]:
    """Topics that were deleted, by time: rows {topic, topic_id, offset, deleted_ms, next_id, next_ms} (deleted.sql)."""
    # The statistics of the files say that none was, which takes no time.
    is_any = lake.count("partition_history", cluster, pc.field("removed"))
    return ask("incident/deleted", (lake, cluster)) if is_any else []
