"""What KIP-966's unclean recovery would have picked: predictions from replicas as they were last seen, never facts.

The KIP's recovery was never shipped in a release; every answer here is hypothetical. It picks the highest last written
leader epoch, then the longest log, among the replicas that answer (KIP-966, "Unclean recovery"). Before it, an ISR
member that is alive is elected, then an ELR member that is alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from replay.offsets import Replica

AGGRESSIVE = "unclean_recovery_aggressive"
BALANCED = "unclean_recovery_balanced"
ALL_REPLICAS = "unclean_recovery_all_replicas"
POLICIES = (AGGRESSIVE, BALANCED, ALL_REPLICAS)

ELECTED, WAITS, UNDETERMINED = "elected", "waits", "undetermined"


@dataclass(frozen=True, slots=True)
class Situation:
    """A partition right before an election. seen: last sight of each replica, where there is one.

    waited_for: whom Balanced waits for: the last known leader, else the last leader; None when neither is known.
    """

    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int]
    alive: Sequence[int]
    waited_for: int | None
    seen: dict[int, Replica]
    recorded: int


@dataclass(frozen=True, slots=True)
class Pick:
    """A policy's answer. leader is None when it waits or cannot be told."""

    policy: str
    outcome: str
    leader: int | None
    explanation: str


def pick(policy: str, situation: Situation) -> Pick:
    """Ask one policy (see POLICIES) about a situation."""
    if policy == ALL_REPLICAS:
        return _longest(policy, situation, list(situation.replicas), "had every replica answered")
    for members, name in ((situation.isr, "ISR"), (situation.elr, "ELR")):
        eligible = [r for r in situation.replicas if r in members and r in situation.alive]
        if eligible:
            chosen = situation.recorded if situation.recorded in eligible else eligible[0]
            return Pick(
                policy, ELECTED, chosen, f"broker {chosen} of the {name} is alive: no unclean recovery is needed"
            )
    if not situation.alive:
        return Pick(policy, WAITS, None, "no replica is alive")
    if policy == BALANCED and situation.waited_for not in situation.alive:
        who = (
            "the last known leader"
            if situation.waited_for is None
            else f"broker {situation.waited_for}, the last known leader"
        )
        return Pick(policy, WAITS, None, f"waits for {who} to answer")
    return _longest(policy, situation, [r for r in situation.replicas if r in situation.alive], "of the replicas alive")


def _longest(policy: str, situation: Situation, asked: list[int], among: str) -> Pick:
    if len(asked) == 1:
        return Pick(policy, ELECTED, asked[0], f"broker {asked[0]} is the only one to ask {among}")
    unseen = [r for r in asked if r not in situation.seen or situation.seen[r].last_written_leader_epoch is None]
    ranked = {r: _rank(situation.seen[r]) for r in asked if r in situation.seen and r not in unseen}
    if unseen:
        missing = ", ".join(map(str, unseen))
        return Pick(
            policy, UNDETERMINED, None, f"no log end and epoch was seen of broker(s) {missing} before the election"
        )
    best = max(ranked.values())
    tied = [r for r in asked if ranked[r] == best]
    leader = situation.recorded if situation.recorded in tied else tied[0]
    epoch, end = best
    return Pick(
        policy, ELECTED, leader, f"broker {leader} has the highest last epoch {epoch} and log end {end} {among}"
    )


def _rank(replica: Replica) -> tuple[int, int]:
    epoch = replica.last_written_leader_epoch
    return (-1 if epoch is None else epoch, replica.log_end_offset)
