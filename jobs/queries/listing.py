"""`findings`: list the rows of the findings table that pass the filters, in the report's order; find one by its id.
`acknowledge`: say that findings are known and need no alarm; list and undo that. Needs no JVM."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from evidence.errors import KraftForensicsError, UsageError
from jobs.incident.lookup import KEYS, Focus, ordered, require_topic
from jobs.lake.lake import Lake, Row
from jobs.lake.tables import ACKNOWLEDGEMENTS as SCHEMA
from jobs.lake.tables import CLUSTER_ID, TABLES
from jobs.verdict.status import ACKNOWLEDGED, ACKNOWLEDGEMENTS, KEY, STATUS, STATUSES, change, rows_of, with_status
from replay.findings.kinds import KINDS, Section
from replay.loss.verdicts import SEVERITIES, VERDICTS

MIN_PREFIX = 6  # of an id
_MOST_NAMED = 5
FINDING_COLUMNS = (
    *("cluster_id", "finding_id", "kind", "verdict", "severity", "status", "topic", "partition"),
    *("start_offset", "start_timestamp_ms", "end_timestamp_ms"),
    *("loss_min", "loss_max", "rule", "explanation"),
)


# What can be asked for, by column; `section` is one of the report.
_KNOWN: dict[str, Sequence[str]] = {
    "section": tuple(Section),
    "kind": tuple(KINDS),
    "verdict": VERDICTS,
    "severity": SEVERITIES,
    "status": STATUSES,
}


def list_findings(
    lake: Lake,
    cluster: str | None,
    most: int,
    wanted: Mapping[str, Sequence[str] | None],
    since_ms: int | None = None,
    until_ms: int | None = None,
    topic: str | None = None,
    partition: int | None = None,
) -> tuple[list[Row], int]:
    """The first `most` findings (FINDING_COLUMNS) in the report's order, and the number of all matching findings.

    wanted: values by the names of _KNOWN; empty or None: all. since_ms, until_ms: findings that were open in this
    period, both ends inclusive; one without a time matches every period. topic, partition: None: all.
    Errors: UsageError; as `require_topic`, if no finding is about the topic.
    """
    for name, given in wanted.items():
        if unknown := sorted(set(given or ()) - set(_KNOWN[name])):
            raise UsageError(f"{unknown[0]!r} is not a {name}. Choose from {', '.join(_KNOWN[name])}.")
    if since_ms is not None and until_ms is not None and until_ms < since_ms:
        raise UsageError("--until is before --since")
    within = Focus(since_ms, until_ms).findings()
    for name in ("kind", "verdict", "severity"):
        if given := wanted.get(name):
            within &= pc.field(name).isin(list(given))
    for name, value in {"topic": topic, "partition": partition}.items():
        if value is not None:
            within &= pc.field(name) == value
    names = [name for name in dict.fromkeys([*KEYS.names, *FINDING_COLUMNS]) if name != STATUS]
    read = lake.read("findings", cluster, names, within)
    found = pa.concat_tables(
        with_status(lake, each, read.filter(pc.equal(read[CLUSTER_ID], each)))
        for each in read[CLUSTER_ID].unique().to_pylist() or [cluster or ""]
    )
    if not len(found):
        require_topic(lake, cluster, topic)
    if statuses := wanted.get("status"):
        found = found.filter(pc.is_in(found[STATUS], value_set=pa.array(statuses)))
    sections = [section for section in Section if section in (wanted.get("section") or Section)]
    rows = ordered(found, *sections).select(FINDING_COLUMNS)
    return rows.slice(0, most).to_pylist(), len(rows)


def find_finding(lake: Lake, wanted: str, cluster: str | None) -> Row:
    """The finding with that id, or the only one whose id starts with it. Errors: as `only_one`."""
    found = lake.read("findings", cluster, where=pc.starts_with(pc.field("finding_id"), wanted))
    rows = found.sort_by("finding_id").slice(0, _MOST_NAMED).to_pylist()
    return only_one(rows, wanted, "finding", f"To list findings: kraft-forensics findings --lake {lake.root}")


def only_one(rows: Sequence[Row], wanted: str, what: str, advice: str) -> Row:
    """The row with that finding_id, or the only one whose id starts with it. what: they are, for messages. Errors:
    KraftForensicsError for less than MIN_PREFIX characters, and if no row or several match."""
    if len(wanted) < MIN_PREFIX:
        least = f"at least its first {MIN_PREFIX} characters"
        raise UsageError(f"{wanted!r} is too short: give the id of a finding, or {least}. {advice}")
    begun = [row for row in rows if row["finding_id"].startswith(wanted)]
    found = [row for row in begun if row["finding_id"] == wanted] or begun
    if not found:
        raise KraftForensicsError(f"no {what} has an id that is or starts with {wanted!r}. {advice}")
    if len(found) > 1:
        named = ", ".join(row["finding_id"] for row in found[:_MOST_NAMED])
        raise KraftForensicsError(f"several ids start with {wanted!r}: {named}; give more characters of the id")
    return found[0]


ACKNOWLEDGEMENT_COLUMNS = tuple(TABLES[ACKNOWLEDGEMENTS].schema.names)


def acknowledge(
    lake: Lake, wanted: Sequence[str] | None, cluster: str | None, note: str, by: str | None, now_ms: int
) -> list[Row]:
    """Acknowledge findings with their verdict and severity of now; returns their rows (ACKNOWLEDGEMENT_COLUMNS). A new
    acknowledgement of the same finding replaces the old one. Nothing is written if one id is wrong.

    wanted: ids, or their first characters; None: all that are not acknowledged. Errors: as `find_finding`.
    """
    lake.create()
    said = {"note": note, "acknowledged_by": by, "acknowledged_ms": now_ms}
    if wanted is None:
        found = []
        for each in lake.clusters() if cluster is None else [cluster]:
            rated = with_status(lake, each, lake.read("findings", each, (CLUSTER_ID, *KEY)))
            found += rated.filter(pc.not_equal(rated[STATUS], ACKNOWLEDGED)).to_pylist()
    else:
        found = [find_finding(lake, each, cluster) for each in wanted]
    rows = [{"cluster_id": f["cluster_id"], **{name: f[name] for name in KEY}, **said} for f in found]
    for each in sorted({row["cluster_id"] for row in rows}):
        _replace(lake, each, {row["finding_id"]: row for row in rows if row["cluster_id"] == each})
    return rows


def undo(lake: Lake, wanted: Sequence[str], cluster: str | None) -> list[Row]:
    """Remove acknowledgements; returns their rows. Errors: as `only_one`."""
    lake.create()
    rows = listed(lake, cluster)
    removed = [only_one(rows, each, "acknowledgement", "To list them: acknowledge --list") for each in wanted]
    for each in sorted({row["cluster_id"] for row in removed}):
        _replace(lake, each, {row["finding_id"]: None for row in removed if row["cluster_id"] == each})
    return removed


def listed(lake: Lake, cluster: str | None) -> list[Row]:
    """The acknowledgements of one cluster, or of all, oldest first."""
    clusters = lake.clusters() if cluster is None else [cluster]
    rows: list[Row] = [row for each in clusters for row in rows_of(lake, ACKNOWLEDGEMENTS, each).to_pylist()]
    return sorted(rows, key=lambda row: (row["acknowledged_ms"], row["cluster_id"], row["finding_id"]))


def _replace(lake: Lake, cluster: str, new: Mapping[str, Row | None]) -> None:
    """Put these rows in place of those with their finding_id; None: remove those."""

    def replaced(old: pa.Table) -> pa.Table:
        kept = [row for row in old.to_pylist() if row["finding_id"] not in new]
        return pa.Table.from_pylist([*kept, *filter(None, new.values())], schema=SCHEMA).sort_by("finding_id")

    change(lake, ACKNOWLEDGEMENTS, cluster, replaced)
