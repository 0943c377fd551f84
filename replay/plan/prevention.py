"""The step that prevents the next loss: configs, features and releases that the log shows, and partitions that stood
one failure from a loss."""

from collections.abc import Collection

from replay.arrow.runs import groups
from replay.findings.statements import prose
from replay.plan.inputs import PlanInput
from replay.plan.step import (
    EXPOSURE,
    MIN_ISR,
    UNCLEAN,
    Action,
    Phase,
    PlanStep,
    Row,
    What,
    about,
    is_legal,
    place,
    some,
    visible,
)

MOST_LONGEST = 5
_ELR, _METADATA = "eligible.leader.replicas.version", "metadata.version"
_ELR_NEEDS = 23  # metadata.version 4.0-IV1
_FIXED_IN = {"KAFKA-19522": "4.1.0", "KAFKA-19975": "4.3.0"}
_LASTED = ("last_replica", "exposed_for", "exposed_for_at_least")
# config, unsafe value, safe value, what follows.
_UNSAFE = (
    (MIN_ISR, "1", "2", "With acks=all, writes then stop while fewer than 2 replicas are in sync."),
    (UNCLEAN, "true", "false", "A partition then stays without a leader until a member of its ISR or ELR is back."),
)


def prevention(given: PlanInput, done: Collection[str | None]) -> list[PlanStep]:
    """done: topics (null: all brokers) whose unclean election an earlier step turns off."""
    texts, facts, assumptions, predictions, actions = list[str](), list[str](), list[str](), list[str](), list[Action]()
    for name, bad, good, then in _UNSAFE:
        rows = [
            row
            for row in given.configs
            if (row["resource_type"], row["name"], row["effective_value"]) == ("topic", name, bad)
            and (name != UNCLEAN or not _is_done(row, done))
        ]
        topics = sorted({r["resource_name"] for r in rows})
        if not topics:
            continue
        texts.append(f"set {name}={good} for {some([visible(topic) for topic in topics], 5)}")
        for source, found in groups(rows, lambda r: r["source"]).items():
            named = some(sorted({visible(r["resource_name"]) for r in found}))
            kind = assumptions if source == "assumed_default" else facts
            kind.append(f"{name} is {bad} for {named} (config layer: {source}).")
        predictions.append(then)
        actions += [Action(What.SET_CONFIG, topic, name=name, value=good) for topic in topics if is_legal(topic)]
    if given.features and given.features.get(_ELR, 0) == 0:
        level = given.features.get(_METADATA)
        able = level is not None and level >= _ELR_NEEDS
        texts.append("turn on eligible leader replicas" if able else "upgrade to Kafka 4.0 or later for ELR (KIP-966)")
        facts.append(f"{_ELR} is 0, {_METADATA} is {level} when the log ended.")
        predictions.append("With ELR the controller remembers who has every acknowledged record below min ISR.")
        predictions.append(f"Turning it on removes the values of {MIN_ISR} that are set on single brokers.")
        actions += [Action(What.FEATURE, name=_ELR, value="1")] if able else []
    for ticket in groups(given.known_bugs, lambda row: row["ticket"]):
        release = _FIXED_IN.get(ticket)
        texts.append(f"upgrade the controllers{f' to {release} or later' if release else ''} ({ticket})")
        facts.append(f"The controllers' release has {ticket}.")
    longest = given.longest[:MOST_LONGEST]
    if longest:
        texts += [] if texts else ["check why partitions had one safe copy for long"]
        facts += [f"{place(row)}: {prose(s for s in row['reason'] or () if s['code'] in _LASTED)}" for row in longest]
    if not texts:
        return []
    return [
        PlanStep(
            Phase.LATER,
            "prevent_next",
            f"Once all are in sync: {'; '.join(texts)}.",
            "last_replica_standing, H1, H2" + (", rule_mismatch" if given.known_bugs else ""),
            EXPOSURE,
            facts=tuple(facts),
            assumptions=tuple(assumptions),
            predictions=tuple(predictions),
            actions=tuple(actions),
            **about([*given.known_bugs, *longest]),
        )
    ]


def _is_done(config: Row, done: Collection[str | None]) -> bool:
    """Whether an earlier step sets the topic's config, or that of all brokers, which counts for it."""
    return config["resource_name"] in done or (None in done and config["source"] not in ("topic", "broker"))
