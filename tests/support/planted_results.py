"""Defects in tables that replay, detect and quality made, each with the expectation that is meant for it."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.planting import (
    STRANGE,
    Plant,
    Row,
    Tables,
    any_row,
    column,
    evidence,
    has,
    live,
    of_kind,
    partition_record,
    state,
)


def _overlap(table: str) -> Callable[[Tables], None]:
    return column(table, "end_offset", lambda end: end + 1, has("end_offset"))


def _two_features(tables: Tables) -> None:
    number = tables.at("feature_history")
    row = tables.row("feature_history", number)
    tables.copy("feature_history", number, offset=row["offset"] + 1)


def _of_no_record(table: str) -> Callable[[Tables], None]:
    return column(table, "offset", lambda offset: offset + 1_000_000, of_kind("log", "origin"))


def _epoch_falls(table: str, name: str) -> Callable[[Tables], None]:
    """The last row with that column gets a lower value than any before it."""

    def apply(tables: Tables) -> None:
        rows = tables[table].to_pylist()
        number = max((n for n, row in enumerate(rows) if row[name] is not None), key=lambda n: rows[n]["offset"])
        tables.put(table, number, **{name: -5})

    return apply


def _removed_election(tables: Tables) -> None:
    tables.drop("elections", tables.at("elections", lambda row: row["leader_epoch"] > 1))


def _other_snapshot(tables: Tables) -> None:
    wanted = partition_record
    number = tables.at("snapshot_records", wanted)
    change = tables.row("snapshot_records", number)["partition_change"]
    tables.put("snapshot_records", number, partition_change={**change, "leader_epoch": change["leader_epoch"] + 7})


def _history_run(tables: Tables) -> None:
    tables.copy("quality_results", 0, expectation="fresh", suite_fingerprint="another")


def _stated(tables: Tables) -> None:
    number = tables.at("findings", lambda row: (row["loss_min"] or 0) > 0 and row["kind"] == "hwm_regression")
    tables.put("findings", number, loss_min=tables.row("findings", number)["loss_min"] + 1)


def _proven(tables: Tables) -> None:
    number = tables.at("findings", lambda row: row["verdict"] == "possible" and row["kind"] == "hwm_regression")
    tables.put("findings", number, verdict="proven")


def _two(name: str) -> Callable[[Tables], None]:
    return column("partition_history", name, lambda members: [*members, members[0]], lambda row: bool(row[name]))


def _lost_state(tables: Tables) -> None:
    tables.drop("partition_history", tables.at("partition_history", lambda row: row["leader_epoch"] == 1))


def _of_reading(piece: Row) -> bool:
    return piece["source"] in ("leader_epoch", "jmx_exporter")


def _of_state(piece: Row) -> bool:
    return piece["source"] == "partition_history"


PLANTED = (
    Plant("partition_history.state_whole", "a state has no leader epoch", state({"leader_epoch": None})),
    Plant(
        "partition_history.epochs_rise",
        "a leader epoch falls",
        column("partition_history", "leader_epoch", lambda _: 0, lambda row: row["leader_epoch"] == 2),
    ),
    Plant("partition_history.changes_have_states", "a state is missing", _lost_state),
    Plant("partition_history.agrees_with_snapshots", "a snapshot has another leader epoch", _other_snapshot),
    Plant(
        "partition_history.isr_within_replicas",
        "the ISR has a broker that is no replica",
        column("partition_history", "isr", lambda isr: [*isr, 99], live),
    ),
    Plant("partition_history.elr_within_replicas", "the ELR has a broker that is no replica", state({"elr": [99]})),
    Plant(
        "partition_history.isr_and_elr_disjoint",
        "ISR and ELR have the same broker",
        column("partition_history", "elr", lambda _: [1, 2, 3, 4], lambda row: bool(row["isr"])),
    ),
    Plant("partition_history.leader_in_isr", "the leader is not in the ISR", state({"leader": 99})),
    Plant(
        "partition_history.elr_empty_at_min_isr",
        "the ELR has a member although the ISR is full",
        column("partition_history", "elr", lambda _: [99], lambda row: len(row["isr"]) == 3),
    ),
    Plant(
        "partition_history.recovering_isr_is_leader",
        "RECOVERING with an ISR of three",
        state({"leader_recovery_state": "RECOVERING"}, lambda row: len(row["isr"]) == 3),
    ),
    Plant(
        "partition_history.directories_match_replicas",
        "a directory too few",
        column("partition_history", "directories", lambda found: found[1:], live),
    ),
    Plant(
        "partition_history.last_known_elr_never_minus_one",
        "the last known ELR holds -1",
        state({"last_known_elr": [-1]}),
    ),
    Plant("partition_history.replicas_distinct", "a replica is there twice", _two("replicas")),
    *(
        Plant(f"{table}.intervals_join", "a state ends after the next one begins", _overlap(table))
        for table in ("partition_history", "config_history", "broker_history", "quorum_history", "cluster_metrics")
    ),
    Plant("feature_history.intervals_join", "a level is there twice, and the first one does not end", _two_features),
    *(
        Plant(f"{table}.record_exists", "a state is at an offset without a record", _of_no_record(table))
        for table in (
            "partition_history",
            "feature_history",
            "config_history",
            "broker_history",
            "quorum_history",
            "cluster_metrics",
        )
    ),
    Plant(
        "broker_history.epochs_rise",
        "the broker epoch of a later row is lower",
        _epoch_falls("broker_history", "broker_epoch"),
    ),
    Plant(
        "broker_history.restart_evidence_exists",
        "a session's end is proven by no record",
        column("broker_history", "restart_evidence", lambda _: [1 << 40], any_row),
    ),
    Plant(
        "quorum_history.epochs_rise", "the controller epoch falls", _epoch_falls("quorum_history", "controller_epoch")
    ),
    Plant(
        "quorum_history.leader_is_voter",
        "the active controller is no voter",
        column("quorum_history", "leader_id", lambda _: 99, any_row),
    ),
    Plant(
        "config_history.source_fits",
        "an effective value without a source",
        column("config_history", "source", lambda _: None, has("source")),
    ),
    Plant(
        "cluster_metrics.electable_reproduced",
        "a value is one more",
        column("cluster_metrics", "value", lambda n: n + 1, of_kind("electable_replicas_count", "metric")),
    ),
    Plant("elections.changes_listed", "an election is missing", _removed_election),
    Plant(
        "elections.agrees_with_history",
        "another leader was elected",
        column("elections", "leader", lambda _: 99, any_row),
    ),
    Plant(
        "elections.candidates_are_replicas",
        "a candidate is no replica",
        column("elections", "candidates", lambda found: [*found, 99], any_row),
    ),
    Plant(
        "rule_differences.change_exists",
        "the change is at an offset without a state",
        column("rule_differences", "offset", lambda n: n + 1_000_000, any_row),
    ),
    Plant(
        "rule_differences.profile_possible",
        "an unexplained change with a profile that is not possible",
        lambda t: t.put("rule_differences", 0, difference="unexplained", profile="9.9"),
    ),
    Plant(
        "invariant_violations.evidence_exists",
        "a violation is shown by no record",
        column("invariant_violations", "evidence_offsets", lambda _: [1 << 40], any_row),
    ),
    Plant(
        "counterfactuals.finding_exists",
        "the finding of a prediction is missing",
        column("counterfactuals", "finding_id", lambda _: "none", any_row),
    ),
    Plant(
        "counterfactuals.outcome_fits",
        "elected, but nobody",
        column("counterfactuals", "leader", lambda _: None, of_kind("elected", "outcome")),
    ),
    Plant(
        "findings.evidence_file_known",
        "the file of a piece of evidence is missing",
        evidence(_of_reading, sha256=STRANGE),
    ),
    Plant(
        "findings.evidence_row_exists", "evidence at a position without a row", evidence(_of_reading, position=1 << 40)
    ),
    Plant(
        "findings.evidence_state_exists",
        "a state that is evidence has another leader epoch",
        evidence(_of_state, leader_epoch=4242),
    ),
    Plant("findings.counts_reproduced", "a loss is one more than its reason says", _stated),
    Plant("findings.verdict_fits", "proven, but nothing is lost", _proven),
    Plant(
        "findings.topic_known",
        "a window of a topic without a history",
        column("findings", "topic_id", lambda _: "none", of_kind("hwm_regression")),
    ),
    Plant("quality_results.runs_whole", "a row of a run has another fingerprint", _history_run),
)
