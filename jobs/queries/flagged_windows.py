"""What a command prints and exits by: the flagged windows, and the levels that --fail-on looks at. Needs no JVM."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.lake.lake_files import LakeFiles
from jobs.report.order import KEYS, ordered
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


def flagged_windows(lake: LakeFiles) -> list[dict[str, Any]]:
    """Every cluster's windows (WINDOW_COLUMNS) that are not excluded, in the order of the report."""
    names = dict.fromkeys([*KEYS.names, *WINDOW_COLUMNS])
    found = lake.read("findings", None, list(names), pc.field("kind") == HWM_REGRESSION)
    rows: list[dict[str, Any]] = ordered(found, Section.WINDOWS).select(WINDOW_COLUMNS).to_pylist()
    return rows


def levels(lake: LakeFiles) -> set[str]:
    """The verdicts of windows and of other grave findings, and the severities of all findings that are not excluded.

    Verdicts of the other kinds are about neither a loss nor a fault.
    """
    found = lake.read("findings", None, ("kind", "verdict", "severity"))
    grave = pc.is_in(found["severity"], pa.array(_GRAVE))
    fault = pc.is_in(found["kind"], pa.array(of_section(Section.FAULTS)))
    judged = found.filter(pc.or_(pc.equal(found["kind"], HWM_REGRESSION), pc.and_(grave, fault)))
    stands = found.filter(pc.not_equal(found["verdict"], "excluded"))
    both = {*judged["verdict"].unique().to_pylist(), *stands["severity"].unique().to_pylist()}
    return {level for level in both if level is not None}
