"""The answer of `whatif` for people and programs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.console.output import Format, print_rows, print_table, show_message, utc

_TIMES = {"leaderless": "leaderless_ms", "below min ISR": "under_min_isr_ms", "one replica left": "one_left_ms"}


def print_differences(found: pa.Table, form: Format) -> None:
    """A table of the partitions that would differ, with totals; as JSON or CSV every partition with every column."""
    if form is not Format.TABLE:
        print_rows(found.column_names, found.to_pylist(), form)
        return
    differs = pc.or_(found["first_difference_offset"].is_valid(), found["undetermined_offset"].is_valid())
    rows = [_for_people(row) for row in found.filter(differs).to_pylist()]
    title = f"{len(rows)} of {len(found)} partitions would differ (hypothetical; recorded -> would be)"
    if rows:
        print_table(list(rows[0]), rows, title)
    else:
        print(f"none of {len(found)} partitions would differ")
    unknown = found["undetermined_offset"].is_valid().to_pylist().count(True)
    if unknown:
        show_message(
            f"{unknown} partitions: log ends that the choice needs were not seen; what would have been is not known"
        )


def _for_people(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "partition": f"{row['topic']}-{row['partition']}",
        "from": row["first_difference_offset"],
        "since (UTC)": utc(row["first_difference_timestamp_ms"]),
        "leader": _beside(row["recorded_leader"], row["would_be_leader"]),
        "elections": _both(row, "elections"),
        "unclean": _both(row, "unclean_elections"),
        **{f"{name}, s": _both(row, column, 1000) for name, column in _TIMES.items()},
        "lost": _beside(_loss(row, "recorded"), _loss(row, "would_be")),
    }


def _both(row: dict[str, Any], name: str, unit: int = 1) -> str:
    values = (row[f"{name}_{side}"] for side in ("recorded", "would_be"))
    return _beside(*("?" if v is None else round(v / unit) for v in values))


def _beside(recorded: object, would_be: object) -> str:
    return str(recorded) if recorded == would_be else f"{recorded} -> {would_be}"


def _loss(row: dict[str, Any], side: str) -> str:
    low, high = row[f"loss_min_{side}"], row[f"loss_max_{side}"]
    if low is None:
        return "?"
    return str(low) if low == high else f"{low} or more" if high is None else f"{low} to {high}"
