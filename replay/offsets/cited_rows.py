"""Rows of a finding's `evidence`: recorded states and observations of replicas."""

from typing import Any

from replay.arrow.schemas import PROVENANCE_NAMES
from replay.offsets.evidence import Row


def cited(role: str, source: str, row: Row, **more: object) -> dict[str, Any]:
    """A row with provenance as a schemas.EVIDENCE_ROW dict. more: its other columns."""
    return {"role": role, "source": source, **more, **{name: row[name] for name in PROVENANCE_NAMES}}


def state_row(role: str, state: Row) -> dict[str, Any]:
    """A recorded state. state: a schemas.PARTITION_HISTORY row."""
    shown = {"broker_id": state["leader"], "leader_epoch": state["leader_epoch"], "offset": state["offset"]}
    return cited(role, "partition_history", state, captured_at_ms=state["timestamp_ms"], **shown)


def source_columns(row: Row, role: str) -> dict[str, Any]:
    """The columns that say where a LOG_END_OFFSETS row was read."""
    return cited(role, row["source"], row, broker_id=row["broker_id"], captured_at_ms=row["captured_at_ms"])


def observation_row(role: str, row: Row, column: str = "log_end_offset") -> dict[str, Any]:
    """An observation of a replica (a LOG_END_OFFSETS row).

    column: the one whose value was used. If the row lacks it, another is taken: a leader's log end may also come from a
    sample of its log end.
    """
    names = (column, "log_end_offset", "high_watermark", "epoch_start_offset")
    value = next(row[name] for name in names if row[name] is not None)
    return {**source_columns(row, role), "value": value, "leader_epoch": row["leader_epoch"]}
