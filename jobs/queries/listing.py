"""`findings`: list the rows of the findings table that pass the filters, in the report's order. Needs no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence.errors import KraftForensicsError
from jobs.incident.order import KEYS, ordered
from jobs.lake.lake import Lake
from jobs.lake.tables import CLUSTER_ID
from jobs.verdict.status import STATUS, STATUSES, with_status
from replay.findings.kinds import KINDS, Section
from replay.loss.verdicts import SEVERITIES, VERDICTS

Row = dict[str, Any]

FINDING_COLUMNS = (
    "cluster_id",
    "finding_id",
    "kind",
    "verdict",
    "severity",
    "status",
    "topic",
    "partition",
    "start_offset",
    "start_timestamp_ms",
    "end_timestamp_ms",
    "loss_min",
    "loss_max",
    "rule",
    "explanation",
)


class FilterError(KraftForensicsError):
    """A filter has an invalid value."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Filter:
    """Which findings to list; empty or None: no filter.

    sections: of the report (Section). since_ms, until_ms: findings that were open in this period, both ends inclusive.
    A finding without a time matches every period.
    """

    sections: Sequence[str] = ()
    kinds: Sequence[str] = ()
    verdicts: Sequence[str] = ()
    severities: Sequence[str] = ()
    statuses: Sequence[str] = ()
    topic: str | None = None
    partition: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def check(self) -> None:
        """Check the values. Errors: FilterError."""
        for given, known, name in (
            (self.sections, tuple(Section), "section"),
            (self.kinds, tuple(KINDS), "kind"),
            (self.verdicts, VERDICTS, "verdict"),
            (self.severities, SEVERITIES, "severity"),
            (self.statuses, STATUSES, "status"),
        ):
            unknown = sorted(set(given) - set(known))
            if unknown:
                raise FilterError(f"{unknown[0]!r} is not a {name}. Choose from {', '.join(known)}.")
        if self.since_ms is not None and self.until_ms is not None and self.until_ms < self.since_ms:
            raise FilterError("--until is before --since")

    def conditions(self) -> Iterator[pc.Expression]:
        lists = (("kind", self.kinds), ("verdict", self.verdicts), ("severity", self.severities))
        yield from (pc.field(name).isin(list(values)) for name, values in lists if values)
        if self.topic is not None:
            yield pc.field("topic") == self.topic
        if self.partition is not None:
            yield pc.field("partition") == self.partition
        start, end = pc.field("start_timestamp_ms"), pc.field("end_timestamp_ms")
        if self.since_ms is not None:
            yield end.is_null() | (end >= self.since_ms)
        if self.until_ms is not None:
            yield start.is_null() | (start <= self.until_ms)


def list_findings(lake: Lake, cluster: str | None, wanted: Filter, most: int) -> tuple[list[Row], int]:
    """The first `most` findings (FINDING_COLUMNS) in the report's order, and the number of all matching findings.

    Errors: FilterError.
    """
    wanted.check()
    conditions = list(wanted.conditions())
    names = [name for name in dict.fromkeys([*KEYS.names, *FINDING_COLUMNS]) if name != STATUS]
    read = lake.read("findings", cluster, names, reduce(and_, conditions) if conditions else None)
    found = pa.concat_tables(
        with_status(lake, each, read.filter(pc.equal(read[CLUSTER_ID], each)))
        for each in read[CLUSTER_ID].unique().to_pylist() or [cluster or ""]
    )
    if wanted.statuses:
        found = found.filter(pc.is_in(found[STATUS], value_set=pa.array(wanted.statuses)))
    of_sections = [ordered(found, section) for section in Section if section in (wanted.sections or Section)]
    rows = pa.concat_tables(of_sections).select(FINDING_COLUMNS)
    return rows.slice(0, most).to_pylist(), len(rows)
