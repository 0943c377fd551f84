"""What to do after an incident, as one plan in a safe order: what prevents a further loss, what to copy, which brokers
to start in which order, what not to do, what to check, what prevents the next loss.

A plan follows from recorded facts. Each step keeps apart what is recorded, assumed and predicted, and names its rule.
It claims no loss and changes no verdict. It knows no command line: jobs/incident/commands.py renders its actions. The
data is the key `plan` of the verdict document (docs/verdict.md).

Sources: Kafka's PartitionChangeBuilder (who may be elected), ReplicationControlManager (when), KIP-966 (ELR), KIP-101
(a replica truncates its log), ConfigurationControlManager (a changed min.insync.replicas empties ELRs).
"""

from collections.abc import Collection, Iterator, Sequence

from replay.arrow.runs import groups
from replay.cluster.features import ELR_VERSION
from replay.plan.clients import clients
from replay.plan.copies import copy, find_old_copies
from replay.plan.inputs import PlanInput, about_waiting, logs_of, members_of, named
from replay.plan.prevention import prevention
from replay.plan.replicas import reassignments
from replay.plan.start_order import BY_LOG, ELR, ISR, LAST_KNOWN, NOBODY, OFF, ON, Waiting, start_order
from replay.plan.step import (
    EXPOSURE,
    MIN_ISR,
    MOST_PLACES,
    UNCLEAN,
    Action,
    Phase,
    PlanStep,
    What,
    about,
    broker_state,
    count,
    is_active,
    is_legal,
    joined,
    some,
    visible,
)

_STILL_NONE = (
    "A partition that has no leader with all its replicas back had only members that stopped uncleanly or lost their "
    "directory: compare the logs of its replicas before an unclean election."
)
# The first start gives the replica another directory, which only later elections find online: of the next start of any
# broker, or of the check for preferred leaders (ReplicationControlManager.handleAssignReplicasToDirs,
# handleBrokerUnfenced, maybeBalancePartitionLeaders, 3.9.1 to 4.3.1). tests/kafka/test_replaced_disk.py.
_LATER = (
    "at the next start of any broker, or at a check for preferred leaders, with an empty log: then the others truncate "
    "all that they have."
)
_REPLACED = (
    f"A member whose directory was replaced is not elected as it starts, but {_LATER} Do not start it; compare the "
    "logs of the others."
)
# Layers of a config that the default of all brokers overrides (KafkaConfigSchema.resolveEffectiveTopicConfig).
_BELOW_CLUSTER = ("cluster", "static", "default", "assumed_default")


def make_plan(given: PlanInput) -> list[PlanStep]:
    """The steps in the order in which to take them, at most one of each code; [] if there is nothing to do."""
    off = list(_turn_off_unclean(given))
    done = {action.topic for step in off for action in step.actions}
    return [
        *_keep_controllers(given, bool(off)),
        *off,
        *_stop_replaced(given),
        *copy(given),
        *find_old_copies(given),
        *_start(given),
        *_elect(given),
        *_no_unclean_election(given),
        *_keep_disks(given),
        *_check_leaders(given),
        *clients(given),
        *prevention(given, done),
    ]


def _keep_controllers(given: PlanInput, off: bool) -> Iterator[PlanStep]:
    """Where brokers that are down before a config is set, or must be for an election by hand, take the majority of the
    controllers with them. off: whether the plan has such a config."""
    by_hand = [each for each in given.waiting if each.by in (BY_LOG, NOBODY)]
    stopped = [
        each.outsiders if each.by == BY_LOG else sorted(each.replicas, key=lambda b: b in given.combined)[1:]
        for each in by_hand
    ]
    if (off and given.has_no_majority) or any(map(given.takes_majority, stopped)):
        down = [b for b in sorted(given.combined) if not is_active(given.brokers, b)]
        yield PlanStep(
            Phase.PREVENT,
            "keep_controllers",
            f"Let a majority of the controllers {_listed(given.voters)} run: where the broker must be down, as a "
            "controller alone (process.roles=controller).",
            "leaderless",
            EXPOSURE,
            facts=(
                f"Of these voters {joined(sorted(given.combined))} were brokers, too.",
                *(broker_state(given.brokers, b) for b in down),
            ),
            assumptions=("Where such a broker was down its controller was, for both are one process.",),
            predictions=(
                "Without a majority no config is set and nobody is elected; once there is one, whoever runs may be.",
                "With that role, and its controller's listener alone, a node opens no log of a topic.",
            ),
            brokers=tuple(sorted(given.combined)),
            **about_waiting(given, given.waiting),
        )


def _listed(nodes: Collection[int]) -> str:
    return some([str(node) for node in sorted(nodes)])


def _stop_replaced(given: PlanInput) -> Iterator[PlanStep]:
    """Before any start: brokers whose replicas the next election finds, with an empty log."""
    rows = [each for each in given.waiting if each.passed_over]
    brokers = tuple(sorted({broker for each in rows for broker in each.passed_over}))
    if brokers:
        number = count(sum(each.count for each in rows), "partition")
        yield PlanStep(
            Phase.PREVENT,
            "stop_replaced",
            f"Stop {joined(brokers)} before any start: {number} got no leader while a member ran, so that its "
            "directory was replaced.",
            "leaderless",
            EXPOSURE,
            facts=tuple(
                f"Broker {b} was active, with its directory online, and did not lead: "
                f"{named([each for each in rows if b in each.passed_over])}."
                for b in brokers
            ),
            predictions=(
                f"It is elected {_LATER}",
                f"What a stop does to other partitions: kraft-forensics ahead --stop {brokers[0]}.",
            ),
            brokers=brokers,
            **about_waiting(given, rows),
        )


def _turn_off_unclean(given: PlanInput) -> Iterator[PlanStep]:
    """Before any start: while it is on, the first replica that comes back is elected. A member, too, may be one that
    must not lead: with its registration after an unclean stop it leaves the ELR."""
    down = given.down
    unsafe = [each for each in given.waiting if each.unclean != OFF and len(each.replicas) > 1]
    risky = [each for each in unsafe if not down.isdisjoint(each.replicas)]
    if not risky:
        return
    own = {each.topic for each in risky if each.layer not in _BELOW_CLUSTER}
    topics = sorted(visible(topic) for topic in own)
    whole = len(own) < len({each.topic for each in risky})
    where = [some(topics, 5)] if topics else []
    where += ["all brokers"] if whole else []
    by_controller = given.has_no_majority or not any(is_active(given.brokers, b) for b in given.brokers)
    names = [*([None] if whole else []), *sorted(topic for topic in own if topic is not None and is_legal(topic))]
    on, unknown = ([each for each in risky if (each.unclean == ON) is known] for known in (True, False))
    yield PlanStep(
        Phase.PREVENT,
        "turn_off_unclean",
        f"Before any start: set {UNCLEAN}=false for {' and '.join(where)}.",
        "leaderless, N10",
        EXPOSURE,
        facts=tuple(_by_layer(on, f"{UNCLEAN} was true for {{}} (config layer: {{}}).")),
        assumptions=tuple(_by_layer(unknown, f"No config in the evidence sets {UNCLEAN} for {{}}: it may be on.")),
        predictions=(
            f"{'While' if on else 'If'} it is on, the first replica that comes back is elected, whatever it holds.",
            *_would_lose(given, risky),
        ),
        actions=tuple(
            Action(What.SET_CONFIG, t, name=UNCLEAN, value="false", by_controller=by_controller) for t in names
        ),
        **about_waiting(given, risky),
    )


def _by_layer(waiting: Sequence[Waiting], text: str) -> Iterator[str]:
    for layer, rows in groups(waiting, lambda each: each.layer).items():
        yield text.format(some(sorted({visible(each.topic, each.topic_id) for each in rows})), layer)


def _would_lose(given: PlanInput, waiting: Sequence[Waiting]) -> tuple[str, ...]:
    """What the election of an outsider would lose, by what was last seen of it and of the members."""
    found = []
    for each, name, seen in logs_of(given, waiting):
        marks = [seen[b]["high_watermark"] for b in each.members if b in seen]
        mark = max((value for value in marks if value is not None), default=None)
        for broker in each.outsiders:
            end = seen.get(broker, {}).get("log_end_offset")
            if mark is not None and end is not None and end < mark:
                found.append(
                    f"{name}: broker {broker} would lose at least {mark - end} acknowledged records, if its log still "
                    f"ends at {end}, where it was last seen."
                )
    return tuple(found[:MOST_PLACES]) or ("How many records that election would lose is not known.",)


def _start(given: PlanInput) -> Iterator[PlanStep]:
    order = start_order(given.waiting, given.down - given.candidates)
    helped = [each for each in given.waiting if each.members]
    by_log = [each for each in helped if each.by == BY_LOG]
    if not order and not by_log:
        return
    one = len(order) == 1
    starts = f"start broker {order[0]}" if one else f"start brokers in the order {', '.join(map(str, order))}"
    # Had it died with a majority of the controllers, the log would not show it.
    alone = sorted({row["leader"] for row in given.alone if row["leader"] >= 0})
    text = f"Once {joined(alone)} run{'s' * (len(alone) == 1)}, {starts}" if alone else starts.capitalize()
    if not order:
        text, then = "", ""
    elif helped:
        then = f"; wait for the leaders {'of the partitions that need it' if one else 'after each'}."
    else:
        then = f": {count(sum(given.alone_count.values()), 'partition')} had one copy left in the ISR or ELR."
    if by_log:
        number = sum(each.count for each in by_log)
        if_none = "if it gets none" if number == 1 else "if they get none"
        leaders = f"leader{'s' * (number > 1)} of {count(number, 'partition')}"
        then += f"{' ' * bool(order)}Elect the {leaders} by hand {if_none}."
    by_hand = tuple(_by_hand(given, by_log, order))
    yield PlanStep(
        Phase.START,
        "start",
        text + then,
        "leaderless, H1",
        EXPOSURE,
        facts=(
            *_waited_for(given, order),
            *_compared(given, by_log),
            *(broker_state(given.brokers, b) for b in sorted(order)),
        ),
        assumptions=_as_left(members_of(helped)),
        predictions=(*_elections(given, helped), *([_REPLACED] if helped else []), *_meanwhile(given, by_hand)),
        actions=by_hand,
        brokers=order,
        **about_waiting(given, helped),
    )


def _meanwhile(given: PlanInput, by_hand: Sequence[Action]) -> Iterator[str]:
    if given.has_no_majority:
        controllers = _listed(given.voters)
        yield f"Nobody is elected before a majority of the controllers {controllers} runs: do not wait until then."
    if stopped := sorted({broker for action in by_hand for broker in action.brokers}):
        asked = ",".join(map(str, stopped))
        yield f"What such stops do to other partitions: kraft-forensics ahead --stop-all-in-order {asked}."


def _as_left(members: Sequence[int]) -> tuple[str, ...]:
    if not members:
        return ()
    of = f"disk of {joined(members)} is" if len(members) == 1 else f"disks of {joined(members)} are"
    return (f"The {of} as the process left {'it' if len(members) == 1 else 'them'}: not replaced, not of a backup.",)


def _compared(given: PlanInput, by_log: Sequence[Waiting]) -> Iterator[str]:
    """Where the logs of each partition end that is to be elected by hand."""
    for _, name, seen in logs_of(given, by_log):
        ends = [(b, row["log_end_offset"]) for b, row in sorted(seen.items()) if row["log_end_offset"] is not None]
        yield f"{name}: without a leader, {', '.join(f'the log of broker {b} ended at {end}' for b, end in ends)}."


def _by_hand(given: PlanInput, by_log: Sequence[Waiting], order: Sequence[int]) -> Iterator[Action]:
    """The unclean elections, in the order of the starts."""
    at = {broker: number for number, broker in enumerate(order)}
    for each in sorted(by_log, key=lambda each: at.get(each.members[0], -1)):
        (best,) = each.members
        running = tuple(b for b in each.outsiders if at.get(b, -1) < at.get(best, -1) or is_active(given.brokers, b))
        if is_legal(each.topic):
            yield from (Action(What.ELECT, each.topic, p, broker=best, brokers=running) for p in each.partitions)


def _waited_for(given: PlanInput, order: Sequence[int]) -> Iterator[str]:
    for broker in order:
        rows = [each for each in given.waiting if broker in each.members]
        if rows:
            number = sum(each.count for each in rows)
            yield f"{count(number, 'partition')} wait{'s' * (number == 1)} for broker {broker}: {named(rows, 10)}."


def _elections(given: PlanInput, waiting: Sequence[Waiting]) -> Iterator[str]:
    by = {each.by for each in waiting}
    if ISR in by and not given.features.get(ELR_VERSION):
        # Only with ELR does a registration after an unclean stop take it from the ISR (handleBrokerShutdown, 4.0.2 to
        # 4.3.1; handleBrokerUncleanShutdown, 3.9.1).
        yield (
            "Without ELR a member of the ISR is elected as it comes back, also after an unclean stop, whatever its log "
            "lost: compare the logs of its replicas first."
        )
    elif by - {LAST_KNOWN, BY_LOG}:
        yield (
            "A member of the ISR or ELR is elected cleanly as it comes back. One that had stopped uncleanly is not: "
            "then go on with the next broker."
        )
    for each in waiting:
        if each.by == LAST_KNOWN:
            yield (
                f"{named([each])}: broker {each.members[0]}, the last known leader, is elected uncleanly as it comes "
                "back."
            )

    by_log = groups([each for each in waiting if each.by == BY_LOG], lambda each: each.members[0])
    for broker, rows in sorted(by_log.items()):
        yield (
            f"{named(rows)}: broker {broker} has the highest (last leader epoch, log end); by Kafka's rules another "
            "one may be elected, or nobody."
        )


def _elect(given: PlanInput) -> Iterator[PlanStep]:
    """For partitions that nobody's return helps: of their replicas, only the one that holds most may be running."""
    rows = [each for each in given.waiting if each.by == NOBODY]
    if not rows:
        return
    candidates = tuple(sorted(given.candidates))
    number = count(sum(each.count for each in rows), "partition")
    first = f"of {joined(candidates)} start only that one; " if len(candidates) > 1 else ""
    first = f"start {joined(candidates)} only if it is that one; " if len(candidates) == 1 else first
    yield PlanStep(
        Phase.START,
        "elect",
        f"{number} no broker's return helps: find the replica whose copy has the highest (last leader epoch, log end); "
        f"{first}elect it while no other of their replicas runs"
        f"{', then start the others' if candidates else ''}.",
        "leaderless, E2",
        EXPOSURE,
        facts=(f"ISR and ELR were empty, and there was not one last known leader: {named(rows)}.",),
        predictions=("An unclean election takes the first replica in the assignment that runs, whatever it holds.",),
        actions=tuple(Action(What.ELECT, w.topic, p) for w in rows if is_legal(w.topic) for p in w.partitions),
        brokers=candidates,
        **about_waiting(given, rows),
    )


def _no_unclean_election(given: PlanInput) -> Iterator[PlanStep]:
    rows = [each for each in given.waiting if each.members and each.by != BY_LOG]
    if rows:
        elr, number = [each for each in rows if each.by == ELR], sum(each.count for each in rows)
        other = "other " if any(each.by == BY_LOG for each in given.waiting) else ""
        no_min_isr = " and change no min ISR" if elr else ""
        yield PlanStep(
            Phase.DO_NOT,
            "no_unclean_election",
            f"Force no {other}unclean election{no_min_isr}: {count(number, 'partition')} wait{'s' * (number == 1)}.",
            "leaderless, N10",
            EXPOSURE,
            facts=tuple(_members_facts(rows)),
            predictions=(
                "An unclean election loses for good what only those brokers have.",
                *([f"A change of {MIN_ISR} empties the ELR: then nobody is elected cleanly."] if elr else []),
            ),
            brokers=tuple(members_of(rows)),
            **about_waiting(given, rows),
        )


_LISTS = {ELR: "the ISR was empty and the ELR was {}", LAST_KNOWN: "the last known leader was {}"}


def _members_facts(waiting: Sequence[Waiting]) -> Iterator[str]:
    for (by, members), rows in groups(waiting, lambda each: (each.by, each.members)).items():
        text = _LISTS.get(by, "the ISR was {}").format(", ".join(map(str, members)))
        yield f"When the log ended, {text}: {named(rows)}."


def _keep_disks(given: PlanInput) -> Iterator[PlanStep]:
    if not given.alone_count:
        return
    brokers = tuple(sorted(given.alone_count))
    yield PlanStep(
        Phase.DO_NOT,
        "keep_disks",
        f"Wipe no disk of {joined(brokers, 'or')}: {count(sum(given.alone_count.values()), 'partition')} had no other "
        "safe copy.",
        "last_replica_standing",
        EXPOSURE,
        facts=tuple(
            f"Broker {b} alone in the ISR and ELR: {count(given.alone_count[b], 'partition')}." for b in brokers
        ),
        predictions=("If such a disk is lost before others have caught up, acknowledged records are gone.",),
        brokers=brokers,
        **about({**row, "finding_id": None} for row in given.alone),
    )


def _check_leaders(given: PlanInput) -> Iterator[PlanStep]:
    if not given.waiting and not given.alone_count:
        return
    active = [broker for broker in given.brokers if is_active(given.brokers, broker)]
    moves = tuple(reassignments(given.alone, active))
    gone = sorted(given.down & {b for row in given.alone for b in row["replicas"]} if moves else ())
    yield PlanStep(
        Phase.CHECK,
        "check_leaders",
        "Check that every partition has a leader and every replica is in the ISR."
        + (f" Where {joined(gone, 'or')} will not come back, move its replicas." if gone else ""),
        "leaderless, last_replica_standing",
        EXPOSURE,
        predictions=(
            *([_STILL_NONE] if given.waiting else []),
            *(["A moved replica copies from the leader; the move ends when it is in the ISR."] if moves else []),
        ),
        actions=(Action(What.UNAVAILABLE), Action(What.UNDER_REPLICATED), *moves),
        brokers=tuple(gone),
    )
