"""Hypothetical: a partition's state under KIP-966 as written, changed a step at a time.

Unlike the released controllers, ELR and LastKnownELR are kept as the sets that the KIP describes, LastKnownLeader has a
field of its own, and a reassignment needs min ISR to end. Sources: KIP-966, sections "Additional High Watermark
advancement requirement", "Eligible Leader Replicas", "Leader election", "Delivery plan", "Compatibility"; and for the
rules before it "Motivation".
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from replay.whatif.recovery_policies import (
    AGGRESSIVE,
    BALANCED,
    ELECTED,
    LAST_LEADER,
    NONE,
    RULES,
    WAITS,
    PolicyOutcome,
    elect,
)

NO_LEADER = -1
NOBODY: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Delivery:
    """How much of the KIP a controller implements ("Delivery plan"). strategies: strategy -> policy of
    recovery_policies.RULES, or UNCLEAN.

    keeps_elr: ELR, LastKnownELR and LastKnownLeader are kept, and the ISR may be empty. high_watermark_needs_min_isr:
    the high watermark does not advance while |ISR| is below min ISR; no flag guards this.
    """

    keeps_elr: bool
    high_watermark_needs_min_isr: bool
    strategies: Mapping[str, str]


# Without the KIP, and in its first phase, unclean.leader.election.enable decides, and there is no strategy None. In the
# KIP the unclean election is random; Kafka takes the first.
UNCLEAN = "unclean"
_BY_CONFIG = {"balanced": LAST_LEADER, "aggressive": UNCLEAN}
BEFORE_ELR = Delivery(False, False, _BY_CONFIG)
PHASE_1 = Delivery(True, True, _BY_CONFIG)
PHASE_2 = Delivery(True, True, {"none": NONE, "balanced": BALANCED, "aggressive": AGGRESSIVE})
DELIVERIES = {"before_elr": BEFORE_ELR, "phase_1": PHASE_1, "phase_2": PHASE_2}


@dataclass(frozen=True, slots=True)
class State:
    """A partition. alive: ids of brokers that are unfenced. leader, last_known_leader: ids, NO_LEADER for none.
    min_insync_replicas: as configured, at least 1."""

    replicas: tuple[int, ...]
    isr: frozenset[int]
    elr: frozenset[int]
    last_known_elr: frozenset[int]
    alive: frozenset[int]
    leader: int
    last_known_leader: int
    leader_epoch: int
    min_insync_replicas: int

    @property
    def min_isr(self) -> int:
        """The lower of min ISR and replication factor ("Additional High Watermark advancement requirement")."""
        return min(self.min_insync_replicas, len(self.replicas))

    @property
    def accepts_acks_all(self) -> bool:
        """Whether acks=all requests are accepted. acks=0 and 1 only need the leader."""
        return self.leader != NO_LEADER and len(self.isr) >= self.min_isr


@dataclass(frozen=True, slots=True)
class Event:
    """What happens to a partition at once. proposed_isr: what the leader asks for by AlterPartition; None: nothing.
    fenced, unfenced: brokers. unclean_shutdown: brokers that register after one; they count as fenced unless they are
    in unfenced as well."""

    proposed_isr: frozenset[int] | None = None
    fenced: frozenset[int] = NOBODY
    unfenced: frozenset[int] = NOBODY
    unclean_shutdown: frozenset[int] = NOBODY


def advance_high_watermark(
    state: State, high_watermark: int, maximal_isr: Set[int], log_ends: Mapping[int, int], delivery: Delivery
) -> int:
    """The high watermark once the leader has looked at all log ends, never lower than it was.

    It follows the shortest log of leader, ISR and maximal ISR (the ISR with those that the leader wants to add). By the
    KIP it stands still while the ISR that the controller committed is below min ISR.
    """
    if state.leader not in state.replicas:
        return high_watermark
    if delivery.high_watermark_needs_min_isr and len(state.isr) < state.min_isr:
        return high_watermark
    in_sync = {state.leader, *state.isr, *maximal_isr} & set(state.replicas)
    return max(high_watermark, min(log_ends[broker] for broker in in_sync))


def step(state: State, event: Event, delivery: Delivery) -> State:
    """The partition after the event, and after the controller has elected where ISR or ELR has a member alive.

    With ELR ("Eligible Leader Replicas"): below min ISR, who leaves the ISR joins the ELR, and who shut down uncleanly
    leaves it for LastKnownELR; at min ISR both are emptied, also when only min.insync.replicas has changed. The last
    leader is kept while there is none. Without: the last member never leaves the ISR ("Motivation"); what an earlier
    delivery left of the ELR fields is ignored, and removed with the next change ("Compatibility", MV downgrade).
    """
    gone = event.fenced | event.unclean_shutdown
    alive = (state.alive - gone) | event.unfenced
    isr = ((state.isr if event.proposed_isr is None else event.proposed_isr) - gone) & alive
    if not isr and state.isr and not delivery.keeps_elr:
        isr = frozenset({state.leader if state.leader in state.isr else min(state.isr)})
    stays = state.leader in isr & alive - gone
    lost = state.leader != NO_LEADER and not stays
    changed = replace(state, isr=isr, alive=alive, leader=state.leader if stays else NO_LEADER)
    if delivery.keeps_elr:
        holders, enough = state.elr | state.isr, len(isr) >= state.min_isr
        changed = replace(
            changed,
            elr=NOBODY if enough else holders - isr - event.unclean_shutdown,
            last_known_elr=NOBODY if enough else state.last_known_elr | holders & event.unclean_shutdown,
            last_known_leader=state.leader if lost else state.last_known_leader,
        )
    elif lost or isr != state.isr:
        changed = _without_elr(changed)
    if changed.leader == NO_LEADER:
        changed = lead(changed, choose(changed, delivery, NONE), delivery)
    moved = lost or changed.leader != state.leader
    return replace(changed, leader_epoch=state.leader_epoch + moved)


def choose(
    state: State, delivery: Delivery, policy: str, logs: Mapping[int, tuple[int, int]] | None = None
) -> PolicyOutcome:
    """Whom a policy elects: one of recovery_policies.RULES, or UNCLEAN. Without ELR, its fields are ignored. logs:
    broker -> (last written leader epoch, log end offset)."""
    if not delivery.keeps_elr:
        state = _without_elr(state)
    last_known = sorted(state.last_known_elr)
    if policy == LAST_LEADER:
        last_known = [] if state.last_known_leader == NO_LEADER else [state.last_known_leader]
    rule = RULES[AGGRESSIVE if policy == UNCLEAN else policy]
    alive, isr, elr = sorted(state.alive), sorted(state.isr), sorted(state.elr)
    found = elect(rule, state.replicas, alive, isr, elr, last_known, logs or {})
    if policy == UNCLEAN and found.via == "unclean_recovery":
        available = [broker for broker in state.replicas if broker in state.alive]
        return (
            PolicyOutcome(ELECTED, UNCLEAN, available)
            if available
            else PolicyOutcome(WAITS, UNCLEAN, (), state.replicas)
        )
    return found


def designate(state: State, broker: int) -> PolicyOutcome:
    """The election type DESIGNATION of kafka-leader-election.sh: a replica that is alive."""
    if broker in state.replicas and broker in state.alive:
        return PolicyOutcome(ELECTED, "designated", [broker])
    return PolicyOutcome(WAITS, "designated", (), [broker])


def lead(state: State, election: PolicyOutcome, delivery: Delivery) -> State:
    """The leaderless partition after an election; the same one if nobody was elected.

    A winner of the ISR leaves the ISR as it is; one of the ELR alone is the ISR and leaves the ELR; of any other, the
    ELR is emptied besides, since its members follow another history (the KIP is silent; the releases do that).
    """
    if election.outcome != ELECTED:
        return state
    if not delivery.keeps_elr:
        state = _without_elr(state)
    leader = election.tied[0]
    isr = state.isr if leader in state.isr else frozenset({leader})
    enough, holder = len(isr) >= state.min_isr, leader in state.isr | state.elr
    return replace(
        state,
        isr=isr,
        elr=state.elr - {leader} if holder and not enough else NOBODY,
        last_known_elr=NOBODY if enough else state.last_known_elr,
        leader=leader,
        last_known_leader=NO_LEADER,
        leader_epoch=state.leader_epoch + 1,
    )


def end_reassignment(state: State, leaving: Set[int], required: Set[int], delivery: Delivery) -> tuple[State, bool]:
    """Complete or cancel a reassignment; returns the state and whether it could be done.

    leaving: the replicas that go, removing ones on completion, adding ones on cancelling. required: those that must be
    in the ISR, the adding ones on completion, none on cancelling. By the KIP ("Eligible Leader Replicas", "Other
    behaviors") the ISR without those that leave must be at least min ISR of the replicas that stay, in both cases;
    before it one member is enough. At min ISR the ELR is empty, so that none of it has left the replicas.
    """
    final = replace(state, replicas=tuple(broker for broker in state.replicas if broker not in leaving))
    isr = (state.isr - leaving) & state.alive
    if not final.replicas or len(isr) < (final.min_isr if delivery.keeps_elr else 1) or not required <= isr:
        return state, False
    return step(final, Event(proposed_isr=isr), delivery), True


def _without_elr(state: State) -> State:
    return replace(state, elr=NOBODY, last_known_elr=NOBODY, last_known_leader=NO_LEADER)
