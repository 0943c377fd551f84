"""`explain`: a finding with its counterfactuals, and every piece of its evidence looked up in the lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from evidence import kinds
from evidence.capture.remote import Location
from evidence.errors import KraftForensicsError
from jobs.lake.lake_files import LakeFiles
from jobs.lake.tables import TABLES
from jobs.queries.explain_bytes import commands, with_bytes

Row = dict[str, Any]

MIN_PREFIX = 6
_MOST_NAMED = 5
# Evidence names its table, or the kind of file that a row was read from: then the row is in one of these.
_TABLE_OF_KIND = {
    kinds.TOPICS_DESCRIBE: "described_partitions",
    kinds.DESCRIBE_TOPIC_PARTITIONS: "described_partitions",
    kinds.QUORUM_STATE: "quorum_reports",
    kinds.QUORUM_STATUS: "quorum_reports",
}
# The tables of a record's bytes, by the kind of file that holds them.
_RECORDS = {
    kinds.METADATA_SEGMENT: ("metadata_records",),
    kinds.METADATA_CHECKPOINT: ("snapshot_records",),
    kinds.BOOTSTRAP_CHECKPOINT: ("snapshot_records",),
    kinds.DUMP_LOG: ("metadata_records", "snapshot_records"),
}
_NO_RECORD = ("log_batches", "quarantine")
_RECORD = ("offset", "epoch", "timestamp_ms", "type", "version", "payload", "batch_base_offset")
# What must be the same in a row as in the evidence that means it, where both have it.
_PLACE = ("sha256", "path", "position")
_SAME = (*_PLACE, "offset", "broker_id", "topic_id", "topic", "partition")
_NOT_SHOWN = ("cluster_id", "raw", "partition_change")


@dataclass(frozen=True, slots=True)
class Explained:
    """A row of findings, and the rows of counterfactuals about its election.

    evidence: of each piece a tables.EVIDENCE_ROW with `table`, `row` (of that table; None: it is not there),
    `file_kind`, `record` (of the metadata log; None for other bytes), `commands` (that show the bytes), and `bytes`
    where a capture was named.
    """

    finding: Row
    counterfactuals: list[Row]
    evidence: list[Row]


def explain(lake: LakeFiles, wanted: str, cluster: str | None = None, capture: Location | None = None) -> Explained:
    """The finding with that id, or the only one whose id begins so. cluster: only of this one. capture: where to read
    the evidence's bytes; each piece then has `bytes`.

    Errors: KraftForensicsError when there is no such finding, or several; CaptureError.
    """
    finding = _finding(lake, wanted, cluster)
    cluster = finding["cluster_id"]
    rows = [dict(r) for r in finding.pop("evidence") or []]
    policies = lake.read("counterfactuals", cluster, where=_about(finding)).sort_by("policy")
    evidence = _looked_up(lake, cluster, finding, rows)
    return Explained(finding, policies.to_pylist(), with_bytes(evidence, capture) if capture else evidence)


def _finding(lake: LakeFiles, wanted: str, cluster: str | None) -> Row:
    look = f"To list them: kraft-forensics findings --lake {lake.root}"
    if len(wanted) < MIN_PREFIX:
        raise KraftForensicsError(f"{wanted!r} is too short: give a finding's id, or its first 6 characters. {look}")
    found = lake.read("findings", cluster, where=pc.starts_with(pc.field("finding_id"), wanted))
    rows: list[Row] = found.sort_by("finding_id").slice(0, _MOST_NAMED).to_pylist()
    exact = [row for row in rows if row["finding_id"] == wanted] or rows
    if not exact:
        raise KraftForensicsError(f"no finding has the id {wanted!r}, or one that begins so. {look}")
    if len(exact) > 1:
        named = ", ".join(row["finding_id"] for row in exact)
        raise KraftForensicsError(f"several findings begin with {wanted!r}: {named}; give more of the id")
    return exact[0]


def _about(finding: Row) -> pc.Expression:
    """The counterfactuals of a finding's window: a window's own; of a prediction, those of the same election."""
    its_own = pc.field("finding_id") == finding["finding_id"]
    if finding["policy"] is None or finding["election_offset"] is None:
        return its_own
    place = {"topic_id": "topic_id", "partition": "partition", "offset": "election_offset"}
    topic, partition, offset = (pc.field(column) == finding[name] for column, name in place.items())
    return its_own | (topic & partition & offset)


def _looked_up(lake: LakeFiles, cluster: str, finding: Row, evidence: list[Row]) -> list[Row]:
    """The evidence with the rows that it means and the commands that show its bytes."""
    files = _rows(lake, "evidence_files", cluster, _in(evidence, ("sha256", "path")))
    kind_of = {(f["sha256"], f["path"]): f["kind"] for f in files}
    result: list[Row] = []
    for row in evidence:
        kind = kind_of.get((row["sha256"], row["path"]))
        result.append({**row, "table": _table(row["source"]), "row": None, "file_kind": kind, "record": None})
    for name in sorted({r["table"] for r in result}):
        mine = [r for r in result if r["table"] == name]
        rows = _rows(lake, name, cluster, _in(mine, _PLACE))
        for row in mine:
            row["row"] = _meant(rows, {**finding, **row})
    records = [r for r in result if r["table"] not in _NO_RECORD]
    for name in ("metadata_records", "snapshot_records"):
        mine = [r for r in records if r["record"] is None and name in _RECORDS.get(r["file_kind"], ())]
        rows = _rows(lake, name, cluster, _in(mine, _PLACE)) if mine else []
        for row in mine:
            row["record"] = _record(rows, row, name)
    for row in result:
        row["commands"] = commands(row)
    return result


def _table(source: str) -> str:
    return source if source in TABLES else _TABLE_OF_KIND.get(source, "log_end_offsets")


def _rows(lake: LakeFiles, name: str, cluster: str, where: pc.Expression) -> list[Row]:
    shown = [column for column in TABLES[name].schema.names if column not in _NOT_SHOWN]
    return lake.rows(name, cluster, shown, where)


def _in(rows: Sequence[Row], names: Sequence[str]) -> pc.Expression:
    """Rows with the values that `rows` have: a few more than those that are meant."""
    values = {name: pa.array(sorted({r[name] for r in rows if r[name] is not None})) for name in names}
    texts = {name: found.cast(pa.int64() if name == "position" else pa.string()) for name, found in values.items()}
    return reduce(and_, (pc.field(name).isin(found) for name, found in texts.items()))


def _meant(rows: Sequence[Row], evidence: Row) -> Row | None:
    def same(row: Row) -> bool:
        # One state may break several invariants: a finding names its own as the rule.
        pairs = [(row.get(name), evidence.get(name)) for name in _SAME]
        pairs.append((row.get("invariant"), evidence["rule"]))
        return all(a == b for a, b in pairs if a is not None and b is not None)

    return next((row for row in rows if same(row)), None)


def _record(rows: Sequence[Row], evidence: Row, table: str) -> Row | None:
    """The record at the evidence's place. Records of a snapshot are numbered by themselves; in a compressed batch many
    have one place: the offset tells which."""
    place = [r for r in rows if all(r[name] == evidence[name] for name in _PLACE)]
    if table == "metadata_records":
        place = [r for r in place if evidence["offset"] in (None, r["offset"])]
    record = place[0] if len(place) == 1 else None
    return {name: record[name] for name in _RECORD} if record else None
