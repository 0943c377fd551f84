"""What KIP-966's unclean recovery would have picked: predictions from replicas as they were last seen, never facts.

No release ever shipped the KIP's recovery, so every answer is hypothetical. The rules are those of
replay/whatif/unclean_recovery.py. A replica that is alive is assumed to answer at once, with its log as last seen; the
timeout has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import PAD, Array, members_of, to_matrix
from replay.loss.judged_windows import Situation
from replay.offsets.evidence import Replica
from replay.whatif.kip966_rules import (
    ADMINISTRATOR,
    ISR,
    LAST_KNOWN_LEADER,
    PHASE_1,
    UNCLEAN_RECOVERY,
    UNCLEAN_RECOVERY_TIMEOUT_MS,
    election_type,
    strategy,
)
from replay.whatif.unclean_recovery import (
    ELECTED,
    NO_LEADER,
    UNDETERMINED,
    WAITS,
    Answers,
    Elections,
    RecoveryCases,
    elect,
)

AGGRESSIVE = "unclean_recovery_aggressive"
BALANCED = "unclean_recovery_balanced"
ALL_REPLICAS = "unclean_recovery_all_replicas"
NONE = "unclean_recovery_none"
LAST_LEADER = "last_known_leader"

_RULES = {
    AGGRESSIVE: strategy("aggressive"),
    BALANCED: strategy("balanced"),
    ALL_REPLICAS: election_type("LONGEST_LOG_AGGRESSIVE"),
    NONE: strategy("none"),
    # Who leads next if ISR and ELR cannot provide a leader, whatever unclean.leader.election.enable is (KIP-966, first
    # phase).
    LAST_LEADER: strategy("balanced", PHASE_1),
}
POLICIES = tuple(_RULES)

__all__ = ["AGGRESSIVE", "ALL_REPLICAS", "BALANCED", "ELECTED", "LAST_LEADER", "NONE", "POLICIES", "UNDETERMINED"]
__all__ += ["WAITS"]
__all__ += ["Pick", "Situation", "pick", "picks"]


@dataclass(frozen=True, slots=True)
class Pick:
    """A policy's answer. leader: None if the policy waits or the answer is undetermined."""

    policy: str
    outcome: str
    leader: int | None
    explanation: str


def pick(policy: str, situation: Situation) -> Pick:
    """The pick of one policy (see POLICIES) in a situation."""
    return picks(policy, [situation])[0]


def picks(policy: str, situations: Sequence[Situation]) -> list[Pick]:
    """The picks of one policy in many situations at once.

    If the policy's choice is a tie that includes the recorded leader, the recorded leader is picked.
    """
    elections = elect(_cases(policy, situations), _RULES[policy])
    return [_pick(policy, s, elections, i) for i, s in enumerate(situations)]


def _cases(policy: str, situations: Sequence[Situation]) -> RecoveryCases:
    replicas = _matrix([s.replicas for s in situations])
    none = np.full(len(situations), NO_LEADER)
    zero = np.zeros(len(situations), dtype=np.int64)
    same = np.zeros_like(replicas)
    observed = [[s.last_seen.get(r) for r in s.replicas] for s in situations]
    return RecoveryCases(
        replicas=replicas,
        isr=_matrix([s.isr for s in situations]),
        elr=_matrix([s.elr for s in situations]),
        # Before unclean recovery is delivered, LastKnownELR holds the last known leader.
        last_known_elr=_matrix([[] if s.waited_for is None else [s.waited_for] for s in situations]),
        alive=replicas if policy == ALL_REPLICAS else _matrix([s.alive for s in situations]),
        leader=none,
        last_known_leader=np.array(
            [NO_LEADER if s.waited_for is None else s.waited_for for s in situations], dtype=np.int64
        ),
        desired_leader=none,
        minimal_replicas=zero,
        leader_epoch=zero,
        broker_epoch=same,
        elapsed_ms=zero + UNCLEAN_RECOVERY_TIMEOUT_MS,
        answers=Answers(
            answered_ms=same,
            broker_epoch=same,
            current_leader_epoch=same,
            last_written_leader_epoch=_matrix([[_epoch(r) for r in row] for row in observed]),
            log_end_offset=_matrix([[PAD if r is None else r.log_end_offset for r in row] for row in observed]),
        ),
    )


def _epoch(replica: Replica | None) -> int:
    epoch = None if replica is None else replica.last_written_leader_epoch
    return PAD if epoch is None else epoch


def _matrix(lists: Sequence[Sequence[int]]) -> Array:
    return to_matrix(pa.array([list(members) for members in lists], type=pa.list_(pa.int64())))


def _pick(policy: str, situation: Situation, elections: Elections, row: int) -> Pick:
    outcome, via = str(elections.outcome[row]), str(elections.via[row])
    if policy == BALANCED and via == UNCLEAN_RECOVERY and situation.alive and situation.waited_for is None:
        return Pick(policy, WAITS, None, "waits for the last known leader to answer")
    if outcome == WAITS:
        return Pick(policy, WAITS, None, _waiting(situation, via, members_of(elections.waited_for[row])))
    if outcome == UNDETERMINED:
        missing = ", ".join(map(str, members_of(elections.unseen[row])))
        explanation = f"no log end and epoch of broker(s) {missing} was seen before the election"
        return Pick(policy, UNDETERMINED, None, explanation)
    tied = members_of(elections.tied[row])
    leader = situation.recorded if situation.recorded in tied else tied[0]
    return Pick(policy, ELECTED, leader, _reason(policy, situation, elections, row, leader))


def _waiting(situation: Situation, via: str, waited_for: list[int]) -> str:
    if not situation.alive:
        return "no replica is alive"
    if via == ADMINISTRATOR:
        return "waits for an administrator"
    if via == LAST_KNOWN_LEADER and situation.waited_for is None:
        return "no last leader is known"
    if via in (UNCLEAN_RECOVERY, LAST_KNOWN_LEADER):
        return f"waits for broker {situation.waited_for}, the last known leader, to answer"
    members = ", ".join(map(str, waited_for))
    return f"waits for a member of the ISR or ELR to come back: broker(s) {members}"


def _reason(policy: str, situation: Situation, elections: Elections, row: int, leader: int) -> str:
    via = str(elections.via[row])
    if via == LAST_KNOWN_LEADER:
        return f"broker {leader} is the last known leader and is alive"
    if via != UNCLEAN_RECOVERY:
        return f"broker {leader} of the {'ISR' if via == ISR else 'ELR'} is alive: no unclean recovery is needed"
    candidates = situation.replicas if policy == ALL_REPLICAS else situation.alive
    among = ", had every replica answered" if policy == ALL_REPLICAS else " of the replicas alive"
    if sum(r in candidates for r in situation.replicas) == 1:
        return f"broker {leader} is the only candidate{among}"
    epoch, end = elections.last_written_leader_epoch[row], elections.log_end_offset[row]
    return f"broker {leader} has the highest last epoch {epoch} and log end {end}{among}"
