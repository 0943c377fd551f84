"""The registry of finding kinds: severities, section of the report, and the tables that the evidence points into.

An unregistered kind is an error, so a new kind starts here. CONTRIBUTING.md has the whole recipe.
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

# Natures of statements (sentences.toml says what each means).
FACT, BOUND, PREDICTION, ASSUMPTION, MEANING = "fact", "bound", "prediction", "assumption", "meaning"


class Section(StrEnum):
    """A section of the report. Excluded windows have a section of their own."""

    WINDOWS = "windows"
    EXCLUDED = "excluded"
    OTHER_RULES = "other_rules"
    EXPOSURES = "exposures"
    CUT_LOGS = "cut_logs"
    RULES = "rules"
    FAULTS = "faults"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding. name: the value of the column `kind`. severities: those that its findings can have. tables:
    those with the rows that `evidence` points into; empty where the message is the only evidence."""

    name: str
    section: Section
    severities: tuple[str, ...]
    tables: tuple[str, ...] = ()


HWM_REGRESSION = "hwm_regression"
COUNTERFACTUAL, DIVERGENCE = "hwm_regression_counterfactual", "unclean_recovery_divergence"
LEADERLESS, LAST_REPLICA = "leaderless", "last_replica_standing"
LOG_TRUNCATION, CHECKPOINT_LOST = "log_truncation", "checkpoint_lost"
RULE_MISMATCH, INVARIANT_VIOLATION = "rule_mismatch", "invariant_violation"
# State is unknown because evidence is missing or unreadable. The finding's `rule`, one of GAPS, says why.
EVIDENCE_GAP = "evidence_gap"

# Reasons in `quarantine` that mean more than damaged bytes: they contradict the rest of the evidence.
_OF_FILES = {
    "offset_flip": ("proven", "high"),
    "epoch_flip": ("proven", "high"),
    "not_kraft": ("proven", "high"),
    "unexpected_codec": ("proven", "medium"),
    "larger_than_batch": ("proven", "medium"),
    "overlong_varint": ("proven", "low"),
    "bad_count": ("proven", "medium"),
    "name_mismatch": ("proven", "low"),
    "snapshot_name_mismatch": ("proven", "medium"),
}
# (verdict, severity) by `rule` of the faults of the log, of single files and of the evidence. They are facts about the
# evidence and never judge a loss. Each rule is a kind of its own, except those in GAPS.
FAULTS = {
    "log_conflict": ("proven", "critical"),
    "snapshot_mismatch": ("proven", "critical"),
    "describe_mismatch": ("proven", "high"),
    "log_line_mismatch": ("proven", "high"),
    "controller_divergence": ("proven", "low"),
    "broker_epoch_mismatch": ("proven", "medium"),
    "unknown_broker": ("proven", "medium"),
    "unknown_controller": ("proven", "medium"),
    "active_controller_unregistered": ("proven", "medium"),
    "unknown_topic": ("proven", "medium"),
    "unknown_partition": ("undetermined", "medium"),
    "bad_config": ("undetermined", "medium"),
    "nested_transaction": ("proven", "medium"),
    "stray_transaction_end": ("proven", "medium"),
    "open_transaction": ("undetermined", "low"),
    "offset_gap": ("undetermined", "high"),
    "unreadable_record": ("undetermined", "high"),
    "no_snapshot": ("undetermined", "high"),
    "unknown_prefix": ("undetermined", "medium"),
    "unobserved": ("undetermined", "medium"),
    "leader_registered_again": ("undetermined", "medium"),
    **_OF_FILES,
    "two_snapshots": ("proven", "high"),
}
GAPS = ("offset_gap", "unreadable_record", "no_snapshot", "unknown_prefix", "unobserved", "leader_registered_again")
FILE_FAULTS = tuple(_OF_FILES)

_STATES, _OFFSETS, _LINES = "partition_history", "log_end_offsets", "broker_log_events"
_FAULT_TABLES = {
    "log_conflict": ("log_batches",),
    "controller_divergence": ("log_batches",),
    "describe_mismatch": (_STATES, "described_partitions"),
    "log_line_mismatch": (_STATES, "broker_history", _LINES),
    **dict.fromkeys(FILE_FAULTS, ("quarantine",)),
}

KINDS = {
    kind.name: kind
    for kind in (
        Kind(HWM_REGRESSION, Section.WINDOWS, ("critical", "high", "medium", "info"), (_STATES, _OFFSETS, _LINES)),
        Kind(COUNTERFACTUAL, Section.OTHER_RULES, ("low",), (_STATES, _OFFSETS, _LINES)),
        Kind(DIVERGENCE, Section.OTHER_RULES, ("medium", "low"), (_STATES, _OFFSETS, _LINES)),
        Kind(LEADERLESS, Section.EXPOSURES, ("medium",), (_STATES,)),
        Kind(LAST_REPLICA, Section.EXPOSURES, ("medium", "low"), (_STATES,)),
        Kind(LOG_TRUNCATION, Section.CUT_LOGS, ("high", "medium", "low"), (_STATES, _OFFSETS)),
        Kind(CHECKPOINT_LOST, Section.CUT_LOGS, ("medium",), (_STATES, _OFFSETS)),
        Kind(RULE_MISMATCH, Section.RULES, ("high", "medium"), ("rule_differences",)),
        Kind(INVARIANT_VIOLATION, Section.RULES, ("critical", "high", "medium", "low"), ("invariant_violations",)),
        Kind(EVIDENCE_GAP, Section.FAULTS, tuple(dict.fromkeys(FAULTS[rule][1] for rule in GAPS))),
        *(
            Kind(rule, Section.FAULTS, (severity,), _FAULT_TABLES.get(rule, ()))
            for rule, (_, severity) in FAULTS.items()
            if rule not in GAPS
        ),
    )
}


def kind_of(name: str) -> Kind:
    """The registered kind of that name. Errors: ValueError for an unregistered name."""
    if name not in KINDS:
        raise ValueError(f"unknown kind of finding {name!r}: were the findings written by a newer release?")
    return KINDS[name]


def of_section(section: Section) -> tuple[str, ...]:
    """Names of the kinds in a section."""
    return tuple(kind.name for kind in KINDS.values() if kind.section is section)


def finding_id(*identity: object) -> str:
    """A stable id of 16 hex digits: the same cluster, kind, partition and offset give the same id in every run."""
    return hashlib.sha256("|".join(map(str, identity)).encode()).hexdigest()[:16]
