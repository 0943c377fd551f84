"""Pieces of advice as data, and the commands of Kafka's tools in them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from replay.findings.statements import prose

Row = dict[str, Any]
T = TypeVar("T")

NOW, BEFORE_RESTART, PREVENTION = "now", "before_restart", "prevention"
MOST_PLACES = 20
EXPOSURE = "docs/findings.md#exposure"
WINDOWS = "docs/findings.md#hwm_regression-did-the-high-watermark-go-back"
MIN_ISR, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
SERVER = '--bootstrap-server "$BOOTSTRAP"'

_LISTS = ("facts", "assumptions", "predictions", "commands", "not_to_run", "brokers")
_LEGAL_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


def piece(code: str, when: str, advice: str, rule: str, see: str, rows: Sequence[Row] = (), **more: Any) -> Row:
    """A piece of advice about these findings, as `advice.advise` describes it."""
    places = sorted({place(row) for row in rows if row["partition"] is not None})
    return {
        "code": code,
        "when": when,
        "advice": advice,
        "rule": rule,
        "see": see,
        **{name: list(more.get(name, ())) for name in _LISTS},
        "partitions": places[:MOST_PLACES],
        "partition_count": len(places),
        "finding_ids": [row["finding_id"] for row in rows[:MOST_PLACES]],
    }


def broker_state(brokers: Mapping[int, Row], broker: int) -> str | None:
    """How a broker stood when the log ended; None if nothing is known of it. brokers: broker -> BROKER_HISTORY row."""
    row = brokers.get(broker)
    if row is None:
        return None
    if row["incarnation_id"] is None:
        return f"Broker {broker} was not registered when the log ended."
    if not row["fenced"]:
        return f"Broker {broker} was active when the log ended."
    how = "after a controlled shutdown" if row["in_controlled_shutdown"] else "without a controlled shutdown"
    return f"Broker {broker} was fenced when the log ended, {how} (metadata offset {row['offset']})."


def groups(rows: Iterable[T], key: Callable[[T], Any]) -> dict[Any, list[T]]:
    """The rows by key, in order."""
    found: dict[Any, list[T]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def sentences_of(rows: Sequence[Row], codes: Sequence[str]) -> tuple[str, ...]:
    """The distinct sentences of these codes, at most MOST_PLACES."""
    found = [prose([s]) for row in rows for s in row["reason"] or () if s["code"] in codes]
    return tuple(dict.fromkeys(found))[:MOST_PLACES]


def unclean_commands(rows: Sequence[Row]) -> tuple[str, ...]:
    """The commands that elect a leader uncleanly."""
    places = sorted({(r["topic"], r["partition"]) for r in rows if is_legal(r["topic"])})
    return tuple(
        f"kafka-leader-election.sh {SERVER} --election-type UNCLEAN --topic {shlex.quote(t)} --partition {p}"
        for t, p in places[:MOST_PLACES]
    )


def config_command(topic: str, value: str) -> str:
    """The command that sets a topic's config. value: name=value."""
    entity = f"--entity-type topics --entity-name {shlex.quote(topic)}"
    return f"kafka-configs.sh {SERVER} --alter {entity} --add-config {value}"


def legal_topics(rows: Sequence[Row]) -> list[str]:
    """The topics of these rows that a command may name, at most MOST_PLACES."""
    return sorted({row["topic"] for row in rows if is_legal(row["topic"])})[:MOST_PLACES]


def is_legal(topic: str | None) -> bool:
    """Whether Kafka accepts the name: no other one gets into a command."""
    return topic is not None and _LEGAL_TOPIC.fullmatch(topic) is not None


def visible(topic: str) -> str:
    """The name, escaped if Kafka does not accept it."""
    return topic if is_legal(topic) else ascii(topic)[1:-1]


def place(row: Row) -> str:
    """Topic and partition of a row."""
    name = f"topic id {row['topic_id']}" if row["topic"] is None else visible(row["topic"])
    return f"{name}-{row['partition']}"


def listed(brokers: Sequence[int]) -> str:
    return " or ".join(map(str, brokers))


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
