"""`acknowledge`: say that findings are known and need no alarm; list and undo that. Needs no JVM."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from jobs.lake.lake import Lake, Row
from jobs.lake.tables import ACKNOWLEDGEMENTS as SCHEMA
from jobs.lake.tables import CLUSTER_ID, TABLES
from jobs.queries.listing import find_finding, only_one
from jobs.verdict.status import ACKNOWLEDGED, ACKNOWLEDGEMENTS, KEY, STATUS, change, rows_of, with_status

COLUMNS = tuple(TABLES[ACKNOWLEDGEMENTS].schema.names)


def acknowledge(
    lake: Lake, wanted: Sequence[str] | None, cluster: str | None, note: str, by: str | None, now_ms: int
) -> list[Row]:
    """Acknowledge findings with their verdict and severity of now; returns their rows (COLUMNS). A new
    acknowledgement of the same finding replaces the old one. Nothing is written if one id is wrong.

    wanted: ids, or their first characters; None: all that are not acknowledged. Errors: as `find_finding`.
    """
    lake.create()
    said = {"note": note, "acknowledged_by": by, "acknowledged_ms": now_ms}
    if wanted is None:
        found = [row for each in lake.clusters() if cluster in (None, each) for row in _unacknowledged(lake, each)]
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


def _unacknowledged(lake: Lake, cluster: str) -> list[Row]:
    found = with_status(lake, cluster, lake.read("findings", cluster, (CLUSTER_ID, *KEY)))
    return found.filter(pc.not_equal(found[STATUS], ACKNOWLEDGED)).to_pylist()


def _replace(lake: Lake, cluster: str, new: Mapping[str, Row | None]) -> None:
    """Put these rows in place of those with their finding_id; None: remove those."""

    def replaced(old: pa.Table) -> pa.Table:
        kept = [row for row in old.to_pylist() if row["finding_id"] not in new]
        return pa.Table.from_pylist([*kept, *filter(None, new.values())], schema=SCHEMA).sort_by("finding_id")

    change(lake, ACKNOWLEDGEMENTS, cluster, replaced)
