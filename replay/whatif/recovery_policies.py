"""What KIP-966's unclean recovery would have picked: predictions from replicas as they were last seen, never facts.

No release ever shipped the KIP's recovery, so every answer is hypothetical. Sources: KIP-966's last revision, sections
"Leader election", "Unclean recovery", "kafka-leader-election.sh", "Delivery plan". A replica that is alive is assumed
to answer with its log as last seen, before the KIP's timeout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replay.loss.judged_windows import Situation

AGGRESSIVE = "unclean_recovery_aggressive"
BALANCED = "unclean_recovery_balanced"
ALL_REPLICAS = "unclean_recovery_all_replicas"
NONE = "unclean_recovery_none"
LAST_LEADER = "last_known_leader"

# The ways to elect a leader; ADMINISTRATOR: none until a user requests an election.
ISR, ELR, LAST_KNOWN_LEADER, UNCLEAN_RECOVERY = "isr", "elr", "last_known_leader", "unclean_recovery"
ADMINISTRATOR = "administrator"

# Outcomes of an election. UNDETERMINED: a replica's log is unknown and could decide.
ELECTED, WAITS, UNDETERMINED = "elected", "waits", "undetermined"


@dataclass(frozen=True, slots=True)
class Rule:
    """How a strategy or an election type finds a leader (KIP-966, "Leader election").

    last_resort: the way used once ISR and ELR cannot provide a leader. clean_first: a live member of the ISR, then one
    of the ELR, is elected before that. waits_for_holders: the last resort is not tried while ISR or ELR have a member,
    alive or not. waits_for_last_known_elr: unclean recovery picks only after all of LastKnownELR have answered.
    """

    last_resort: str
    clean_first: bool = True
    waits_for_holders: bool = False
    waits_for_last_known_elr: bool = False


RULES: Mapping[str, Rule] = {
    AGGRESSIVE: Rule(UNCLEAN_RECOVERY),
    BALANCED: Rule(UNCLEAN_RECOVERY, waits_for_holders=True, waits_for_last_known_elr=True),
    # The type LONGEST_LOG_AGGRESSIVE of kafka-leader-election.sh, had every replica answered.
    ALL_REPLICAS: Rule(UNCLEAN_RECOVERY, clean_first=False),
    NONE: Rule(ADMINISTRATOR, waits_for_holders=True),
    # Who leads next if ISR and ELR cannot provide a leader, whatever unclean.leader.election.enable is (KIP-966,
    # first phase).
    LAST_LEADER: Rule(LAST_KNOWN_LEADER, waits_for_holders=True),
}
POLICIES = tuple(RULES)


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The result of a rule. outcome: ELECTED, WAITS or UNDETERMINED. via: the way that decided, or by which the
    partition waits. tied: ids of equal rank, in replica order, of whom any may lead; empty unless ELECTED. waited_for:
    ids, empty unless it waits. unseen: ids with an unknown log that could decide."""

    outcome: str
    via: str
    tied: Sequence[int] = ()
    waited_for: Sequence[int] = ()
    unseen: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Pick:
    """A policy's answer. leader: None if the policy waits or the answer is undetermined."""

    outcome: str
    leader: int | None
    explanation: str


def elect(
    rule: Rule,
    replicas: Sequence[int],
    alive: Sequence[int],
    isr: Sequence[int],
    elr: Sequence[int],
    last_known: Sequence[int],
    logs: Mapping[int, tuple[int, int]],
) -> PolicyOutcome:
    """The result of a rule for a leaderless partition: of the ISR, then of the ELR, then by the last resort. Unclean
    recovery elects the highest last written leader epoch, then the longest log.

    alive: ids of brokers that may lead. last_known: LastKnownELR, or the last known leader alone. logs: broker ->
    (last written leader epoch, log end offset) where both are known.
    """
    available = [r for r in replicas if r in alive]
    if rule.clean_first:
        for via, members in ((ISR, isr), (ELR, elr)):
            if tied := [r for r in available if r in members]:
                return PolicyOutcome(ELECTED, via, tied)
    if rule.waits_for_holders and (isr or elr):
        return PolicyOutcome(WAITS, ISR if isr else ELR, waited_for=list(dict.fromkeys([*isr, *elr])))
    if rule.last_resort == ADMINISTRATOR:
        return PolicyOutcome(WAITS, ADMINISTRATOR)
    if rule.last_resort == LAST_KNOWN_LEADER:
        leader = [r for r in available if r in last_known]
        return (
            PolicyOutcome(ELECTED, LAST_KNOWN_LEADER, leader)
            if leader
            else PolicyOutcome(WAITS, LAST_KNOWN_LEADER, (), last_known)
        )
    missing = [b for b in last_known if b not in available] if rule.waits_for_last_known_elr else []
    if missing or not available:
        return PolicyOutcome(WAITS, UNCLEAN_RECOVERY, waited_for=missing or [r for r in replicas if r not in alive])
    if len(available) == 1:
        return PolicyOutcome(ELECTED, UNCLEAN_RECOVERY, available)
    if unseen := [r for r in available if r not in logs]:
        return PolicyOutcome(UNDETERMINED, UNCLEAN_RECOVERY, unseen=unseen)
    best = max(logs[r] for r in available)
    return PolicyOutcome(ELECTED, UNCLEAN_RECOVERY, [r for r in available if logs[r] == best])


def pick(policy: str, situation: Situation) -> Pick:
    """The pick of a policy (of POLICIES) in a situation.

    If the policy's choice is a tie that includes the recorded leader, the recorded leader is picked.
    """
    alive = situation.replicas if policy == ALL_REPLICAS else situation.alive
    # Before unclean recovery is delivered, LastKnownELR holds the last known leader.
    last_known = [] if situation.waited_for is None else [situation.waited_for]
    logs = {
        broker: (replica.last_written_leader_epoch, replica.log_end_offset)
        for broker, replica in situation.last_seen.items()
        if replica.last_written_leader_epoch is not None
    }
    found = elect(RULES[policy], situation.replicas, alive, situation.isr, situation.elr, last_known, logs)
    if policy == BALANCED and found.via == UNCLEAN_RECOVERY and situation.alive and not last_known:
        return Pick(WAITS, None, "waits for the last known leader to answer")
    if found.outcome == WAITS:
        return Pick(WAITS, None, _waiting(situation, found))
    if found.outcome == UNDETERMINED:
        missing = ", ".join(map(str, found.unseen))
        explanation = f"no log end and epoch of broker(s) {missing} was seen before the election"
        return Pick(UNDETERMINED, None, explanation)
    leader = situation.recorded if situation.recorded in found.tied else found.tied[0]
    among = ", had every replica answered" if policy == ALL_REPLICAS else " of the replicas alive"
    if found.via == LAST_KNOWN_LEADER:
        explanation = f"broker {leader} is the last known leader and is alive"
    elif found.via != UNCLEAN_RECOVERY:
        explanation = f"broker {leader} of the {found.via.upper()} is alive: no unclean recovery is needed"
    elif sum(r in alive for r in situation.replicas) == 1:
        explanation = f"broker {leader} is the only candidate{among}"
    else:
        epoch, end = logs[leader]
        explanation = f"broker {leader} has the highest last epoch {epoch} and log end {end}{among}"
    return Pick(ELECTED, leader, explanation)


def _waiting(situation: Situation, found: PolicyOutcome) -> str:
    if not situation.alive:
        return "no replica is alive"
    if found.via == ADMINISTRATOR:
        return "waits for an administrator"
    if found.via == LAST_KNOWN_LEADER and situation.waited_for is None:
        return "no last leader is known"
    if found.via in (UNCLEAN_RECOVERY, LAST_KNOWN_LEADER):
        return f"waits for broker {situation.waited_for}, the last known leader, to answer"
    members = ", ".join(map(str, found.waited_for))
    return f"waits for a member of the ISR or ELR to come back: broker(s) {members}"
