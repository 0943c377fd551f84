"""The flagged windows that commands print, and the levels that --fail-on checks. Needs no JVM."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.console.bounds_text import range_text
from jobs.console.output import Format, print_rows, print_table, utc
from jobs.incident.order import KEYS, ordered
from jobs.lake.lake import Lake
from jobs.verdict.text import print_answers
from replay.findings.kinds import HWM_REGRESSION, Section, of_section

WINDOW_COLUMNS = (
    "topic",
    "partition",
    "verdict",
    "loss_min",
    "loss_max",
    "first_lost_offset",
    "start_offset",
    "election_offset",
    "end_offset",
    "start_timestamp_ms",
    "recorded_leader",
    "would_be_leader",
    "finding_id",
)
_GRAVE = ("critical", "high")


def flagged_windows(lake: Lake, every: bool = False) -> list[dict[str, Any]]:
    """The windows of all clusters (WINDOW_COLUMNS), in the order of the report. every: include excluded ones."""
    names = dict.fromkeys([*KEYS.names, *WINDOW_COLUMNS])
    found = lake.read("findings", None, list(names), pc.field("kind") == HWM_REGRESSION)
    sections = (Section.WINDOWS, Section.EXCLUDED) if every else (Section.WINDOWS,)
    return [row for section in sections for row in ordered(found, section).select(WINDOW_COLUMNS).to_pylist()]


def print_windows(lake: Lake, form: Format, every: bool = False) -> None:
    """Print `flagged_windows` to stdout; in a table, after the answer of each cluster."""
    rows = flagged_windows(lake, every)
    if form is not Format.TABLE:
        print_rows(list(WINDOW_COLUMNS), rows, form)
        return
    print_answers(lake)
    if not rows:
        print("no window was flagged")
        return
    shown = [{"window": f"{r['topic']}-{r['partition']}", **_table_row(r)} for r in rows]
    title = f"{len(rows)} windows" if every else f"{len(rows)} flagged windows"
    print_table(list(shown[0]), shown, f"{title}: the high watermark went back, or may have")


def _table_row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "verdict": row["verdict"],
        "lost offsets": range_text(row["loss_min"], row["loss_max"]),
        "from offset": row["first_lost_offset"],
        "exposed at": row["start_offset"],
        "since (UTC)": utc(row["start_timestamp_ms"]),
        "elected at": row["election_offset"],
        "safe at": row["end_offset"],
        "leader": row["recorded_leader"],
        "longest log": row["would_be_leader"],
        "finding": row["finding_id"],
    }


def levels(lake: Lake) -> set[str]:
    """The verdicts of windows and of critical or high faults, and the severities of all findings that are not excluded.

    Verdicts of other kinds of findings are not about a loss or a fault.
    """
    found = lake.read("findings", None, ("kind", "verdict", "severity"))
    grave = pc.is_in(found["severity"], pa.array(_GRAVE))
    fault = pc.is_in(found["kind"], pa.array(of_section(Section.FAULTS)))
    judged = found.filter(pc.or_(pc.equal(found["kind"], HWM_REGRESSION), pc.and_(grave, fault)))
    stands = found.filter(pc.not_equal(found["verdict"], "excluded"))
    both = {*judged["verdict"].unique().to_pylist(), *stands["severity"].unique().to_pylist()}
    return {level for level in both if level is not None}
