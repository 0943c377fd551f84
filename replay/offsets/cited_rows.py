"""What a finding stands on, as rows of its `evidence`: recorded states, and what was seen of replicas."""

from __future__ import annotations

from typing import Any

from replay.arrow.schemas import PROVENANCE_NAMES
from replay.offsets.evidence import Row


def state_row(role: str, state: Row) -> dict[str, Any]:
    """A recorded state as a tables.EVIDENCE_ROW. state: of tables.PARTITION_HISTORY."""
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


def placed(row: Row, role: str) -> dict[str, Any]:
    return {
        "role": role,
        "source": row["source"],
        "broker_id": row["broker_id"],
        "offset": None,
        "captured_at_ms": row["captured_at_ms"],
        **{k: row[k] for k in PROVENANCE_NAMES},
    }


def observation_row(role: str, row: Row, column: str = "log_end_offset") -> dict[str, Any]:
    """What was seen of a replica (a LOG_END_OFFSETS row) as a tables.EVIDENCE_ROW. column: the one that was used, if
    the row has it: a leader's log end may come from a sample of its log end, too."""
    names = (column, "log_end_offset", "high_watermark", "epoch_start_offset")
    value = next(row[name] for name in names if row[name] is not None)
    return {**placed(row, role), "value": value, "leader_epoch": row["leader_epoch"]}
