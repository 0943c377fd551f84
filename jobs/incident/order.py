"""The order of findings, for the report's sections and for the table of flagged windows.

Arrow sorts all findings of a lake by a few columns; only the findings that are shown are then read completely.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX
from replay.arrow.schemas import FINDINGS
from replay.findings.kinds import HWM_REGRESSION, Section, of_section
from replay.loss.verdicts import EXCLUDED, LEANINGS, SEVERITIES, UNDETERMINED, VERDICTS

# The columns that determine sections and their order.
KEYS = pa.schema(
    [
        FINDINGS.field(name)
        for name in (
            "finding_id",
            "kind",
            "verdict",
            "severity",
            "loss_min",
            "loss_max",
            "topic",
            "topic_id",
            "partition",
            "start_offset",
            "end_offset",
            "election_offset",
            "start_timestamp_ms",
            "end_timestamp_ms",
            "likely",
            "would_be_leader",
            "lasted_ms",
        )
    ]
)

_WHERE = ("topic", "topic_id", "partition", "start_offset", "finding_id")
# Decided windows lean no way: proven ones come first.
_MOST_LOST = ("leaning_rank", "verdict_rank", "-loss_min", "-conceivable", *_WHERE)
_ORDERS = {
    Section.WINDOWS: _MOST_LOST,
    Section.EXCLUDED: _MOST_LOST,
    # Predictions about a window stay together, at the place of the worst one; equal answers are adjacent.
    Section.OTHER_RULES: (
        *("gravest", "-most", "topic", "topic_id", "partition", "election_offset"),
        *("-loss_min", "-conceivable", "would_be_leader", "severity_rank", "start_offset", "finding_id"),
    ),
    Section.EXPOSURES: ("-lasted_ms", *_WHERE),
}
_GRAVEST = ("severity_rank", "verdict_rank", *_WHERE)


def ordered(findings: pa.Table, section: Section) -> pa.Table:
    """The rows of a section, in order. findings: with the columns KEYS, and any others."""
    rows = findings.filter(_is_in(findings, section))
    ranks = {
        "severity_rank": pc.fill_null(pc.index_in(rows["severity"], value_set=pa.array(SEVERITIES)), -1),
        "verdict_rank": pc.index_in(pc.fill_null(rows["verdict"], UNDETERMINED), value_set=pa.array(VERDICTS)),
        "leaning_rank": pc.fill_null(pc.index_in(rows["likely"], value_set=pa.array(LEANINGS)), -1),
        "conceivable": _conceivable(rows),
    }
    if section is Section.OTHER_RULES:
        ranks |= _of_windows(rows, ranks["severity_rank"])
    keys = _ORDERS.get(section, _GRAVEST)
    names = [key.removeprefix("-") for key in keys]
    table = pa.table({name: ranks[name] if name in ranks else rows[name] for name in names})
    order = [(n, "descending" if key.startswith("-") else "ascending") for n, key in zip(names, keys, strict=True)]
    return rows.take(pc.sort_indices(table, order))


def _is_in(findings: pa.Table, section: Section) -> pa.ChunkedArray:
    if section in (Section.WINDOWS, Section.EXCLUDED):
        excluded = pc.equal(pc.fill_null(findings["verdict"], UNDETERMINED), EXCLUDED)
        wanted = excluded if section is Section.EXCLUDED else pc.invert(excluded)
        return pc.and_(pc.equal(findings["kind"], HWM_REGRESSION), wanted)
    return pc.is_in(findings["kind"], value_set=pa.array(of_section(section), pa.string()))


def _conceivable(findings: pa.Table) -> pa.ChunkedArray:
    """The largest loss that the bounds allow. No upper bound sorts above any loss, no bounds at all below."""
    nothing = pc.and_(findings["loss_max"].is_null(), findings["loss_min"].is_null())
    return pc.fill_null(pc.if_else(nothing, -1, findings["loss_max"]), INT64_MAX)


def _of_windows(findings: pa.Table, severity_rank: pa.ChunkedArray) -> dict[str, pa.Array]:
    """The worst severity and the largest certain loss among the predictions for each row's window."""
    names = [findings[name].cast(pa.string()) for name in ("topic_id", "partition", "election_offset")]
    window = pc.binary_join_element_wise(*names, "|", null_handling="replace").combine_chunks()
    table = pa.table({"window": window, "severity_rank": severity_rank, "loss_min": findings["loss_min"]})
    best = table.group_by("window").aggregate([("severity_rank", "min"), ("loss_min", "max")])
    at = pc.index_in(window, value_set=best["window"])
    return {"gravest": best["severity_rank_min"].take(at), "most": best["loss_min_max"].take(at)}
