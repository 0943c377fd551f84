"""Checks of findings: their evidence exists, their figures are reproduced, their verdict fits the figures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from quality.check import Check, Kind, Limits, Scope, Violations, broken
from quality.columns import NULL, Array, Rows, Tables, unknown

_FILE = ("capture", "path", "sha256")
_PLACE = ("sha256", "path", "position")
_KEY = ("finding_id",)
# Tables with rows that evidence is from, beside those about metadata records.
_READINGS = ("log_end_offsets", "described_partitions", "quorum_reports", "broker_log_events", "quarantine")
_OTHERS = (*_READINGS, "log_batches", "snapshot_records")
_OF_STATES = ("partition_history",)
# The statement of the reason that gives a column's figure.
_STATED = {
    "loss_min": "lost_at_least",
    "loss_max": "lost_at_most",
    "first_lost_offset": "first_lost",
    "unacked_min": "unacked_at_least",
    "unacked_max": "unacked_at_most",
}
_REACHED = "high_watermark_at_least"  # or an inference, floor_...
_AGAIN = "Run detect again on a lake of this release; if it is still broken, report it with the capture."


def checks() -> Iterator[Check]:
    yield Check(
        "findings",
        "evidence_file_known",
        Kind.VALIDITY,
        "The files that a finding's evidence names are in evidence_files.",
        "Evidence was removed: run detect again, or ingest the capture again.",
        _files,
        {"findings": (*_KEY, "evidence"), "evidence_files": _FILE},
        ("of_finding_id", "role", "path"),
    )
    yield Check(
        "findings",
        "evidence_row_exists",
        Kind.VALIDITY,
        f"A reading, line or batch that is evidence is a row of {', '.join(_OTHERS)}.",
        _AGAIN,
        _rows,
        {"findings": (*_KEY, "evidence"), **dict.fromkeys(_OTHERS, _PLACE)},
        ("of_finding_id", "role", "source", "path", "position"),
    )
    yield Check(
        "findings",
        "evidence_state_exists",
        Kind.VALIDITY,
        "A state that is evidence is a row of partition_history, with the same leader epoch.",
        _AGAIN,
        _states,
        {
            "findings": (*_KEY, "topic_id", "partition", "evidence"),
            "partition_history": ("topic_id", "partition", "offset", "leader_epoch"),
        },
        ("of_finding_id", "role", "offset"),
        Scope.TOPIC,
    )
    yield Check(
        "findings",
        "counts_reproduced",
        Kind.RECONCILIATION,
        "The statements of the reason give the figures again; a loss is the high watermark less the new leader's log "
        "end.",
        _AGAIN,
        _counts,
        {"findings": (*_KEY, "kind", *_STATED, "reason")},
        (*_KEY, *_STATED),
        Scope.ROWS,
    )
    yield Check(
        "findings",
        "verdict_fits",
        Kind.CONSISTENCY,
        "A window is proven if, and only if, loss_min is above 0; an excluded one has no loss_max above 0.",
        _AGAIN,
        _verdict,
        {"findings": (*_KEY, "kind", "verdict", "loss_min", "loss_max")},
        (*_KEY, "verdict", "loss_min", "loss_max"),
        Scope.ROWS,
    )
    yield Check(
        "findings",
        "topic_known",
        Kind.VALIDITY,
        "The topic id of a window is in partition_history.",
        _AGAIN,
        _topics,
        {"findings": (*_KEY, "kind", "topic_id"), "partition_history": ("topic_id",)},
        (*_KEY, "topic_id"),
        Scope.TOPIC,
    )


def _evidence(tables: Tables, *keep: str) -> Rows:
    return tables["findings"].exploded("evidence", (*_KEY, *keep))


def _files(tables: Tables, _: Limits) -> Violations:
    rows = _evidence(tables)
    return broken(rows, rows.valid("sha256") & unknown(rows, _FILE, (tables["evidence_files"], _FILE)))


def _rows(tables: Tables, _: Limits) -> Violations:
    rows = _evidence(tables)
    is_row = rows.valid("sha256") & ~rows.in_set("source", (*_OF_STATES, "rule_differences", "invariant_violations"))
    rows = rows.where(is_row)
    return broken(rows, unknown(rows, _PLACE, *((tables[name], _PLACE) for name in _OTHERS)))


def _states(tables: Tables, _: Limits) -> Violations:
    rows = _evidence(tables, "topic_id", "partition")
    rows = rows.where(rows.in_set("source", _OF_STATES) & rows.valid("of_topic_id") & rows.valid("offset"))
    history, key = tables["partition_history"], ("topic_id", "partition", "offset")
    missing = unknown(rows, ("of_topic_id", "of_partition", "offset"), (history, key))
    other = unknown(rows, ("of_topic_id", "of_partition", "offset", "leader_epoch"), (history, (*key, "leader_epoch")))
    return broken(rows, missing | (rows.valid("leader_epoch") & other))


def _counts(tables: Tables, _: Limits) -> Violations:
    rows = tables["findings"]
    rows = rows.where(rows.in_set("kind", ("hwm_regression",)))
    stated = _values(rows)
    wrong = np.zeros(len(rows), dtype=bool)
    for column, code in _STATED.items():
        value = stated[code]
        wrong |= (value != NULL) & (value != rows.ints(column))
    end = np.where(stated["log_end"] == NULL, stated["log_end_at_most"], stated["log_end"])
    reached = stated[_REACHED]
    lost = rows.ints("loss_min")
    wrong |= (lost > 0) & ((reached == NULL) | (end == NULL) | (np.where(lost > 0, reached - end, lost) != lost))
    return broken(rows, wrong)


def _values(rows: Rows) -> dict[str, Array]:
    """By code, the value of each finding's first statement with that code; NULL where there is none."""
    reasons = rows.table["reason"].combine_chunks()
    parent = pc.list_parent_indices(reasons).to_numpy()
    statements = pc.list_flatten(reasons)
    value = pc.fill_null(pc.struct_field(statements, "value"), NULL).to_numpy()
    named = pc.struct_field(statements, "code").to_pylist()
    codes = np.array([_REACHED if code.startswith("floor_") else code for code in named], dtype=object)
    found = {}
    for code in (*_STATED.values(), "log_end", "log_end_at_most", _REACHED):
        at = np.flatnonzero(codes == code)[::-1]
        found[code] = np.full(len(rows), NULL)
        found[code][parent[at]] = value[at]
    return found


def _verdict(tables: Tables, _: Limits) -> Violations:
    rows = tables["findings"]
    windows = rows.in_set("kind", ("hwm_regression",))
    lost, most = rows.ints("loss_min", 0) > 0, rows.ints("loss_max", 0) > 0
    proven, excluded = rows.in_set("verdict", ("proven",)), rows.in_set("verdict", ("excluded",))
    return broken(rows, windows & ((proven != lost) | (excluded & most)))


def _topics(tables: Tables, _: Limits) -> Violations:
    rows = tables["findings"]
    windows = rows.in_set("kind", ("hwm_regression", "leaderless", "last_replica_standing", "log_truncation"))
    return broken(rows, windows & unknown(rows, ("topic_id",), (tables["partition_history"], ("topic_id",))))
