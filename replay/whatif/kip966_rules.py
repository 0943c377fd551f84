"""KIP-966 as written, as data: how its strategies, phases and election types find a leader. Hypothetical.

No release implements all of it. Sources: KIP-966's last revision, sections "Leader election", "Unclean recovery",
"Config changes", "kafka-leader-election.sh", "Delivery plan".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

# unclean.recovery.timeout.ms (KIP-966, "Config changes").
UNCLEAN_RECOVERY_TIMEOUT_MS = 5 * 60 * 1000

# The ways to elect a leader; ADMINISTRATOR: none until a user requests an election.
ISR, ELR, LAST_KNOWN_LEADER, UNCLEAN_RECOVERY = "isr", "elr", "last_known_leader", "unclean_recovery"
UNCLEAN_CHOICE, PREFERRED, DESIGNATED, ADMINISTRATOR = "unclean", "preferred", "designated", "administrator"

# The values of unclean.recovery.strategy.
NONE, BALANCED, AGGRESSIVE = "none", "balanced", "aggressive"
_OLDER_STRATEGIES = {"manual": NONE, "proactive": AGGRESSIVE}
_OLDER_TYPES = {"LONGEST_LOG_PROACTIVE": "LONGEST_LOG_AGGRESSIVE"}


@dataclass(frozen=True, slots=True)
class Rule:
    """How a strategy or an election type finds a leader (KIP-966, "Leader election").

    last_resort: the way used once ISR and ELR cannot provide a leader. clean_first: a live member of the ISR, then one
    of the ELR, is elected before that. waits_for_holders: the last resort is not tried while ISR or ELR have a member,
    alive or not. waits_for_last_known_elr, least_answers: what unclean recovery needs before it picks. requested: an
    administrator requests it, and unless it is PREFERRED only for a leaderless partition; minimalReplicas then raises
    least_answers.
    """

    name: str
    last_resort: str
    clean_first: bool = False
    waits_for_holders: bool = False
    waits_for_last_known_elr: bool = False
    least_answers: int = 0
    requested: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """How much of the KIP a controller implements (KIP-966, "Delivery plan"). strategies: a rule for each strategy.

    keeps_elr: ELR, LastKnownELR and LastKnownLeader are kept, and the ISR may be empty. high_watermark_needs_min_isr:
    the high watermark does not advance while |ISR| is below min ISR; no flag guards this.
    """

    name: str
    keeps_elr: bool
    high_watermark_needs_min_isr: bool
    strategies: Mapping[str, Rule]


def _delivery(name: str, keeps_elr: bool, high_watermark_needs_min_isr: bool, *rules: Rule) -> Delivery:
    strategies = MappingProxyType({rule.name: rule for rule in rules})
    return Delivery(name, keeps_elr, high_watermark_needs_min_isr, strategies)


# Without the KIP, and in its first phase, unclean.leader.election.enable decides, and there is no strategy None. In the
# KIP the unclean election is random; Kafka takes the first.
_DISABLED = Rule(BALANCED, LAST_KNOWN_LEADER, clean_first=True, waits_for_holders=True)
_ENABLED = Rule(AGGRESSIVE, UNCLEAN_CHOICE, clean_first=True)

BEFORE_ELR = _delivery("before_elr", False, False, _DISABLED, _ENABLED)
PHASE_1 = _delivery("phase_1", True, True, _DISABLED, _ENABLED)
PHASE_2 = _delivery(
    "phase_2",
    True,
    True,
    Rule(NONE, ADMINISTRATOR, clean_first=True, waits_for_holders=True),
    Rule(BALANCED, UNCLEAN_RECOVERY, clean_first=True, waits_for_holders=True, waits_for_last_known_elr=True),
    Rule(AGGRESSIVE, UNCLEAN_RECOVERY, clean_first=True, least_answers=1),
)
DELIVERIES = {d.name: d for d in (BEFORE_ELR, PHASE_1, PHASE_2)}

# The types of kafka-leader-election.sh.
ELECTION_TYPES = {
    r.name: r
    for r in (
        Rule("PREFERRED", PREFERRED, clean_first=True, requested=True),
        Rule("UNCLEAN", UNCLEAN_CHOICE, clean_first=True, requested=True),
        Rule("LONGEST_LOG_AGGRESSIVE", UNCLEAN_RECOVERY, least_answers=1, requested=True),
        Rule("LONGEST_LOG_BALANCED", UNCLEAN_RECOVERY, waits_for_last_known_elr=True, requested=True),
        Rule("DESIGNATION", DESIGNATED, requested=True),
    )
}


def strategy(name: str, delivery: Delivery = PHASE_2) -> Rule:
    """The rule of an unclean.recovery.strategy; the KIP's older names Manual and Proactive are accepted.

    Errors: ValueError for a name that is not a strategy, or not one of the delivery.
    """
    known = _OLDER_STRATEGIES.get(name.lower(), name.lower())
    if known not in delivery.strategies:
        expected = ", ".join(delivery.strategies)
        raise ValueError(f"{name!r} is not a strategy of {delivery.name} (expected one of {expected})")
    return delivery.strategies[known]


def strategy_of(unclean_leader_election_enable: bool) -> str:
    """The strategy that corresponds to unclean.leader.election.enable (KIP-966, "Compatibility")."""
    return AGGRESSIVE if unclean_leader_election_enable else BALANCED


def election_type(name: str) -> Rule:
    """The rule of a type of kafka-leader-election.sh; the KIP's older name LONGEST_LOG_PROACTIVE is accepted.

    Errors: ValueError for a name that is not a type.
    """
    known = _OLDER_TYPES.get(name.upper(), name.upper())
    if known not in ELECTION_TYPES:
        raise ValueError(f"{name!r} is not an election type (expected one of {', '.join(ELECTION_TYPES)})")
    return ELECTION_TYPES[known]
