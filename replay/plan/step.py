"""A plan as data: steps, and the actions in them that `jobs` renders as commands of Kafka's tools."""

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum, auto
from importlib.resources import files
from operator import itemgetter
from typing import Any

from replay.arrow.runs import groups

Row = Mapping[str, Any]

MOST_PLACES = 20
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"

_TEXTS = tomllib.loads(files("replay.plan").joinpath("steps.toml").read_text("utf-8"))
_NEVER = "an unknown time"
_LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


class What(StrEnum):
    """What an action does."""

    SET_CONFIG = auto()
    ELECT = auto()
    COPY_LOGS = auto()
    REASSIGN = auto()
    FEATURE = auto()
    DESCRIBE = auto()
    GROUPS = auto()
    HANGING = auto()
    GROUP_IDS = auto()
    TRANSACTION_IDS = auto()


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a tool of Kafka does, or this one.

    what: SET_CONFIG (topic, null: the default of all brokers; name, value), ELECT (an unclean election: topic,
    partition; broker: the only replica that runs then, null if not known; brokers: those that run and must stop for
    it), COPY_LOGS (broker; name: partitions with commas between), REASSIGN (name of a file; value: its text), FEATURE
    (name, value), DESCRIBE, GROUPS, HANGING (topic, partition), GROUP_IDS and TRANSACTION_IDS (value: number of
    partitions, null if not known; partitions: which of them). by_controller: no broker may be there to answer. more:
    how many partitions it leaves out.
    """

    what: What
    topic: str | None = None
    partition: int | None = None
    name: str | None = None
    value: str | None = None
    partitions: tuple[int, ...] = ()
    by_controller: bool = False
    broker: int | None = None
    brokers: tuple[int, ...] = ()
    more: int = 0


@dataclass(frozen=True, slots=True)
class PlanStep:
    """A line of a plan, and what is folded behind it. A plan has at most one step of each code.

    text: one line. facts, assumptions, predictions: sentences of one nature each. brokers: what it
    is about; of `start` in the order in which to start them. places: topic-partition, at most MOST_PLACES of
    place_count. rule: a number of docs/findings.md, or a kind of finding; see: the section that explains it.
    """

    phase: str
    code: str
    text: str
    rule: str
    see: str
    facts: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    predictions: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    brokers: tuple[int, ...] = ()
    places: tuple[str, ...] = ()
    place_count: int = 0
    finding_ids: tuple[str, ...] = ()


def step(
    code: str,
    *,
    of: Mapping[str, Any] | None = None,
    facts: Iterable[str] = (),
    assumptions: Iterable[str] = (),
    predictions: Iterable[str] = (),
    actions: Iterable[Action] = (),
    brokers: Iterable[int] = (),
    **figures: object,
) -> PlanStep:
    """The step of steps.toml. of: what it is about, from `about`; figures: of its line and its rule."""
    given = _TEXTS["steps"][code]
    text, rule = (given[name].format(**figures) for name in ("text", "rule"))
    natures = {"facts": tuple(facts), "assumptions": tuple(assumptions), "predictions": tuple(predictions)}
    more = {**natures, "actions": tuple(actions), "brokers": tuple(brokers), **(of or {})}
    return PlanStep(given["phase"], code, text, rule, given["see"], **more)


def say(sentence: str, **figures: object) -> str:
    """A sentence of steps.toml."""
    return str(_TEXTS["sentences"][sentence].format(**figures))


def target(topic: str, layer: str) -> str | None:
    """Where a topic's config is set: on it, or, if its value is of a layer that the default of all brokers overrides
    (KafkaConfigSchema.resolveEffectiveTopicConfig), as that, None."""
    return None if layer in ("cluster", "static", "default", "assumed_default") else topic


def set_config(
    topics: Iterable[tuple[str, str]], name: str, value: str, by_controller: bool = False
) -> tuple[str, list[Action]]:
    """(Where a config is set for topics, as words, how). topics: each with the layer of its value."""
    found = {target(*each) for each in topics}
    own, whole = sorted(filter(None, found)), [None] if None in found else []
    where = [*([some(own, 5)] if own else []), *("all brokers" for _ in whole)]
    places = (*whole, *filter(is_legal, own))
    actions = [Action(What.SET_CONFIG, at, name=name, value=value, by_controller=by_controller) for at in places]
    return " and ".join(where), actions


def by_layer(topics: Collection[tuple[str, str]], sentence: str, **figures: object) -> Iterator[str]:
    """A sentence for each layer of topics: as for `set_config`."""
    for layer, rows in groups(sorted(topics), itemgetter(1)).items():
        yield say(sentence, topics=some([topic for topic, _ in rows]), layer=layer, **figures)


def about(rows: Iterable[Row]) -> dict[str, Any]:
    """The fields of a Step that say which findings and partitions it is about."""
    found = list(rows)
    places = dict.fromkeys(place(row) for row in found)
    ids = [row["finding_id"] for row in found if row["finding_id"] is not None][:MOST_PLACES]
    return {"places": tuple(sorted(places)[:MOST_PLACES]), "place_count": len(places), "finding_ids": tuple(ids)}


def broker_state(brokers: Mapping[int, Row], broker: int) -> str:
    """How a broker stood when the log ended. brokers: broker -> BROKER_HISTORY row.

    Fenced says nothing of how it stopped: a broker that leads nothing is fenced as soon as it asks to stop, without a
    record that it asked (BrokerHeartbeatManager.calculateNextBrokerState)."""
    row = brokers.get(broker)
    if row is None:
        return f"How broker {broker} stood when the log ended is not known."
    if row["incarnation_id"] is None:
        return f"Broker {broker} was not registered when the log ended."
    if not row["fenced"]:
        asked = ", and had asked for a controlled shutdown" if row["in_controlled_shutdown"] else ""
        return f"Broker {broker} was active when the log ended{asked}."
    how = ", after it had asked for a controlled shutdown" if row["in_controlled_shutdown"] else ""
    return f"Broker {broker} was fenced when the log ended{how} (metadata offset {row['offset']})."


def is_away(session: Row) -> bool:
    """Whether a broker could not lead after a BROKER_HISTORY row."""
    return bool(session["incarnation_id"] is None or session["fenced"] or session["in_controlled_shutdown"])


def is_active(brokers: Mapping[int, Row], broker: int) -> bool:
    """Whether a broker could lead when the log ended."""
    return broker in brokers and not is_away(brokers[broker])


def is_legal(topic: str | None) -> bool:
    """Whether Kafka accepts the name: no other one gets into a command."""
    return topic is not None and topic not in (".", "..") and _LEGAL_TOPIC.fullmatch(topic) is not None


def visible(topic: str | None, topic_id: str | None = None) -> str:
    """The name, escaped if Kafka does not accept it; the id of a topic without a name."""
    return f"topic id {topic_id}" if topic is None else topic if is_legal(topic) else ascii(topic)[1:-1]


def place(row: Row) -> str:
    """Topic and partition of a row."""
    return f"{visible(row['topic'], row['topic_id'])}-{row['partition']}"


def some(texts: Sequence[str], most: int = MOST_PLACES) -> str:
    """The first texts, and how many more there are."""
    more = len(texts) - most
    return ", ".join([*texts[:most], *([f"{more} more"] if more > 0 else [])])


def joined(brokers: Sequence[int], word: str = "and") -> str:
    """ "broker 3", "brokers 3 and 4", "brokers 2, 3 and 4"."""
    *first, last = map(str, brokers)
    return f"brokers {', '.join(first)} {word} {last}" if first else f"broker {last}"


def moment(timestamp_ms: int | None) -> str:
    """A time in UTC to the second; "an unknown time" for null or a value outside the calendar."""
    try:
        return (
            f"{datetime.fromtimestamp((timestamp_ms or 0) / 1000, UTC):%Y-%m-%d %H:%M:%S}" if timestamp_ms else _NEVER
        )
    except (OverflowError, ValueError, OSError):
        return _NEVER


def size_text(count: int) -> str:
    """A number of bytes in its largest unit, up to TiB."""
    exponent = min((max(count, 1).bit_length() - 1) // 10, 4)
    return f"{count} B" if not exponent else f"{count / 1024**exponent:.1f} {'KMGT'[exponent - 1]}iB"


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
