"""Look up rows by values of a column, and topics that were deleted; narrow a report to a span of time and to a topic;
the order of findings, for the report's sections and for the table of flagged windows: by a few columns, so that only
the findings that are shown are read completely."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.console.output import utc_ms
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


@dataclass(frozen=True, slots=True)
class Focus:
    """What findings a report is narrowed to. from_ms, to_ms: UTC, both inclusive; null: no limit. topic: null: all."""

    from_ms: int | None = None
    to_ms: int | None = None
    topic: str | None = None

    @property
    def narrows(self) -> bool:
        return self != Focus()

    def findings(self) -> pc.Expression:
        """The findings within: those that overlap the span, of the topic. One without a time, or about no partition,
        is within: it may limit what is known of every other one."""
        within = pc.scalar(True)
        start, end = pc.field("start_timestamp_ms"), pc.field("end_timestamp_ms")
        if self.to_ms is not None:
            within &= start.is_null() | (start <= self.to_ms)
        if self.from_ms is not None:
            within &= start.is_null() | end.is_null() | (end >= self.from_ms)
        if self.topic is not None:
            within &= (pc.field("topic") == self.topic) | (pc.field("topic").is_null() & pc.field("topic_id").is_null())
        return within

    def states(self, until_ms: int | None) -> pc.Expression:
        """The states within: those of the topic that were in force in the span, as far as the log goes. until_ms: the
        log's end; null: unknown."""
        within = pc.scalar(self.from_ms is None or until_ms is None or self.from_ms <= until_ms)
        if self.to_ms is not None:
            within &= pc.field("timestamp_ms") <= self.to_ms
        if self.from_ms is not None:
            end = pc.field("end_timestamp_ms")
            within &= end.is_null() | (end >= self.from_ms)
        return within if self.topic is None else within & (pc.field("topic") == self.topic)


ALL = Focus()


def parse_span(text: str) -> tuple[int | None, int | None]:
    """`FROM..TO` as milliseconds; ISO 8601, UTC if no zone is given, and either may be missing. Errors: ValueError."""
    first, dots, last = (part.strip() for part in text.partition(".."))
    if not dots or not (first or last):
        raise ValueError(f"{text!r} is not FROM..TO, e.g. 2026-11-21T00:39..2026-11-21T00:42")
    from_ms, to_ms = (utc_ms(part) if part else None for part in (first, last))
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise ValueError(f"{text!r} ends before it begins")
    return from_ms, to_ms


def require_topic(lake: Lake, cluster: str | None, topic: str | None) -> None:
    """For what is narrowed to a topic. cluster: null: all of them. Errors: KraftForensicsError if nothing is known of
    the topic."""
    of_topic = pc.field("topic") == topic
    if topic is not None and not any(
        len(lake.read(name, cluster, ["topic"], of_topic)) for name in ("partition_history", "findings")
    ):
        raise KraftForensicsError(f"no history of topic {topic!r}: check the name, or run `kraft-forensics replay`")
