"""The levels that --fail-on checks: verdicts, `unknown`, severities, and the same of new findings only."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from jobs.lake.lake import Lake
from jobs.verdict.status import KEY, NEW, STATUS, with_status
from replay.findings.kinds import EVIDENCE_GAP, HWM_REGRESSION, Section, of_section
from replay.loss.verdicts import POSSIBLE, PROVEN

UNKNOWN, NEW_PREFIX = "unknown", "new-"
_GRAVE = ("critical", "high")


def levels(lake: Lake, running: bool = False) -> set[str]:
    """The levels of all clusters. running: as in `with_status`.

    Verdicts are those of windows, and of faults of the log of severity critical or high: other kinds of findings judge
    no loss. `unknown`: an undetermined window, a gap in the log, or nothing replayed. Severities are those of all
    findings that are not excluded. With `new-` before it: a level of a finding that is new and not acknowledged; that
    nothing was replayed is no finding, so it counts in every run.
    """
    found: set[str] = set()
    for cluster in lake.clusters():
        rows = with_status(lake, cluster, lake.read("findings", cluster, ("kind", *KEY)), running)
        found |= levels_of(rows)
        found |= {NEW_PREFIX + level for level in levels_of(rows.filter(pc.equal(rows[STATUS], NEW)))}
        if not lake.count("partition_history", cluster):
            found |= {UNKNOWN, NEW_PREFIX + UNKNOWN}
    return found


def levels_of(rows: pa.Table) -> set[str]:
    """The levels of some findings. rows: with kind, verdict and severity."""
    is_window = pc.equal(rows["kind"], HWM_REGRESSION)
    is_fault = pc.is_in(rows["kind"], pa.array(of_section(Section.FAULTS)))
    is_grave = pc.is_in(rows["severity"], pa.array(_GRAVE))
    judged = rows.filter(pc.or_(is_window, pc.and_(is_fault, is_grave)))
    found = {verdict for verdict in judged["verdict"].unique().to_pylist() if verdict in (PROVEN, POSSIBLE)}
    is_gap = pc.equal(rows["kind"], EVIDENCE_GAP)
    undetermined = pc.and_(is_window, pc.equal(rows["verdict"], "undetermined"))
    if pc.any(pc.or_(is_gap, undetermined)).as_py():
        found.add(UNKNOWN)
    stands = rows.filter(pc.not_equal(rows["verdict"], "excluded"))
    return found | {severity for severity in stands["severity"].unique().to_pylist() if severity is not None}
