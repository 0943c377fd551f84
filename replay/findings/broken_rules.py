"""Findings of records that break Kafka's rules or invariants.

Sources: schemas.RULE_DIFFERENCES (docs/rules.md) and catalogue.INVARIANT_VIOLATIONS (docs/invariants.md). Those
tables keep every row; this module picks the rows worth looking at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array, bools
from replay.arrow.schemas import PROVENANCE_NAMES
from replay.findings.columns import EvidenceColumn, StatementColumn, finding_table
from replay.findings.kinds import INVARIANT_VIOLATION, RULE_MISMATCH, finding_id
from replay.invariants.catalogue import INVARIANTS

# (verdict, severity) of the differences that are decided. For the others the evidence allows several rules or inputs.
_DECIDED = {"known_bug": ("proven", "medium"), "unexplained": ("possible", "high")}
_RULE_VERSION = 1


def rule_mismatch_findings(differences: pa.Table, cluster_id: str) -> pa.Table:
    """schemas.FINDINGS of the partition changes that a known bug explains, or that nothing explains.

    differences: schemas.RULE_DIFFERENCES rows.
    """
    chosen = differences.filter(pc.is_in(differences["difference"], value_set=pa.array(list(_DECIDED))))
    bug = bools(pc.equal(chosen["difference"], "known_bug"))
    verdict, severity = (np.where(bug, *column) for column in zip(*_DECIDED.values(), strict=True))
    columns = {
        **{name: chosen[name] for name in ("topic_id", "topic", "partition")},
        "finding_id": _ids(cluster_id, RULE_MISMATCH, ["rule"] * len(chosen), chosen, "offset"),
        "kind": RULE_MISMATCH,
        "start_offset": chosen["offset"],
        "start_timestamp_ms": chosen["timestamp_ms"],
        "verdict": pa.array(verdict.tolist(), pa.string()),
        "severity": pa.array(severity.tolist(), pa.string()),
        "ticket": pc.if_else(pa.array(bug), chosen["reason"], None),
        "rule": pc.fill_null(chosen["profile"], RULE_MISMATCH),
        "rule_version": _RULE_VERSION,
    }
    evidence = _evidence("change", "rule_differences", chosen, "offset", "timestamp_ms")
    return finding_table(columns, list(_difference_statements(chosen, bug)), [evidence], len(chosen))


def _difference_statements(rows: pa.Table, bug: Array) -> Iterator[StatementColumn]:
    """How the recorded change differs from the predicted one, and why. bug: whether a known bug explains it."""
    triggered = bools(rows["trigger"].is_valid())
    predicted = bools(pc.struct_field(rows["predicted"], "leader").is_valid())
    fields = pc.fill_null(pc.binary_join(rows["differs_in"], ","), "")
    text = pc.replace_substring(fields, ",", ", ")
    yield _statement("rule_change", rows, np.ones(len(rows), dtype=bool), offset=rows["offset"], text=text)
    yield _statement("rule_trigger", rows, triggered, offset=rows["trigger_offset"], text=rows["trigger"])
    yield _statement("rule_no_trigger", rows, ~triggered)
    yield _statement("rule_known_bug", rows, bug, text=rows["reason"])
    yield _statement("rule_unexplained", rows, ~bug)
    for name in ("leader", "isr", "elr"):
        differs = bools(pc.match_substring(pc.binary_join_element_wise(",", fields, ",", ""), f",{name},"))
        values = pc.struct_field(rows["predicted"], name).combine_chunks()
        if name != "leader":
            yield _statement(f"rule_predicts_{name}", rows, differs & predicted, brokers=values, text=rows["profile"])
            continue
        led = bools(pc.greater_equal(values, 0))
        yield _statement("rule_predicts_none", rows, differs & predicted & ~led, text=rows["profile"])
        leader = _single_lists(values)
        yield _statement("rule_predicts_leader", rows, differs & led, brokers=leader, text=rows["profile"])


def _single_lists(values: pa.Array) -> pa.Array:
    """Lists of one value each."""
    return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1), pa.int32()), values)


def _statement(code: str, rows: pa.Table, where: Array, **figures: Any) -> StatementColumn:
    """A statement about the rows where `where` is true; figures: one element for each row."""
    at = np.flatnonzero(where)
    return StatementColumn(code, at, **{name: values.take(pa.array(at)) for name, values in figures.items()})


def invariant_findings(violations: pa.Table, cluster_id: str) -> pa.Table:
    """schemas.FINDINGS of broken invariants, one for each catalogue.INVARIANT_VIOLATIONS row."""
    names = violations["invariant"].to_pylist()
    columns = {
        **{name: violations[name] for name in ("topic_id", "topic", "partition", "start_offset", "end_offset")},
        **{name: violations[name] for name in ("start_timestamp_ms", "end_timestamp_ms", "severity")},
        "finding_id": _ids(cluster_id, INVARIANT_VIOLATION, names, violations, "start_offset"),
        "kind": INVARIANT_VIOLATION,
        "verdict": "proven",
        "rule": violations["invariant"],
        "rule_version": _RULE_VERSION,
    }
    evidence = _evidence("violation", "invariant_violations", violations, "start_offset", "start_timestamp_ms")
    everywhere = np.ones(len(violations), dtype=bool)
    has_brokers = bools(pc.greater(pc.list_value_length(violations["brokers"]), 0))
    detail, offset = violations["detail"], violations["start_offset"]
    statements = [
        _statement("invariant_broken", violations, everywhere, text=_texts(names, "definition")),
        _statement("invariant_detail", violations, bools(pc.not_equal(detail, "")), offset=offset, text=detail),
        _statement("invariant_brokers", violations, has_brokers, brokers=violations["brokers"]),
        _statement("invariant_rows", violations, everywhere, value=violations["rows"]),
        _statement("invariant_means", violations, everywhere, text=_texts(names, "meaning")),
    ]
    return finding_table(columns, statements, [evidence], len(violations))


def _texts(names: list[str], field: str) -> pa.Array:
    """The catalogue's text for each invariant; null for an invariant that is not in the catalogue."""
    known = {name: getattr(invariant, field) for name, invariant in INVARIANTS.items()}
    return pa.array([known.get(name) for name in names], pa.string())


def _ids(cluster_id: str, kind: str, rules: list[str], rows: pa.Table, offset: str) -> pa.Array:
    keys = zip(rules, *(rows[name].to_pylist() for name in ("topic_id", "partition", offset)), strict=True)
    return pa.array([finding_id(cluster_id, kind, *key) for key in keys], pa.string())


def _evidence(role: str, source: str, rows: pa.Table, offset: str, timestamp_ms: str) -> EvidenceColumn:
    columns = {
        "offset": rows[offset],
        "captured_at_ms": rows[timestamp_ms],
        **{name: rows[name] for name in PROVENANCE_NAMES},
    }
    return EvidenceColumn(role, source, np.arange(len(rows)), columns)
