"""The registry of finding kinds: severities, section of the report, and the tables that the evidence points into, from
kinds.toml.

An unregistered kind is an error, so a new kind starts here. CONTRIBUTING.md has the whole recipe.
"""

import hashlib
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files


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

_DATA = tomllib.loads(files("replay.findings").joinpath("kinds.toml").read_text("utf-8"))
_OF_RULES = {**_DATA["faults"], **_DATA["gaps"], **_DATA["files"]}
# (verdict, severity) by `rule` of the faults of the log, of single files and of the evidence.
FAULTS = {rule: (given["verdict"], given["severity"]) for rule, given in _OF_RULES.items()}
GAPS, FILE_FAULTS = tuple(_DATA["gaps"]), tuple(_DATA["files"])
KINDS = {
    **{
        n: Kind(n, Section(k["section"]), tuple(k["severities"]), tuple(k["tables"])) for n, k in _DATA["kinds"].items()
    },
    EVIDENCE_GAP: Kind(EVIDENCE_GAP, Section.FAULTS, tuple(dict.fromkeys(FAULTS[rule][1] for rule in GAPS))),
    **{
        rule: Kind(rule, Section.FAULTS, (given["severity"],), tuple(given.get("tables", ())))
        for rule, given in _OF_RULES.items()
        if rule not in GAPS
    },
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
