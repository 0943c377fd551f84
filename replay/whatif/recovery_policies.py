"""What KIP-966's unclean recovery would have picked: predictions from replicas as they were last seen, never facts.

No release ever shipped the KIP's recovery, so every answer is hypothetical. Sources: KIP-966's last revision, sections
"Leader election", "Unclean recovery", "kafka-leader-election.sh", "Delivery plan". A replica that is alive is assumed
to answer with its log as last seen, before the KIP's timeout.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from replay.loss.judged_windows import Situation

# Unclean recovery elects the highest last written leader epoch, then the longest log, of the replicas that are alive.
AGGRESSIVE = "unclean_recovery_aggressive"
# The same, once the members of ISR and ELR are gone and all of LastKnownELR have answered.
BALANCED = "unclean_recovery_balanced"
# The type LONGEST_LOG_AGGRESSIVE of kafka-leader-election.sh, had every replica answered: whoever is in ISR or ELR.
ALL_REPLICAS = "unclean_recovery_all_replicas"
# Nobody until a user requests an election.
NONE = "unclean_recovery_none"
# Who leads next if ISR and ELR cannot provide a leader, whatever unclean.leader.election.enable is (KIP-966, first
# phase).
LAST_LEADER = "last_known_leader"
POLICIES = (AGGRESSIVE, BALANCED, ALL_REPLICAS, NONE, LAST_LEADER)

# Outcomes of an election. UNDETERMINED: a replica's log is unknown and could decide.
ELECTED, WAITS, UNDETERMINED = "elected", "waits", "undetermined"


@dataclass(frozen=True, slots=True)
class Pick:
    """A policy's answer. leader: None if the policy waits or the answer is undetermined."""

    outcome: str
    leader: int | None
    explanation: str


def pick(policy: str, situation: Situation) -> Pick:
    """The pick of a policy (of POLICIES) for a leaderless partition: of the ISR, then of the ELR, then by the policy's
    last resort (KIP-966, "Leader election"). All but AGGRESSIVE and ALL_REPLICAS wait while ISR or ELR have a member.

    If the policy's choice is a tie that includes the recorded leader, the recorded leader is picked.
    """
    isr, elr = situation.isr, situation.elr
    alive = situation.replicas if policy == ALL_REPLICAS else situation.alive
    available = [replica for replica in situation.replicas if replica in alive]
    if policy != ALL_REPLICAS:
        for name, members in (("ISR", isr), ("ELR", elr)):
            if tied := [replica for replica in available if replica in members]:
                return _elected(tied, situation, f"of the {name} is alive: no unclean recovery is needed")
    if not available:
        return Pick(WAITS, None, "no replica is alive")
    if policy not in (AGGRESSIVE, ALL_REPLICAS) and (isr or elr):
        holders = ", ".join(map(str, dict.fromkeys([*isr, *elr])))
        return Pick(WAITS, None, f"waits for a member of the ISR or ELR to come back: broker(s) {holders}")
    if policy == NONE:
        return Pick(WAITS, None, "waits for an administrator")
    # Before unclean recovery is delivered, LastKnownELR holds the last known leader.
    last = situation.waited_for
    if policy in (BALANCED, LAST_LEADER) and last not in available:
        unknown = "waits for the last known leader to answer" if policy == BALANCED else "no last leader is known"
        waits = unknown if last is None else f"waits for broker {last}, the last known leader, to answer"
        return Pick(WAITS, None, waits)
    if policy == LAST_LEADER and last is not None:
        return _elected([last], situation, "is the last known leader and is alive")
    among = ", had every replica answered" if policy == ALL_REPLICAS else " of the replicas alive"
    if len(available) == 1:
        return _elected(available, situation, f"is the only candidate{among}")
    seen = {
        broker: (replica.last_written_leader_epoch, replica.log_end_offset)
        for broker, replica in situation.last_seen.items()
    }
    logs = {broker: (epoch, end) for broker, (epoch, end) in seen.items() if epoch is not None}
    if unseen := [replica for replica in available if replica not in logs]:
        missing = ", ".join(map(str, unseen))
        return Pick(UNDETERMINED, None, f"no log end and epoch of broker(s) {missing} was seen before the election")
    epoch, end = best = max(logs[replica] for replica in available)
    tied = [replica for replica in available if logs[replica] == best]
    return _elected(tied, situation, f"has the highest last epoch {epoch} and log end {end}{among}")


def _elected(tied: Sequence[int], situation: Situation, why: str) -> Pick:
    """tied: ids of equal rank, in replica order, of whom any may lead."""
    leader = situation.recorded if situation.recorded in tied else tied[0]
    return Pick(ELECTED, leader, f"broker {leader} {why}")
