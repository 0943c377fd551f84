"""Print the result of `whatif`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.console.output import Format, print_rows, print_table, show_message, utc
from jobs.console.text import range_text

_SIDES = ("recorded", "would_be")
_ARROW = " -> "
# Shown also where they are the same.
_KEPT = ("partition", "since (UTC)", "lost")
_TIMES = {"leaderless": "leaderless_ms", "below min ISR": "under_min_isr_ms", "one replica left": "one_left_ms"}
# Columns that a narrow table leaves out, the least important first.
_DROP = (
    *(f"{name} (s)" for name in reversed(_TIMES)),
    *("elections", "from", "unclean", "since (UTC)", "leader"),
)


def print_differences(found: pa.Table, form: Format, cluster: str | None = None) -> None:
    """Print the partitions that would differ, with a total; as JSON or CSV, all partitions and columns, after the
    cluster's id."""
    if form is not Format.TABLE:
        found = found.add_column(0, "cluster_id", pa.array([cluster] * len(found), pa.string()))
        print_rows(found.column_names, found.to_pylist(), form)
        return
    differs = pc.or_(found["first_difference_offset"].is_valid(), found["undetermined_offset"].is_valid())
    rows = [_table_row(row) for row in found.filter(differs).to_pylist()]
    title = f"{len(rows)} of {len(found)} partitions would differ (hypothetical; recorded -> would be)"
    if rows:
        # Only columns in which something differs: all of them are there in JSON and CSV.
        shown = [name for name in rows[0] if name in _KEPT or any(_ARROW in str(row[name]) for row in rows)]
        print_table(shown, rows, title, _DROP)
    else:
        print(f"none of {len(found)} partitions would differ")
    unknown = found["undetermined_offset"].is_valid().to_pylist().count(True)
    if unknown:
        show_message(
            f"{unknown} partitions: the policy needs log ends that were not captured, so the outcome is unknown"
        )


def _table_row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "partition": f"{row['topic']}-{row['partition']}",
        "since (UTC)": utc(row["first_difference_timestamp_ms"]),
        "from": row["first_difference_offset"],
        "leader": _change(row["recorded_leader"], row["would_be_leader"]),
        "elections": _both(row, "elections"),
        "unclean": _both(row, "unclean_elections"),
        **{f"{name} (s)": _both(row, column, 1000) for name, column in _TIMES.items()},
        "lost": _change(*(_lost(row[f"loss_min_{s}"], row[f"loss_max_{s}"]) for s in _SIDES)),
    }


def _lost(low: int | None, high: int | None) -> str:
    """Bounds; "?" if they say nothing."""
    return "?" if not low and high is None else range_text(low, high)


def _both(row: dict[str, Any], name: str, unit: int = 1) -> str:
    values = (row[f"{name}_{side}"] for side in _SIDES)
    return _change(*("?" if v is None else round(v / unit) for v in values))


def _change(recorded: object, would_be: object) -> str:
    return str(recorded) if recorded == would_be else f"{recorded}{_ARROW}{would_be}"
