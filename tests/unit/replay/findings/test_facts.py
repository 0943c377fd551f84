"""Each sentence that calls itself a fact says what rows say, and no more: the columns that it is computed from."""

from __future__ import annotations

import re

import pytest

from jobs.lake.tables import TABLES
from replay.findings.kinds import FACT
from replay.findings.sentences import SENTENCES

STATE, BROKER, ENDS, RULES = "partition_history", "broker_history", "log_end_offsets", "rule_differences"
_PLACE = ("offset", "isr", "elr")
# Code -> (table, columns). A code whose fact is that rows are missing names the rows that it would follow from.
FROM: dict[str, tuple[str, tuple[str, ...]]] = {
    "fault": ("quarantine", ("message",)),
    # Windows.
    "elected": ("elections", ("offset", "leader", "leader_epoch", "topic", "partition")),
    "isr_before": (STATE, ("isr",)),
    "elr_before": (STATE, ("elr",)),
    "outsider": (STATE, _PLACE),
    "taken_in": (STATE, ("isr", "adding_replicas", "removing_replicas")),
    "premise_member": (STATE, _PLACE),
    "premise_feature_on": ("feature_history", ("name", "level", "offset")),
    "premise_not_marked": (STATE, ("leader_recovery_state",)),
    "premise_no_registration": (BROKER, ("broker_id", "incarnation_id", "offset")),
    "premise_clean_registration": (BROKER, ("broker_id", "incarnation_id", "offset", "restart_class")),
    "premise_same_directory": (STATE, ("directories",)),
    "restarted": (BROKER, ("broker_id", "incarnation_id", "offset", "origin")),
    "not_held_joined_without_leader": (STATE, ("isr", "leader", "offset")),
    "not_held_marked": (STATE, ("leader_recovery_state", "offset")),
    "not_held_registered_with_it": (BROKER, ("incarnation_id", "batch_base_offset")),
    "not_held_directory_changed": (STATE, ("directories",)),
    "contradicted_by_rules": (RULES, ("offset", "difference")),
    "missing_log_end": (ENDS, ("leader_epoch", "epoch_start_offset", "broker_id")),
    "missing_high_watermark_ceiling": (ENDS, ("log_end_offset", "broker_id")),
    "missing_word_of_process": (ENDS, ("process_start_ms", "broker_id")),
    "missing_high_watermark": (ENDS, ("high_watermark",)),
    "recorded_leader": ("elections", ("leader", "offset")),
    # Exposure.
    "exposed_since_snapshot": (STATE, ("origin", "offset")),
    "exposed_for": (STATE, ("timestamp_ms", "end_timestamp_ms")),
    "exposed_at_log_end": (STATE, ("end_offset",)),
    "exposed_into_hole": (STATE, ("end_offset", "offset")),
    "exposed_until_removal": (STATE, ("removed", "offset")),
    "leader_lost": (STATE, ("leader", "leader_epoch", "offset")),
    "no_leader": (STATE, ("leader", "leader_epoch", "offset")),
    "leaderless_isr": (STATE, ("isr",)),
    "leaderless_elr": (STATE, ("isr", "elr")),
    "leaderless_last_known": (STATE, ("isr", "elr", "last_known_elr")),
    "leaderless_nobody": (STATE, ("isr", "elr", "last_known_elr")),
    "replicas_alive": (BROKER, ("incarnation_id", "fenced", "in_controlled_shutdown")),
    "unclean_on": (STATE, ("unclean_leader_election_enable", "unclean_leader_election_enable_source")),
    "unclean_off": (STATE, ("unclean_leader_election_enable", "unclean_leader_election_enable_source")),
    "ended_from_isr": (STATE, (*_PLACE, "leader", "leader_epoch")),
    "ended_from_elr": (STATE, (*_PLACE, "leader", "leader_epoch")),
    "ended_by_outsider": (STATE, (*_PLACE, "leader", "leader_epoch")),
    "last_replica": (STATE, _PLACE),
    "last_replica_at_end": (STATE, _PLACE),
    "min_isr_in_force": (STATE, ("min_isr", "min_isr_source")),
    "last_replica_led": (STATE, ("leader",)),
    "last_replica_led_partly": (STATE, ("leader",)),
    "last_replica_not_led": (STATE, ("leader",)),
    "more_replicas": (STATE, _PLACE),
    "no_replica_left": (STATE, _PLACE),
    "single_replica": (STATE, (*_PLACE, "replicas")),
    # A replica's log and high watermark.
    "log_end_before": (ENDS, ("captured_at_ms", "broker_id", "log_end_offset")),
    "log_end_after": (ENDS, ("captured_at_ms", "log_end_offset")),
    "epoch_began_below": (ENDS, ("leader_epoch", "epoch_start_offset")),
    "elections_between": (STATE, ("leader", "leader_epoch", "offset")),
    "election_before": (STATE, ("leader", "leader_epoch", "offset")),
    "mark_before": (ENDS, ("captured_at_ms", "broker_id", "high_watermark")),
    "mark_after": (ENDS, ("captured_at_ms", "high_watermark")),
    "leader_restarted": (BROKER, ("incarnation_id", "offset", "timestamp_ms")),
    "restarted_between": (BROKER, ("incarnation_id", "offset", "timestamp_ms")),
    "not_restarted": (BROKER, ("incarnation_id", "offset", "timestamp_ms")),
    "led_before": (STATE, ("leader", "timestamp_ms")),
    "leads_after": (STATE, ("leader", "timestamp_ms")),
    "states_not_known": (STATE, ("offset", "end_offset")),
    # Kafka's rules.
    "rule_change": (RULES, ("offset", "differs_in")),
    "rule_trigger": (RULES, ("trigger", "trigger_offset")),
    "rule_no_trigger": (RULES, ("trigger",)),
    "rule_known_bug": (RULES, ("difference", "reason")),
    "rule_unexplained": (RULES, ("difference", "profile")),
    "invariant_broken": ("invariant_violations", ("invariant",)),
    "invariant_detail": ("invariant_violations", ("start_offset", "detail")),
    "invariant_brokers": ("invariant_violations", ("brokers",)),
    "invariant_rows": ("invariant_violations", ("rows",)),
}
FACTS = sorted(code for code, (nature, _) in SENTENCES.items() if nature == FACT)


@pytest.mark.parametrize("code", FACTS)
def test_a_fact_names_the_columns_that_it_follows_from(code: str) -> None:
    table, columns = FROM[code]
    assert set(columns) <= set(TABLES[table].schema.names), set(columns) - set(TABLES[table].schema.names)


@pytest.mark.parametrize("code", FACTS)
def test_a_fact_claims_no_cause_no_promise_and_nothing_for_ever(code: str) -> None:
    """What rows do not hold: what a process did or why, what holds from then on, what a log surely has."""
    text = SENTENCES[code][1]
    assert not re.search(r"\b(certainly|surely|probably|must have|crashed|timed out|from then on|for ever)\b", text)
    assert not re.search(r"\bhad stopped (un)?cleanly|without a controlled shutdown", text)


def test_every_entry_is_a_fact() -> None:
    assert sorted(FROM) == FACTS
