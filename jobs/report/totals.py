"""Count all findings and predictions, including those that the page leaves out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from jobs.report.rows import MAX_GROUPS, Row, Totals
from replay.findings.kinds import Section, of_section

# Findings are counted by these columns.
GROUPS = ("kind", "verdict", "rule", "rule_version")
# Sum decimals: values from damaged files may overflow 64 bits.
_SUM = pa.decimal128(38, 0)


def totals_of(findings: pa.Table) -> Totals:
    """Count findings. findings: with the columns GROUPS and order.KEYS."""
    lasted = findings["lasted_ms"]
    counted = pa.table(
        {
            **{name: findings[name] for name in GROUPS},
            "unended": findings["end_offset"].is_null(),
            "longest_ms": lasted,
            "lasted_ms": pc.max_element_wise(pc.fill_null(lasted, 0), 0).cast(_SUM),
        }
    )
    sums = [([], "count_all"), ("unended", "sum"), ("longest_ms", "max"), ("lasted_ms", "sum")]
    groups = counted.group_by(list(GROUPS)).aggregate(sums)
    named = {"count_all": "findings", "unended_sum": "unended", "longest_ms_max": "longest_ms"}
    groups = groups.rename_columns([named.get(n, n.removesuffix("_sum")) for n in groups.column_names])
    return Totals([{**group, "lasted_ms": int(group["lasted_ms"])} for group in groups.to_pylist()])


def exposure_groups(findings: pa.Table) -> list[Row]:
    """Exposures by kind and topic, leaderless first, then the longest in total: rows {kind, topic, findings,
    partitions, unended, lasted_ms, longest_ms, first_ms}, at most MAX_GROUPS. findings: as in `totals_of`."""
    rows = findings.filter(pc.is_in(findings["kind"], value_set=pa.array(of_section(Section.EXPOSURES))))
    lasted = rows["lasted_ms"]
    table = pa.table(
        {
            **{name: rows[name] for name in ("kind", "topic", "partition")},
            "unended": rows["end_offset"].is_null(),
            "longest_ms": lasted,
            "lasted_ms": pc.max_element_wise(pc.fill_null(lasted, 0), 0).cast(_SUM),
            "first_ms": rows["start_timestamp_ms"],
        }
    )
    sums = [([], "count_all"), ("partition", "count_distinct"), ("unended", "sum"), ("longest_ms", "max")]
    groups = table.group_by(["kind", "topic"]).aggregate([*sums, ("lasted_ms", "sum"), ("first_ms", "min")])
    named = {"count_all": "findings", "partition_count_distinct": "partitions", "unended_sum": "unended"}
    named |= {"longest_ms_max": "longest_ms", "lasted_ms_sum": "lasted_ms", "first_ms_min": "first_ms"}
    groups = groups.rename_columns([named.get(name, name) for name in groups.column_names])
    order = [("kind", "descending"), ("lasted_ms", "descending"), ("topic", "ascending")]
    found = groups.sort_by(order).slice(0, MAX_GROUPS).to_pylist()
    return [{**row, "lasted_ms": int(row["lasted_ms"])} for row in found]


def policy_totals(counterfactuals: pa.Table) -> list[Row]:
    """What would have been lost under each policy: rows {policy, windows, elected, waits, undetermined, differs,
    loss_min, loss_max}. Losses are of windows where it elects a leader; loss_max is null if one has no upper bound.
    counterfactuals: with `policy`, `outcome`, `loss_min`, `loss_max`, `differs`."""
    elected = pc.equal(counterfactuals["outcome"], "elected")
    low, high = counterfactuals["loss_min"], counterfactuals["loss_max"]
    table = pa.table(
        {
            "policy": counterfactuals["policy"],
            **{name: pc.equal(counterfactuals["outcome"], name) for name in ("elected", "waits", "undetermined")},
            "differs": counterfactuals["differs"],
            "loss_min": pc.if_else(elected, pc.fill_null(low, 0), 0).cast(_SUM),
            "loss_max": pc.if_else(elected, pc.fill_null(high, 0), 0).cast(_SUM),
            "open": pc.and_(elected, high.is_null()),
        }
    )
    sums = ("elected", "waits", "undetermined", "differs", "loss_min", "loss_max", "open")
    groups = table.group_by("policy").aggregate([([], "count_all"), *((name, "sum") for name in sums)])
    return [
        {
            "policy": row["policy"],
            "windows": row["count_all"],
            **{name: row[f"{name}_sum"] or 0 for name in ("elected", "waits", "undetermined", "differs")},
            "loss_min": int(row["loss_min_sum"] or 0),
            "loss_max": None if row["open_sum"] else int(row["loss_max_sum"] or 0),
        }
        for row in groups.to_pylist()
    ]
