"""The step that prevents the next loss: configs, features and releases that the log shows, and partitions that stood
one failure from a loss."""

from collections.abc import Collection, Iterator
from dataclasses import asdict

from replay.arrow.runs import groups
from replay.controller.profiles import FIXES, PROFILES
from replay.findings.statements import prose
from replay.plan.inputs import PlanInput
from replay.plan.step import (
    MIN_ISR,
    UNCLEAN,
    Action,
    PlanStep,
    What,
    about,
    by_layer,
    place,
    say,
    set_config,
    step,
    target,
    visible,
)

MOST_LONGEST = 5
_ELR, _METADATA = "eligible.leader.replicas.version", "metadata.version"
# metadata.version 4.0-IV1; with 4.1-IV0 no controller is of 4.0, which elects a last known leader that is down.
_ELR_NEEDS, _NOT_4_0 = 23, 26
_LASTED = ("last_replica", "exposed_for", "exposed_for_at_least")
# config, unsafe value, safe value, the sentence that says what follows.
_UNSAFE = ((MIN_ISR, "1", "2", "one_copy"), (UNCLEAN, "true", "false", "stays_down"))


def prevention(given: PlanInput, done: Collection[str | None]) -> Iterator[PlanStep]:
    """done: topics (null: all brokers) whose unclean election an earlier step turns off."""
    texts, facts, assumptions, predictions, actions = list[str](), list[str](), list[str](), list[str](), list[Action]()
    for name, bad, good, then in _UNSAFE:
        topics = {
            (visible(row["resource_name"]), row["source"])
            for row in given.configs
            # One replica is always in sync with itself (Partition.effectiveMinIsr, 3.9.1 to 4.3.1).
            if row["resource_name"] not in given.single
            and (row["resource_type"], row["name"], row["effective_value"]) == ("topic", name, bad)
            and (name != UNCLEAN or target(row["resource_name"], row["source"]) not in done)
        }
        if not topics:
            continue
        where, how = set_config(topics, name, good)
        texts.append(f"set {name}={good} for {where}")
        assumed = {each for each in topics if each[1] == "assumed_default"}
        facts += by_layer(topics - assumed, "config", name=name, value=bad)
        assumptions += by_layer(assumed, "config", name=name, value=bad)
        predictions.append(say(then))
        actions += how
    if given.features and given.features.get(_ELR, 0) == 0:
        level = given.features.get(_METADATA)
        able, is_newer = (level is not None and level >= least for least in (_ELR_NEEDS, _NOT_4_0))
        upgrade = "upgrade to Kafka 4.1 or later, metadata.version too, for ELR (KIP-966)"
        first = "" if is_newer else " once all controllers are of 4.1 or later (KAFKA-19522)"
        texts.append(f"turn on eligible leader replicas{first}" if able else upgrade)
        facts.append(say("elr_off", level=level))
        predictions += [say("elr_remembers"), say("elr_removes")]
        actions += [Action(What.FEATURE, name=_ELR, value="1")] if able else []
    if tickets := groups(given.known_bugs, lambda row: row["ticket"]):
        rules = {rule: value for ticket in tickets for rule, value in FIXES[ticket].items()}
        fixed = next(p.name for p in PROFILES.values() if rules.items() <= asdict(p).items())
        texts.append(f"upgrade the controllers to {fixed} or later ({', '.join(tickets)})")
        facts += [say("known_bug", ticket=ticket) for ticket in tickets]
    if longest := given.longest:
        texts += [] if texts else ["check why partitions had one safe copy for long"]
        facts += [f"{place(row)}: {prose(s for s in row['reason'] or () if s['code'] in _LASTED)}" for row in longest]
    if texts:
        yield step(
            "prevent_next",
            texts="; ".join(texts),
            bugs=", rule_mismatch" if given.known_bugs else "",
            facts=facts,
            assumptions=assumptions,
            predictions=predictions,
            actions=actions,
            of=about([*given.known_bugs, *longest]),
        )
