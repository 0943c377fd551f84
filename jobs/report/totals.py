"""Count all findings, including those that the page leaves out."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from jobs.incident.order import lasted_ms
from jobs.report.rows import Totals

# Findings are counted by these columns.
GROUPS = ("kind", "verdict", "rule", "rule_version")
# Sum decimals: values from damaged files may overflow 64 bits.
_SUM = pa.decimal128(38, 0)


def totals_of(findings: pa.Table) -> Totals:
    """Count findings. findings: with the columns GROUPS and order.KEYS."""
    lasted = lasted_ms(findings)
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
