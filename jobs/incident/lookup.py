"""Look up rows by values of a column, and topics that were deleted; the order of findings, for the report's sections
and for the table of flagged windows: by a few columns, so that only the findings that are shown are read completely."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.lake.lake import Lake, Row
from jobs.views.in_duckdb import ask, ask_table
from replay.arrow.schemas import FINDINGS
from replay.findings.kinds import KINDS, Section
from replay.loss.verdicts import LEANINGS, SEVERITIES, VERDICTS

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


# The columns that determine sections and their order.
_KEYS = (
    *("finding_id", "kind", "verdict", "severity", "loss_min", "loss_max", "topic", "topic_id", "partition"),
    *("start_offset", "end_offset", "election_offset", "start_timestamp_ms", "end_timestamp_ms", "likely"),
    *("would_be_leader", "lasted_ms"),
)
KEYS = pa.schema([FINDINGS.field(name) for name in _KEYS])


def ordered(findings: pa.Table, *sections: Section) -> pa.Table:
    """The rows of some sections in order, one section after the other, with the column `section`. findings: with the
    columns KEYS, and any others."""
    keys = findings.select(_KEYS).append_column("row", pa.array(np.arange(len(findings))))
    kinds = pa.table({"kind": list(KINDS), "section": [kind.section.value for kind in KINDS.values()]})
    ranks = {"severities": SEVERITIES, "verdicts": VERDICTS, "leanings": LEANINGS, "sections": sections}
    values = {name: list(map(str, names)) for name, names in ranks.items()}
    found = ask_table("incident/order", values, given=keys, kinds=kinds)
    return findings.take(found["row"]).append_column("section", found["section"])
