"""Findings of records that break Kafka's rules or invariants.

Sources: schemas.RULE_DIFFERENCES (docs/rules.md) and catalogue.INVARIANT_VIOLATIONS (docs/invariants.md). Those
tables keep every row; this module picks the rows worth looking at.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array, bools
from replay.findings.columns import StatementColumn, finding_ids, finding_table, row_evidence, stated
from replay.findings.kinds import INVARIANT_VIOLATION, RULE_MISMATCH
from replay.invariants.catalogue import INVARIANTS

# (verdict, severity) of the differences that are decided. For the others the evidence allows several rules or inputs.
_DECIDED = {"known_bug": ("proven", "medium"), "unexplained": ("possible", "high")}
_RULE_VERSION = 6
# A node's file may have been edited since the process read it.
_OF_A_FILE = "_layer=(static|default)"


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
    places = {"offset": "offset", "captured_at_ms": "timestamp_ms"}
    evidence = row_evidence("change", "rule_differences", np.arange(len(chosen)), chosen, **places)
    return finding_table(columns, list(_difference_statements(chosen, bug)), [evidence], len(chosen))


def _difference_statements(rows: pa.Table, bug: Array) -> Iterator[StatementColumn]:
    """How the recorded change differs from the predicted one, and why. bug: whether a known bug explains it."""
    triggered = bools(rows["trigger"].is_valid())
    predicted = bools(pc.struct_field(rows["predicted"], "leader").is_valid())
    fields = pc.fill_null(pc.binary_join(rows["differs_in"], ","), "")
    text = pc.replace_substring(fields, ",", ", ")
    yield stated("rule_change", np.ones(len(rows), dtype=bool), offset=rows["offset"], text=text)
    yield stated("rule_trigger", triggered, offset=rows["trigger_offset"], text=rows["trigger"])
    yield stated("rule_no_trigger", ~triggered)
    yield stated("rule_known_bug", bug, text=rows["reason"])
    yield stated("rule_unexplained", ~bug)
    for name in ("leader", "isr", "elr"):
        differs = bools(pc.match_substring(pc.binary_join_element_wise(",", fields, ",", ""), f",{name},"))
        values = pc.struct_field(rows["predicted"], name).combine_chunks()
        if name != "leader":
            yield stated(f"rule_predicts_{name}", differs & predicted, brokers=values, text=rows["profile"])
            continue
        leader = pc.fill_null(values, -1).to_numpy()
        led = leader >= 0
        yield stated("rule_predicts_none", differs & predicted & ~led, text=rows["profile"])
        yield stated("rule_predicts_leader", differs & led, brokers=leader, text=rows["profile"])


def invariant_findings(violations: pa.Table, cluster_id: str) -> pa.Table:
    """schemas.FINDINGS of broken invariants, one for each catalogue.INVARIANT_VIOLATIONS row."""
    names = violations["invariant"].to_pylist()
    columns = {
        **{name: violations[name] for name in ("topic_id", "topic", "partition", "start_offset", "end_offset")},
        **{name: violations[name] for name in ("start_timestamp_ms", "end_timestamp_ms", "severity")},
        "finding_id": _ids(cluster_id, INVARIANT_VIOLATION, names, violations, "start_offset"),
        "kind": INVARIANT_VIOLATION,
        "verdict": pc.if_else(pc.match_substring_regex(violations["detail"], _OF_A_FILE), "possible", "proven"),
        "rule": violations["invariant"],
        "rule_version": _RULE_VERSION,
    }
    places = {"offset": "start_offset", "captured_at_ms": "start_timestamp_ms"}
    evidence = row_evidence("violation", "invariant_violations", np.arange(len(violations)), violations, **places)
    everywhere = np.ones(len(violations), dtype=bool)
    has_brokers = bools(pc.greater(pc.list_value_length(violations["brokers"]), 0))
    detail, offset = violations["detail"], violations["start_offset"]
    statements = [
        stated("invariant_broken", everywhere, text=_texts(names, "definition")),
        stated("invariant_detail", bools(pc.not_equal(detail, "")), offset=offset, text=detail),
        stated("invariant_brokers", has_brokers, brokers=violations["brokers"]),
        stated("invariant_rows", everywhere, value=violations["rows"]),
        stated("invariant_means", everywhere, text=_texts(names, "meaning")),
    ]
    return finding_table(columns, statements, [evidence], len(violations))


def _texts(names: list[str], field: str) -> pa.Array:
    """The catalogue's text for each invariant; null for an invariant that is not in the catalogue."""
    known = {name: getattr(invariant, field) for name, invariant in INVARIANTS.items()}
    return pa.array([known.get(name) for name in names], pa.string())


def _ids(cluster_id: str, kind: str, rules: list[str], rows: pa.Table, offset: str) -> pa.Array:
    return finding_ids(cluster_id, kind, rules, *(rows[name].to_pylist() for name in ("topic_id", "partition", offset)))
