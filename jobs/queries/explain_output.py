"""Print an explained finding: its reason, its counterfactuals, and its evidence with the commands that show it.

Facts, bounds, assumptions, meanings and predictions have separate headings (jobs/report/templates/explain.txt.j2).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.console.options import DocumentFormat
from jobs.console.output import Format, print_rows, utc
from jobs.report.rendering import for_terminal, rendered
from jobs.report.sections import same_answers

Row = dict[str, Any]

_PROVENANCE = ("capture", "path", "sha256", "position", "batch_base_offset", "topic_id", "topic", "partition")
# The columns to show for a row, by table; default: all.
_SHOWN = {
    "partition_history": (
        *("offset", "leader", "leader_epoch", "partition_epoch", "replicas", "isr", "elr", "last_known_elr"),
        *("leader_recovery_state", "min_isr", "unclean_leader_election_enable", "removed"),
    )
}
_TIMES = ("timestamp_ms", "captured_at_ms")


def print_explained(found: Row, form: DocumentFormat) -> None:
    """Print to stdout. json: one array of one object. found: of `explain`."""
    if form == "json":
        print_rows([], [found], Format.JSON)
        return
    at = {row["offset"]: row["captured_at_ms"] for row in found["evidence"] if row["table"] == "partition_history"}
    text = rendered(
        "explain.txt.j2",
        for_terminal,
        finding=found,
        elected_ms=at.get(found["election_offset"]),
        entries=_entries(found["evidence"]),
        answers=same_answers(found["counterfactuals"]),
        fields=_fields,
    )
    sys.stdout.write(text.rstrip("\n") + "\n")


def _entries(evidence: Sequence[Row]) -> list[tuple[list[str], Row]]:
    """Pieces of evidence with their roles. Pieces with the same row and value are one entry, with all their roles."""
    entries: dict[str, tuple[list[str], Row]] = {}
    for row in evidence:
        key = json.dumps({k: v for k, v in row.items() if k != "role"}, default=str)
        entries.setdefault(key, ([], row))[0].append(row["role"] or "evidence")
    return list(entries.values())


def _fields(row: Row) -> str:
    """The non-null columns of the row of a piece of evidence, with their names."""
    found: Mapping[str, Any] | None = row["row"]
    if not found:
        return "this row is not in the lake"
    names = _SHOWN.get(row["table"]) or [n for n in found if n not in (*_PROVENANCE, *_TIMES)]
    values = [f"{n} {_value(found[n])}" for n in names if found.get(n) is not None]
    times = [utc(found[n]) for n in _TIMES if found.get(n) is not None]
    return "; ".join([", ".join(values), *times])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
