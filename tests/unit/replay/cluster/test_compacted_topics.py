"""Topics whose records may be missing below their log ends, or are elsewhere."""

from __future__ import annotations

import pytest

from replay.cluster.configs import TOPIC, ConfigChange
from replay.cluster.facts import compacted_topics, tiered_topics


def config(name: str, value: str | None, resource: str = "t") -> ConfigChange:
    return ConfigChange(0, TOPIC, resource, name, value)


@pytest.mark.parametrize(
    ("changes", "file", "expected"),
    [
        ([], {}, frozenset()),
        ([config("cleanup.policy", "delete")], {"log.cleanup.policy": "delete"}, frozenset()),
        # What was compacted once stays so.
        ([config("cleanup.policy", "compact"), config("cleanup.policy", None)], {}, frozenset({"t"})),
        ([config("cleanup.policy", "compact,delete", "u")], {}, frozenset({"u"})),
        ([config("log.cleanup.policy", "compact", "")], {}, None),
        ([config("log.cleanup.policy", "compact", "1")], {}, None),
        ([], {"log.cleanup.policy": "delete,compact"}, None),
    ],
)
def test_what_was_ever_compacted(
    changes: list[ConfigChange], file: dict[str, str], expected: frozenset[str] | None
) -> None:
    assert compacted_topics(changes, {1: {"process.roles": "broker", **file}}) == expected


@pytest.mark.parametrize("files", [{}, {1: {"process.roles": "controller"}}, {1: {"num.io.threads": "8"}}])
def test_without_a_brokers_file_any_topic_may_be_compacted_by_default(files: dict[int, dict[str, str]]) -> None:
    assert compacted_topics([config("cleanup.policy", "delete")], files) is None
    assert compacted_topics([], {**files, 2: {"log.cleanup.policy": "delete"}}) == frozenset()


def test_which_topics_were_ever_tiered() -> None:
    values = {"a": "true", "b": " True ", "c": "false", "d": None}  # as Kafka's ConfigDef reads a BOOLEAN
    changes = [config("remote.storage.enable", value, topic) for topic, value in values.items()]
    assert tiered_topics([*changes, config("cleanup.policy", "true", "e")]) == {"a", "b"}
