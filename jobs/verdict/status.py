"""Which findings are new, known or acknowledged: the tables finding_first_seen and acknowledgements. What --fail-on
checks of them.

A finding is identified by its id, its verdict and its severity: one that was possible and is now proven is new again,
and an acknowledgement of it no longer holds. Detect replaces a cluster's findings; these two tables keep their rows.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.lake.integrity import heads_of, require_bytes
from jobs.lake.lake import Lake
from jobs.lake.marks import undisturbed
from jobs.lake.row_keys import matches, new_rows
from jobs.lake.tables import TABLES
from jobs.views.in_duckdb import ask
from replay.findings.kinds import Section, of_section

NEW, KNOWN, ACKNOWLEDGED = "new", "known", "acknowledged"
STATUSES = (NEW, KNOWN, ACKNOWLEDGED)
STATUS = "status"
KEY = ("finding_id", "verdict", "severity")
FIRST_SEEN, ACKNOWLEDGEMENTS = "finding_first_seen", "acknowledgements"
UNKNOWN, NEW_PREFIX = "unknown", "new-"
_OF_RUN = "first_seen_ms"


def rows_of(lake: Lake, name: str, cluster: str) -> pa.Table:
    """A cluster's rows of one of the two tables. Errors: ChangedTableError if another program has changed it."""
    heads_of(lake, cluster, [name])
    require_bytes(lake, cluster, [name])
    return lake.read(name, cluster)


@undisturbed
def change(lake: Lake, name: str, cluster: str, changed: Callable[[pa.Table], pa.Table | None]) -> None:
    """Replace a cluster's rows of one of the two tables, whatever other runs do meanwhile.

    changed: the new rows of those that are there, None to leave them as they are; called again if another run was
    faster. Errors: as `rows_of`.
    """
    since = lake.cluster_version(name, cluster)
    if (rows := changed(rows_of(lake, name, cluster))) is not None:
        lake.put(name, cluster, rows.select(TABLES[name].file_schema.names), since=since)


def with_status(lake: Lake, cluster: str, findings: pa.Table, running: bool = False) -> pa.Table:
    """A cluster's findings with the column `status`. findings: with the columns of KEY.

    New is what no earlier run of detect had found. running: before `remember`, i.e. in the run that found them;
    otherwise the newest run that found something new is meant.
    """
    seen = rows_of(lake, FIRST_SEEN, cluster)
    if not running and len(seen):
        seen = seen.filter(pc.less(seen[_OF_RUN], pc.max(seen[_OF_RUN])))
    acknowledged = rows_of(lake, ACKNOWLEDGEMENTS, cluster)
    are_of = [matches(findings, rows, KEY) >= 0 for rows in (acknowledged, seen)]
    return findings.append_column(STATUS, pa.array(np.select(are_of, [ACKNOWLEDGED, KNOWN], NEW), pa.string()))


def remember(lake: Lake, cluster: str, now_ms: int) -> None:
    """Record the findings that were seen for the first time, as the last step of a run: a run that fails before and is
    repeated reports them as new again."""
    lake.create()
    found = lake.read("findings", cluster, KEY)

    def with_new(seen: pa.Table) -> pa.Table | None:
        rows = new_rows(found, seen, KEY)
        rows = rows.append_column(_OF_RUN, pa.array([now_ms] * len(rows), pa.int64()))
        return pa.concat_tables([seen.select(rows.column_names), rows]) if len(rows) else None

    change(lake, FIRST_SEEN, cluster, with_new)


def levels(lake: Lake, running: bool = False) -> set[str]:
    """The levels that --fail-on checks, of all clusters: verdicts, `unknown`, severities (levels.sql), and with `new-`
    before it each of a finding that is new and not acknowledged. running: as in `with_status`.

    `unknown` is also that nothing was replayed, which is no finding, so it counts in every run.
    """
    found: set[str] = set()
    for cluster in lake.clusters():
        rows = with_status(lake, cluster, lake.read("findings", cluster, ("kind", *KEY)), running)
        for row in ask("verdict/levels", values={"faults": list(of_section(Section.FAULTS))}, given=rows):
            found |= {row["level"], *([NEW_PREFIX + row["level"]] if row["is_new"] else [])}
        if not lake.count("partition_history", cluster):
            found |= {UNKNOWN, NEW_PREFIX + UNKNOWN}
    return found
