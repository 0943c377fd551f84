"""Rows of a finding's `evidence`: recorded states and observations of replicas."""

from __future__ import annotations

from typing import Any

from replay.arrow.schemas import PROVENANCE_NAMES
from replay.offsets.evidence import Row


def state_row(role: str, state: Row) -> dict[str, Any]:
    """A recorded state as a schemas.EVIDENCE_ROW dict. state: a schemas.PARTITION_HISTORY row."""
    return {
        "role": role,
        "source": "partition_history",
        "broker_id": state["leader"],
        "value": None,
        "leader_epoch": state["leader_epoch"],
        "offset": state["offset"],
        "captured_at_ms": state["timestamp_ms"],
        **{k: state[k] for k in PROVENANCE_NAMES},
    }


def source_columns(row: Row, role: str) -> dict[str, Any]:
    """The columns of a schemas.EVIDENCE_ROW dict that say where a LOG_END_OFFSETS row was read."""
    return {
        "role": role,
        "source": row["source"],
        "broker_id": row["broker_id"],
        "offset": None,
        "captured_at_ms": row["captured_at_ms"],
        **{k: row[k] for k in PROVENANCE_NAMES},
    }


def observation_row(role: str, row: Row, column: str = "log_end_offset") -> dict[str, Any]:
    """An observation of a replica (a LOG_END_OFFSETS row) as a schemas.EVIDENCE_ROW dict.

    column: the one whose value was used. If the row lacks it, another is taken: a leader's log end may also come from a
    sample of its log end.
    """
    names = (column, "log_end_offset", "high_watermark", "epoch_start_offset")
    value = next(row[name] for name in names if row[name] is not None)
    return {**source_columns(row, role), "value": value, "leader_epoch": row["leader_epoch"]}
