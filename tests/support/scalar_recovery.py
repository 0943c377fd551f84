"""KIP-966, one case at a time, with sets and loops: the rules as they are to be read.

The measure of replay.whatif.unclean_recovery (elect) and tests.support.kip966_state (step).
"""

from __future__ import annotations

from dataclasses import dataclass, field

MINUTES_5 = 300_000


@dataclass(frozen=True, slots=True)
class Answer:
    """A replica's answer; last_epoch or log_end is None where nobody saw its log."""

    at_ms: int
    broker_epoch: int
    leader_epoch: int
    last_epoch: int | None
    log_end: int | None


@dataclass(frozen=True, slots=True)
class Case:
    """A partition. answers, broker_epochs: by replica."""

    replicas: list[int]
    isr: list[int] = field(default_factory=list)
    elr: list[int] = field(default_factory=list)
    last_known_elr: list[int] = field(default_factory=list)
    alive: list[int] = field(default_factory=list)
    leader: int = -1
    last_known_leader: int = -1
    desired_leader: int = -1
    minimal_replicas: int = 0
    leader_epoch: int = 0
    broker_epochs: dict[int, int] = field(default_factory=dict)
    elapsed_ms: int = MINUTES_5
    answers: dict[int, Answer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it; lists of ids as sets but for `tied`, which has an order."""

    outcome: str
    via: str
    leader: int = -1
    tied: tuple[int, ...] = ()
    waited_for: frozenset[int] = frozenset()
    unseen: frozenset[int] = frozenset()
    last_epoch: int | None = None
    log_end: int | None = None
    data_loss_possible: bool = False


def elect(case: Case, rule: str, timeout_ms: int = MINUTES_5) -> Result:
    """rule: none, balanced, aggressive; disabled or enabled (unclean election, before unclean recovery); or a type of
    kafka-leader-election.sh."""
    if rule == "PREFERRED":
        return preferred(case)
    if rule in ("none", "balanced", "aggressive", "enabled", "disabled"):
        return clean(case) or by_strategy(case, rule, timeout_ms)
    if case.leader != -1:
        return Result("not_performed", WAY[rule], case.leader)
    if rule == "UNCLEAN":
        return clean(case) or any_replica(case)
    if rule == "DESIGNATION":
        if case.desired_leader not in case.replicas:
            return Result("not_performed", "designated", case.leader)
        return only(case, "designated", case.desired_leader)
    return recover(case, balanced=rule.endswith("BALANCED"), least=case.minimal_replicas, timeout_ms=timeout_ms)


WAY = {
    "UNCLEAN": "unclean",
    "DESIGNATION": "designated",
    "LONGEST_LOG_AGGRESSIVE": "unclean_recovery",
    "LONGEST_LOG_BALANCED": "unclean_recovery",
}


def clean(case: Case) -> Result | None:
    for via, members in (("isr", case.isr), ("elr", case.elr)):
        there = [r for r in case.replicas if r in members and r in case.alive]
        if there:
            return elected(case, via, there)
    return None


def by_strategy(case: Case, rule: str, timeout_ms: int) -> Result:
    if rule == "enabled":
        return any_replica(case)
    if rule == "aggressive":
        return recover(case, balanced=False, least=0, timeout_ms=timeout_ms)
    if case.isr or case.elr:
        return Result("waits", "isr" if case.isr else "elr", waited_for=frozenset(case.isr) | frozenset(case.elr))
    if rule == "disabled":
        return only(case, "last_known_leader", case.last_known_leader)
    if rule == "none":
        return Result("waits", "administrator")
    return recover(case, balanced=True, least=0, timeout_ms=timeout_ms)


def preferred(case: Case) -> Result:
    chosen = case.replicas[0] if case.replicas else None
    may_lead = case.isr if case.isr else case.elr
    valid = chosen is not None and chosen in may_lead and chosen in case.alive
    if case.leader != -1 and (not valid or case.leader == chosen):
        return Result("not_performed", "preferred", case.leader)
    if chosen is not None and valid:
        return elected(case, "preferred", [chosen])
    waits = Result("waits", "preferred", waited_for=frozenset(() if chosen is None else (chosen,)))
    return clean(case) or waits


def any_replica(case: Case) -> Result:
    there = [r for r in case.replicas if r in case.alive]
    return elected(case, "unclean", there) if there else Result("waits", "unclean", waited_for=frozenset(case.replicas))


def only(case: Case, via: str, broker: int) -> Result:
    if broker in case.replicas and broker in case.alive:
        return elected(case, via, [broker])
    return Result("waits", via, waited_for=frozenset(() if broker == -1 else (broker,)))


def counts(case: Case, replica: int) -> bool:
    """Its answer is there and of the present epochs, and the replica is alive."""
    answer = case.answers.get(replica)
    return (
        answer is not None
        and replica in case.alive
        and answer.at_ms <= case.elapsed_ms
        and answer.broker_epoch == case.broker_epochs[replica]
        and answer.leader_epoch == case.leader_epoch
    )


def recover(case: Case, *, balanced: bool, least: int, timeout_ms: int) -> Result:
    replied = [r for r in case.replicas if counts(case, r)]
    if balanced:
        missing = set(case.last_known_elr) - set(replied)
        if missing:
            return Result("waits", "unclean_recovery", waited_for=frozenset(missing))
    else:
        least = max(least, 1)
    silent = frozenset(case.replicas) - frozenset(replied)
    waits = Result("waits", "unclean_recovery", waited_for=silent)
    if silent and case.elapsed_ms < timeout_ms:
        return waits
    # In time, and after that whoever makes up the number that is asked for.
    times = sorted(case.answers[r].at_ms for r in replied)
    candidates = set()
    for r in replied:
        at = case.answers[r].at_ms
        late_but_needed = len([t for t in times if t < at]) < least
        if at <= timeout_ms or late_but_needed or (balanced and r in case.last_known_elr):
            candidates.add(r)
    if not candidates or len(candidates) < least:
        return waits
    unseen = {r for r in candidates if None in (case.answers[r].last_epoch, case.answers[r].log_end)}
    if unseen and len(candidates) > 1:
        risk = bool(candidates - set(case.isr) - set(case.elr))
        return Result("undetermined", "unclean_recovery", unseen=frozenset(unseen), data_loss_possible=risk)
    best = max(rank(case.answers[r]) for r in candidates)
    return elected(
        case, "unclean_recovery", [r for r in case.replicas if r in candidates and rank(case.answers[r]) == best]
    )


def rank(answer: Answer) -> tuple[int, int]:
    """An unknown log is only ranked where it is the only one."""
    unknown = -(2**63)
    return (
        unknown if answer.last_epoch is None else answer.last_epoch,
        unknown if answer.log_end is None else answer.log_end,
    )


def elected(case: Case, via: str, tied: list[int]) -> Result:
    leader = tied[0]
    answer = case.answers[leader] if counts(case, leader) else None
    return Result(
        "elected",
        via,
        leader,
        tuple(tied),
        last_epoch=answer.last_epoch if answer else None,
        log_end=answer.log_end if answer else None,
        data_loss_possible=leader not in case.isr and leader not in case.elr,
    )


@dataclass(frozen=True, slots=True)
class State:
    """tests.support.kip966_state.States, one partition, with sets."""

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
        return min(self.min_insync_replicas, len(self.replicas))


@dataclass(frozen=True, slots=True)
class Event:
    """tests.support.kip966_state.Events, of one partition. proposed_isr None: nothing is proposed."""

    proposed_isr: frozenset[int] | None = None
    fenced: frozenset[int] = frozenset()
    unfenced: frozenset[int] = frozenset()
    unclean_shutdown: frozenset[int] = frozenset()


def step(state: State, event: Event, *, keeps_elr: bool) -> State:
    gone = event.fenced | event.unclean_shutdown
    alive = (state.alive - gone) | event.unfenced
    proposed = state.isr if event.proposed_isr is None else event.proposed_isr
    isr = (proposed - gone) & alive
    if not isr and not keeps_elr and state.isr:
        isr = frozenset({state.leader}) if state.leader in state.isr else frozenset({min(state.isr)})
    leader = state.leader if state.leader in isr and state.leader in alive - gone else -1
    lost = state.leader != -1 and leader == -1

    elr, last_known_elr, last_known_leader = state.elr, state.last_known_elr, state.last_known_leader
    if keeps_elr:
        eligible = elr | state.isr
        if len(isr) >= state.min_isr:
            elr = last_known_elr = frozenset()
        else:
            elr = eligible - isr - event.unclean_shutdown
            last_known_elr |= eligible & event.unclean_shutdown
        if lost:
            last_known_leader = state.leader
    elif lost or isr != state.isr:
        elr, last_known_elr, last_known_leader = frozenset(), frozenset(), -1

    if leader == -1:
        of_isr = [r for r in state.replicas if r in isr & alive]
        of_elr = [r for r in state.replicas if r in elr & alive] if keeps_elr else []
        if of_isr:
            leader = of_isr[0]
        elif of_elr:
            leader, isr, elr = of_elr[0], frozenset({of_elr[0]}), elr - {of_elr[0]}
        if leader != -1:
            last_known_leader = -1
            if not keeps_elr or len(isr) >= state.min_isr:
                elr = last_known_elr = frozenset()
    moved = lost or leader != state.leader
    epoch = state.leader_epoch + moved
    return State(
        state.replicas,
        isr,
        elr,
        last_known_elr,
        alive,
        leader,
        last_known_leader,
        epoch,
        state.min_insync_replicas,
    )
