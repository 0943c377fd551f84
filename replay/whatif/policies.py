"""The policies that a simulation can follow, and the choice of a leader from log ends as last seen."""

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from replay.cluster.facts import Clock
from replay.loss.judged_windows import Situation
from replay.offsets.evidence import Evidence, last_seen_with_epoch
from replay.offsets.partition_rows import evidence_of
from replay.partitions.elections import States
from replay.whatif.recovery_policies import AGGRESSIVE, ALL_REPLICAS, BALANCED, NONE, UNDETERMINED, pick
from replay.whatif.scenario import Scenario

BEFORE_ELR, BEFORE_ELR_UNCLEAN = "before_elr", "before_elr_unclean"

# Policy -> description. Those in _RECOVERING choose among the replicas as last seen.
POLICIES = {
    NONE: "nobody outside ISR and ELR: waits for them, or for an administrator (KIP-966, strategy None)",
    BALANCED: "waits for ISR, ELR and last known leader, then the longest log (KIP-966, strategy Balanced)",
    AGGRESSIVE: "the longest log of those that answer (KIP-966, strategy Aggressive)",
    ALL_REPLICAS: "the longest log of all replicas; waits for its broker",
    BEFORE_ELR: "ELR off: the last replica of the ISR stays in it",
    BEFORE_ELR_UNCLEAN: "ELR off, unclean.leader.election.enable on",
}
_RECOVERING = (NONE, BALANCED, AGGRESSIVE, ALL_REPLICAS)
# The values of unclean.recovery.strategy.
_STRATEGIES = {"none": NONE, "balanced": BALANCED, "aggressive": AGGRESSIVE}


def policy_of_strategy(name: str) -> str:
    """The policy of an unclean.recovery.strategy. Errors: ValueError for a name that is not a strategy."""
    policy = _STRATEGIES.get(name.lower())
    if policy is None:
        raise ValueError(f"{name!r} is not a strategy of KIP-966 (expected one of {', '.join(_STRATEGIES)})")
    return policy


@dataclass(slots=True)
class Recovery:
    """The choice of `Scenario.recover` under a policy. Times are those of the metadata log.

    undetermined: row of the history where a partition's stretch begins -> metadata offset from which the choice needs
    a log end that was not seen.
    """

    policy: str
    states: States
    evidence: dict[int, Evidence]
    clock: Clock
    undetermined: dict[int, int] = field(default_factory=dict)

    def __call__(self, row: int, offset: int, timestamp_ms: int, situation: Situation) -> int | None:
        if self.policy == NONE:
            return None
        evidence = self.evidence[int(self.states.key[row])]
        seen = {b: last_seen_with_epoch(evidence, b, timestamp_ms, self.clock) for b in situation.replicas}
        found = pick(self.policy, replace(situation, last_seen={b: replica for b, replica in seen.items() if replica}))
        if found.outcome == UNDETERMINED:
            self.undetermined.setdefault(row, offset)
        return found.leader


def designated(broker: int) -> Scenario:
    """The scenario in which this broker leads all partitions that no member of ISR and ELR can lead (KIP-966's
    DESIGNATION)."""
    return Scenario(recover=lambda row, offset, timestamp_ms, situation: broker)


def recovery(policy: str, history: pa.Table, states: States, offsets: pa.Table, clock: Clock) -> Recovery | None:
    """The choice under a policy (of POLICIES); None for policies that do not use log ends. offsets: LOG_END_OFFSETS."""
    if policy not in _RECOVERING:
        return None
    return Recovery(policy, states, evidence_of(history, states, offsets, np.unique(states.key)), clock)
