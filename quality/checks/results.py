"""Checks of what replay and detect concluded: sessions, metrics, elections, differences, violations, predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quality.check import Check, Kind, Limits, Scope, Violations, broken
from quality.columns import NULL, Array, Rows, Tables, numbers, places, unknown
from quality.digests import RECORD_OFFSETS, covered

_KEY = ("topic_id", "partition", "offset")
_AGAIN = "Run replay and detect again on a lake of this release; if it is still broken, report it with the capture."
_LEADS = (*_KEY, "leader", "leader_epoch")


def checks() -> Iterator[Check]:
    yield from _of_cluster()
    yield from _of_elections()
    yield Check(
        "rule_differences",
        "change_exists",
        Kind.VALIDITY,
        "The change that differs is a state of partition_history.",
        _AGAIN,
        lambda tables, _: _absent(tables["rule_differences"], _KEY, tables["partition_history"], _KEY),
        {"rule_differences": _KEY, "partition_history": _KEY},
        _KEY,
        Scope.TOPIC,
    )
    yield Check(
        "rule_differences",
        "profile_possible",
        Kind.CONSISTENCY,
        "The profile that gives the prediction is among the possible profiles, unless it has a known bug mended.",
        _AGAIN,
        _profile,
        {"rule_differences": (*_KEY, "difference", "profile", "profiles")},
        (*_KEY, "profile"),
        Scope.ROWS,
    )
    yield Check(
        "invariant_violations",
        "evidence_exists",
        Kind.VALIDITY,
        "The records that show a violation are in metadata_records, or are before the log.",
        _AGAIN,
        _evidence_offsets,
        {
            "invariant_violations": ("invariant", "topic_id", "partition", "start_offset", "evidence_offsets"),
            RECORD_OFFSETS: ("first", "last"),
            "quorum_history": ("offset", "origin"),
        },
        ("invariant", "topic_id", "partition", "start_offset"),
        Scope.ROWS,
    )
    yield Check(
        "counterfactuals",
        "finding_exists",
        Kind.VALIDITY,
        "The finding of a prediction is in findings, with the same election.",
        _AGAIN,
        lambda tables, _: _absent(
            tables["counterfactuals"], ("finding_id", "offset"), tables["findings"], ("finding_id", "election_offset")
        ),
        {"counterfactuals": ("finding_id", "offset", "policy"), "findings": ("finding_id", "election_offset")},
        ("finding_id", "policy", "offset"),
    )
    yield Check(
        "counterfactuals",
        "outcome_fits",
        Kind.CONSISTENCY,
        "A prediction names a leader if its outcome is elected, and only then.",
        _AGAIN,
        _outcome,
        {"counterfactuals": ("finding_id", "policy", "outcome", "leader")},
        ("finding_id", "policy", "outcome", "leader"),
        Scope.ROWS,
    )
    yield Check(
        "quality_results",
        "runs_whole",
        Kind.CONSISTENCY,
        "A run has one time, and one fingerprint for each suite; success means that no row broke the expectation.",
        "Rows of quality_results were changed: do not rely on the trend before the newest run.",
        _runs,
        {
            "quality_results": (
                *("run_id", "run_at_ms", "suite_fingerprint", "suite", "expectation", "success", "unexpected_count"),
            )
        },
        ("run_id", "suite", "expectation"),
    )


def _of_cluster() -> Iterator[Check]:
    yield Check(
        "broker_history",
        "epochs_rise",
        Kind.CONSISTENCY,
        "The broker epoch of a broker does not fall.",
        _AGAIN,
        _broker_epochs,
        {"broker_history": ("broker_id", "offset", "broker_epoch")},
        ("broker_id", "offset", "broker_epoch"),
    )
    yield Check(
        "broker_history",
        "restart_evidence_exists",
        Kind.VALIDITY,
        "The partition changes that prove how a session ended are in metadata_records.",
        _AGAIN,
        _restart_evidence,
        {"broker_history": ("broker_id", "offset", "restart_evidence"), RECORD_OFFSETS: ("first", "last")},
        ("broker_id", "offset"),
        Scope.ROWS,
    )
    yield Check(
        "quorum_history",
        "epochs_rise",
        Kind.CONSISTENCY,
        "The controller epoch does not fall.",
        _AGAIN,
        _quorum_epochs,
        {"quorum_history": ("offset", "controller_epoch")},
        ("offset", "controller_epoch"),
    )
    yield Check(
        "quorum_history",
        "leader_is_voter",
        Kind.CONSISTENCY,
        "The active controller is among the voters, where they are known.",
        "See leader_is_voter in docs/invariants.md.",
        _leader_votes,
        {"quorum_history": ("offset", "leader_id", "voters")},
        ("offset", "leader_id", "voters"),
        Scope.ROWS,
    )
    yield Check(
        "config_history",
        "source_fits",
        Kind.CONSISTENCY,
        "An effective value has a source, and a source has an effective value.",
        _AGAIN,
        _source,
        {"config_history": ("resource_type", "resource_name", "name", "offset", "effective_value", "source")},
        ("resource_type", "resource_name", "name", "offset", "source"),
        Scope.ROWS,
    )
    yield Check(
        "cluster_metrics",
        "electable_reproduced",
        Kind.RECONCILIATION,
        "electable_replicas_count is the number of members of ISR and ELR in the state of the same offset.",
        _AGAIN,
        _electable,
        {
            "cluster_metrics": ("metric", *_KEY, "value"),
            "partition_history": (*_KEY, "isr", "elr", "removed"),
        },
        ("metric", *_KEY, "value"),
        Scope.TOPIC,
    )


def _of_elections() -> Iterator[Check]:
    yield Check(
        "elections",
        "changes_listed",
        Kind.COMPLETENESS,
        "Every change of leader in partition_history has its election.",
        _AGAIN,
        _listed,
        {"elections": _KEY, "partition_history": (*_KEY, "leader", "removed", "origin")},
        (*_KEY, "leader"),
        Scope.TOPIC,
    )
    yield Check(
        "elections",
        "agrees_with_history",
        Kind.AGREEMENT,
        "An election's leader and leader epoch are those of the state of the same offset.",
        _AGAIN,
        lambda tables, _: _absent(tables["elections"], _LEADS, tables["partition_history"], _LEADS),
        {"elections": _LEADS, "partition_history": _LEADS},
        _LEADS,
        Scope.TOPIC,
    )
    yield Check(
        "elections",
        "candidates_are_replicas",
        Kind.CONSISTENCY,
        "The candidates are replicas of the state of the same offset.",
        _AGAIN,
        _candidates,
        {"elections": (*_KEY, "candidates"), "partition_history": (*_KEY, "replicas")},
        (*_KEY, "candidates"),
        Scope.TOPIC,
    )


def _absent(rows: Rows, key: tuple[str, ...], known: Rows, names: tuple[str, ...]) -> Violations:
    return broken(rows, unknown(rows, key, (known, names)))


def _profile(tables: Tables, _: Limits) -> Violations:
    rows = tables["rule_differences"]
    listed = rows.table["profiles"].combine_chunks()
    named, possible = numbers(rows.columns("profile"), [pa.chunked_array([pc.list_flatten(listed)])])
    parents = pc.list_parent_indices(listed).to_numpy()
    known = np.zeros(len(rows), dtype=bool)
    known[parents[named[parents] == possible]] = True
    strange = rows.valid("profile") & ~known
    return broken(rows, strange & ~rows.in_set("difference", ("known_bug",)))


def _evidence_offsets(tables: Tables, _: Limits) -> Violations:
    rows, quorum = tables["invariant_violations"], tables["quorum_history"]
    snapshots = quorum.ints("offset")[quorum.in_set("origin", ("checkpoint",))]
    return _offsets_exist(rows, "evidence_offsets", tables[RECORD_OFFSETS], snapshots)


def _restart_evidence(tables: Tables, _: Limits) -> Violations:
    return _offsets_exist(tables["broker_history"], "restart_evidence", tables[RECORD_OFFSETS])


def _offsets_exist(rows: Rows, column: str, records: Rows, others: Array | Sequence[int] = ()) -> Violations:
    members = rows.lists(column).members
    known = (members == NULL) | covered(records, members) | np.isin(members, others)
    return broken(rows, ~known.all(axis=1))


def _outcome(tables: Tables, _: Limits) -> Violations:
    rows = tables["counterfactuals"]
    return broken(rows, rows.in_set("outcome", ("elected",)) != rows.valid("leader"))


def _runs(tables: Tables, _: Limits) -> Violations:
    rows = tables["quality_results"]
    wrong = np.zeros(len(rows), dtype=bool)
    for subject, value in ((("run_id",), "run_at_ms"), (("run_id", "suite"), "suite_fingerprint")):
        (number,) = numbers(rows.columns(*subject))
        head = Rows(rows.table.take(pa.array(np.unique(number, return_index=True)[1])))
        wrong |= unknown(rows, (*subject, value), (head, (*subject, value)))
    return broken(rows, wrong | (rows.true("success") != (rows.ints("unexpected_count") == 0)))


def _broker_epochs(tables: Tables, _: Limits) -> Violations:
    rows = tables["broker_history"]
    rows = rows.where(rows.valid("broker_epoch"))
    rows = rows.sorted_by(rows.ints("broker_id"), rows.ints("offset"))
    broker, epoch = rows.ints("broker_id"), rows.ints("broker_epoch")
    return broken(rows, np.append(False, (broker[1:] == broker[:-1]) & (epoch[1:] < epoch[:-1]))[: len(rows)])


def _quorum_epochs(tables: Tables, _: Limits) -> Violations:
    rows = tables["quorum_history"]
    rows = rows.sorted_by(np.zeros(len(rows)), rows.ints("offset"))
    epoch = rows.ints("controller_epoch")
    return broken(rows, np.append(False, epoch[1:] < epoch[:-1])[: len(rows)])


def _leader_votes(tables: Tables, _: Limits) -> Violations:
    rows = tables["quorum_history"]
    leader, voters = rows.ints("leader_id"), rows.lists("voters")
    return broken(rows, (leader != NULL) & (voters.size > 0) & ~voters.has(leader))


def _source(tables: Tables, _: Limits) -> Violations:
    rows = tables["config_history"]
    return broken(rows, rows.valid("effective_value") != rows.valid("source"))


def _electable(tables: Tables, _: Limits) -> Violations:
    rows, history = tables["cluster_metrics"], tables["partition_history"]
    rows = rows.where(rows.in_set("metric", ("electable_replicas_count",)) & rows.valid("value"))
    history = history.where(~history.true("removed"))
    at = places(rows, _KEY, history)
    electable = history.lists("isr").size + history.lists("elr").size
    known = at >= 0
    wrong = np.zeros(len(rows), dtype=bool)
    wrong[known] = rows.ints("value")[known] != electable[at[known]]
    return broken(rows, wrong)


def _listed(tables: Tables, _: Limits) -> Violations:
    history = tables["partition_history"]
    history = history.where(~history.true("removed"))
    (number,) = numbers(history.columns(*_KEY[:2]))
    history, number = history.sorted_by(number, history.ints("offset")), np.sort(number, kind="stable")
    leader = history.ints("leader")
    changed = np.append(False, (number[1:] == number[:-1]) & (leader[1:] != leader[:-1]))[: len(history)]
    changed &= history.in_set("origin", ("log",))
    return broken(history, changed & unknown(history, _KEY, (tables["elections"], _KEY)))


def _candidates(tables: Tables, _: Limits) -> Violations:
    rows, history = tables["elections"], tables["partition_history"]
    at = places(rows, _KEY, history)
    rows, at = rows.where(at >= 0), at[at >= 0]
    states = Rows(history.table.take(pa.array(at)))
    return broken(rows, ~rows.lists("candidates").within(states.lists("replicas")))
