"""What to do after an incident, as one plan in a safe order: what prevents a further loss, what to copy, which brokers
to start in which order, what not to do, what to check, what prevents the next loss.

A plan follows from recorded facts. Each step keeps apart what is recorded, assumed and predicted, and names its rule.
It claims no loss and changes no verdict. It knows no command line: jobs/incident/plan.py renders its actions. The
data is the key `plan` of the verdict document (docs/verdict.md); steps.toml has its sentences.

Sources: Kafka's PartitionChangeBuilder (who may be elected), ReplicationControlManager (when), KIP-966 (ELR), KIP-101
(a replica truncates its log), ConfigurationControlManager (a changed min.insync.replicas empties ELRs).
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from replay.arrow.runs import groups
from replay.cluster.features import ELR_VERSION
from replay.plan.clients import clients
from replay.plan.copies import copy, find_old_copies
from replay.plan.inputs import PlanInput, about_waiting, logs_of, members_of, named
from replay.plan.prevention import prevention
from replay.plan.replicas import reassignments
from replay.plan.start_order import BY_LOG, ELR, ISR, LAST_KNOWN, NOBODY, Waiting, start_order
from replay.plan.step import (
    MOST_PLACES,
    UNCLEAN,
    Action,
    PlanStep,
    What,
    about,
    broker_state,
    by_layer,
    count,
    is_active,
    is_legal,
    joined,
    say,
    set_config,
    some,
    step,
    visible,
)

# unclean.leader.election.enable of a topic of which no config in the evidence says it: whether it is on, and its layer.
_ASSUMED_OFF = (False, "assumed_default")


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
        yield step(
            "keep_controllers",
            voters=_listed(given.voters),
            facts=(
                say("both_roles", combined=joined(sorted(given.combined))),
                *(broker_state(given.brokers, b) for b in down),
            ),
            assumptions=(say("one_process"),),
            predictions=(say("no_majority"), say("alone")),
            brokers=sorted(given.combined),
            of=about_waiting(given, given.waiting),
        )


def _listed(nodes: Collection[int]) -> str:
    return some([str(node) for node in sorted(nodes)])


def _stop_replaced(given: PlanInput) -> Iterator[PlanStep]:
    """Before any start: brokers whose replicas the next election finds, with an empty log."""
    rows = [each for each in given.waiting if each.passed_over]
    brokers = sorted({broker for each in rows for broker in each.passed_over})
    if brokers:
        places = {b: named([each for each in rows if b in each.passed_over]) for b in brokers}
        yield step(
            "stop_replaced",
            stopped=joined(brokers),
            number=count(sum(each.count for each in rows), "partition"),
            facts=(say("passed_over", broker=b, places=places[b]) for b in brokers),
            predictions=(say("elected_later"), say("effects_of_stop", brokers=brokers[0])),
            brokers=brokers,
            of=about_waiting(given, rows),
        )


def _turn_off_unclean(given: PlanInput) -> Iterator[PlanStep]:
    """Before any start: while it is on, the first replica that comes back is elected, also one that ran without its
    directory, or if the one copy that is left goes. A member, too, may be one that must not lead: with its registration
    after an unclean stop it leaves the ELR."""
    several = [each for each in given.waiting if len(each.replicas) > 1]
    names = {row["topic"]: visible(row["topic"]) for row in given.alone}
    names |= {each.topic: visible(each.topic, each.topic_id) for each in several}
    found = dict.fromkeys(names, _ASSUMED_OFF) | {
        row["resource_name"]: (row["effective_value"] == "true", row["source"])
        for row in given.configs
        if row["resource_name"] in names and row["name"] == UNCLEAN and row["source"] is not None
    }
    risky = [each for each in several if found[each.topic][0] or found[each.topic] == _ASSUMED_OFF]
    on = {(names[topic], layer) for topic, (is_on, layer) in found.items() if is_on}
    unknown = {(names[each.topic], _ASSUMED_OFF[1]) for each in risky if not found[each.topic][0]}
    if not (both := on | unknown):
        return
    by_controller = given.has_no_majority or not any(is_active(given.brokers, b) for b in given.brokers)
    where, actions = set_config(both, UNCLEAN, "false", by_controller)
    yield step(
        "turn_off_unclean",
        where=where,
        facts=by_layer(on, "unclean_on"),
        assumptions=by_layer(unknown, "unclean_assumed"),
        predictions=(say("first_back", when="While" if on else "If"), *(_would_lose(given, risky) if risky else ())),
        actions=actions,
        of=about_waiting(given, risky),
    )


def _would_lose(given: PlanInput, waiting: Sequence[Waiting]) -> tuple[str, ...]:
    """What the election of an outsider would lose, by what was last seen of it and of the members."""
    found = []
    for each, name, seen in logs_of(given, waiting):
        marks = [seen[b]["high_watermark"] for b in each.members if b in seen]
        mark = max((value for value in marks if value is not None), default=None)
        for broker in each.outsiders:
            end = seen.get(broker, {}).get("log_end_offset")
            if mark is not None and end is not None and end < mark:
                found.append(say("would_lose", place=name, broker=broker, lost=mark - end, end=end))
    return tuple(found[:MOST_PLACES]) or (say("loss_not_known"),)


def _start(given: PlanInput) -> Iterator[PlanStep]:
    led = {row["leader"] for row in given.alone if row["leader"] >= 0}
    # Controllers of 4.0 have a last known leader lead that is down (KAFKA-19522).
    order = sorted(start_order(given.waiting, given.down - given.candidates), key=lambda broker: broker not in led)
    helped = [each for each in given.waiting if each.members]
    by_log = [each for each in helped if each.by == BY_LOG]
    failed = _failed(given, helped)
    if not (order or by_log or failed):
        return
    texts = [f"Restart {joined(sorted(failed))} once the failed log directories work again."] if failed else []
    if order:
        one = len(order) == 1
        starts = f"start broker {order[0]}" if one else f"start brokers in the order {', '.join(map(str, order))}"
        # Had it died with a majority of the controllers, the log would not show it.
        alone = sorted(led.difference(order))
        text = f"Once {joined(alone)} run{'s' * (len(alone) == 1)}, {starts}" if alone else starts.capitalize()
        if by_log or not set(order).isdisjoint(members_of(helped)):
            text += f"; wait for the leaders {'of the partitions that need it' if one else 'after each'}"
        elif given.alone_count:
            text += f": {count(sum(given.alone_count.values()), 'partition')} had one copy left in the ISR or ELR"
        texts.append(f"{text}.")
    if by_log:
        number = sum(each.count for each in by_log)
        if_none = "if it gets none" if number == 1 else "if they get none"
        texts.append(f"Elect the leader{'s' * (number > 1)} of {count(number, 'partition')} by hand {if_none}.")
    by_hand = tuple(_by_hand(given, by_log, order))
    yield step(
        "start",
        starts=" ".join(texts),
        facts=(
            *(say("directory_failed", broker=b, places=named(rows)) for b, rows in sorted(failed.items())),
            *_waited_for(given, order),
            *_compared(given, by_log),
            *(broker_state(given.brokers, b) for b in sorted(order)),
        ),
        assumptions=_as_left(members_of(helped)),
        predictions=(*_elections(given, helped), *_meanwhile(given, by_hand, failed, order)),
        actions=by_hand,
        brokers=order,
        of=about_waiting(given, helped),
    )


def _failed(given: PlanInput, helped: Sequence[Waiting]) -> dict[int, list[Waiting]]:
    """Brokers that ran without the directory of a log that is waited for: it comes back only as they start again
    (LogManager.handleLogDirFailure, 3.9.1 to 4.3.1)."""
    waits = [(b, w) for w in helped if w.by != BY_LOG for b in w.members if b not in w.passed_over]
    pairs = [(broker, each) for broker, each in waits if is_active(given.brokers, broker)]
    return {broker: [each for _, each in own] for broker, own in groups(pairs, lambda pair: pair[0]).items()}


def _meanwhile(
    given: PlanInput, by_hand: Sequence[Action], restarted: Collection[int], order: Collection[int]
) -> Iterator[str]:
    if given.has_no_majority:
        yield say("no_election_yet", voters=_listed(given.voters))
    stopped = {broker for action in by_hand for broker in action.brokers}
    if early := sorted(stopped.intersection(order)):
        yield say("led_meanwhile", brokers=joined(early, "or"))
    if stopped := stopped.union(restarted):
        yield say("effects_of_stop", brokers=",".join(map(str, sorted(stopped))))


def _as_left(members: Sequence[int]) -> Iterator[str]:
    if members:
        disks, be, them = ("disk", "is", "it") if len(members) == 1 else ("disks", "are", "them")
        yield say("as_left", disks=f"{disks} of {joined(members)} {be}", them=them)


def _compared(given: PlanInput, by_log: Sequence[Waiting]) -> Iterator[str]:
    """Where the logs of each partition end that is to be elected by hand."""
    for _, name, seen in islice(logs_of(given, by_log), MOST_PLACES):
        ends = [(b, row["log_end_offset"]) for b, row in sorted(seen.items()) if row["log_end_offset"] is not None]
        yield say("logs_ended", place=name, ends=", ".join(f"the log of broker {b} ended at {end}" for b, end in ends))


def _by_hand(given: PlanInput, by_log: Sequence[Waiting], order: Sequence[int]) -> Iterator[Action]:
    """The unclean elections, in the order of the starts."""
    at = {broker: number for number, broker in enumerate(order)}
    for each in sorted(by_log, key=lambda each: at.get(each.members[0], -1)):
        (best,) = each.members
        running = tuple(b for b in each.outsiders if at.get(b, -1) < at.get(best, -1) or is_active(given.brokers, b))
        yield from _unclean_elections(each, broker=best, brokers=running)


def _unclean_elections(of: Waiting, **how: Any) -> Iterator[Action]:
    for number, partition in enumerate(of.partitions if is_legal(of.topic) else (), 1):
        more = of.left_out if number == len(of.partitions) else 0
        yield Action(What.ELECT, of.topic, partition, more=more, **how)


def _waited_for(given: PlanInput, order: Sequence[int]) -> Iterator[str]:
    for broker in order:
        if rows := [each for each in given.waiting if broker in each.members]:
            number = sum(each.count for each in rows)
            text = {"number": count(number, "partition"), "wait": "waits" if number == 1 else "wait"}
            yield say("wait_for", **text, broker=broker, places=named(rows, 10))


def _elections(given: PlanInput, waiting: Sequence[Waiting]) -> Iterator[str]:
    by = {each.by for each in waiting}
    if ISR in by and not given.features.get(ELR_VERSION):
        # Only with ELR does a registration after an unclean stop take it from the ISR (handleBrokerShutdown, 4.0.2 to
        # 4.3.1; handleBrokerUncleanShutdown, 3.9.1).
        yield say("without_elr")
    elif by - {LAST_KNOWN, BY_LOG}:
        yield say("with_elr")
    known = [w for w in waiting if w.by == ELR or (w.by == BY_LOG and w.members[0] != w.last_known)]
    leaders = groups([w for w in known if w.last_known >= 0], lambda each: each.last_known)
    if leaders:
        texts = [f"broker {broker} of {named(rows)}" for broker, rows in sorted(leaders.items())]
        yield say("last_member", leaders=some(texts))
    for each in waiting:
        if each.by == LAST_KNOWN:
            yield say("last_known", places=named([each]), broker=each.members[0])
    by_log = groups([each for each in waiting if each.by == BY_LOG], lambda each: each.members[0])
    for broker, rows in sorted(by_log.items()):
        yield say("by_log", places=named(rows), broker=broker)
    if waiting:
        yield say("replaced")


def _elect(given: PlanInput) -> Iterator[PlanStep]:
    """For partitions that nobody's return helps: of their replicas, only the one that holds most may be running."""
    if rows := [each for each in given.waiting if each.by == NOBODY]:
        candidates = sorted(given.candidates)
        first = f"of {joined(candidates)} start only that one; " if len(candidates) > 1 else ""
        yield step(
            "elect",
            number=count(sum(each.count for each in rows), "partition"),
            first=f"start {joined(candidates)} only if it is that one; " if len(candidates) == 1 else first,
            last=", then start the others" if candidates else "",
            facts=(say("nobody", places=named(rows)),),
            predictions=(say("first_assigned"),),
            actions=(action for each in rows for action in _unclean_elections(each)),
            brokers=candidates,
            of=about_waiting(given, rows),
        )


def _no_unclean_election(given: PlanInput) -> Iterator[PlanStep]:
    rows = [each for each in given.waiting if each.members and each.by != BY_LOG]
    if rows:
        elr, number = [each for each in rows if each.by == ELR], sum(each.count for each in rows)
        yield step(
            "no_unclean_election",
            other="other " if any(each.by == BY_LOG for each in given.waiting) else "",
            no_min_isr=" and change no min ISR" if elr else "",
            number=count(number, "partition"),
            wait="waits" if number == 1 else "wait",
            facts=(
                say(f"was_{by}", members=", ".join(map(str, members)), places=named(own))
                for (by, members), own in groups(rows, lambda each: (each.by, each.members)).items()
            ),
            predictions=(say("lost_for_good"), *([say("empties_elr")] if elr else [])),
            brokers=members_of(rows),
            of=about_waiting(given, rows),
        )


def _keep_disks(given: PlanInput) -> Iterator[PlanStep]:
    if brokers := sorted(given.alone_count):
        yield step(
            "keep_disks",
            holders=joined(brokers, "or"),
            number=count(sum(given.alone_count.values()), "partition"),
            facts=(say("alone_in_isr", broker=b, number=count(given.alone_count[b], "partition")) for b in brokers),
            predictions=(say("disk_lost"),),
            brokers=brokers,
            of=about({**row, "finding_id": None} for row in given.alone),
        )


def _check_leaders(given: PlanInput) -> Iterator[PlanStep]:
    if given.waiting or given.alone_count:
        active = [broker for broker in given.brokers if is_active(given.brokers, broker)]
        moves = tuple(reassignments(given.alone, active))
        gone = sorted(given.down & {b for row in given.alone for b in row["replicas"]} if moves else ())
        yield step(
            "check_leaders",
            moves=f" Where {joined(gone, 'or')} will not come back, move its replicas." if gone else "",
            predictions=(*([say("still_none")] if given.waiting else []), *([say("moved")] if moves else [])),
            actions=(Action(What.DESCRIBE), *moves),
            brokers=gone,
        )
