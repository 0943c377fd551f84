"""Topics whose records may be missing below their log ends, or are elsewhere."""

import pytest

from replay.cluster.configs import BROKER, TOPIC, ConfigChange
from replay.cluster.facts import compacted_topics, refused_topics, tiered_topics


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
    assert compacted_topics(changes, {1: {"process.roles": "broker", **file}}, [1]) == expected


@pytest.mark.parametrize("files", [{}, {1: {"process.roles": "controller"}}, {1: {"num.io.threads": "8"}}])
def test_without_a_brokers_file_any_topic_may_be_compacted_by_default(files: dict[int, dict[str, str]]) -> None:
    known = {**files, 2: {"log.cleanup.policy": "delete"}}
    assert compacted_topics([config("cleanup.policy", "delete")], known, [1, 2]) is None
    assert compacted_topics([], known, [2]) == frozenset()


def test_which_topics_were_ever_tiered() -> None:
    values = {"a": "true", "b": " True ", "c": "false", "d": None}  # as Kafka's ConfigDef reads a BOOLEAN
    changes = [config("remote.storage.enable", value, topic) for topic, value in values.items()]
    changes += [config("confluent.tier.enable", "true", "f"), config("cleanup.policy", "true", "e")]
    assert tiered_topics(changes) == {"a", "b", "f"}
    assert tiered_topics(changes, {1: {"confluent.tier.enable": "false true"}}) is None
    assert tiered_topics([ConfigChange(0, BROKER, "", "confluent.tier.enable", "true")]) is None


@pytest.mark.parametrize(
    ("name", "value", "is_refused"),
    [
        ("segment.bytes", "1048575", True),
        ("segment.bytes", "1048576", False),
        ("segment.bytes", None, False),
        ("cleanup.policy", "compact, compact", True),
        ("cleanup.policy", "compact,", True),
        ("cleanup.policy", "compact,delete", False),
        ("cleanup.policy", "", False),
        ("remote.storage.enable", "true", True),
        ("retention.ms", "1", False),
    ],
)
def test_a_topics_configs_that_not_every_broker_takes(name: str, value: str | None, is_refused: bool) -> None:
    assert refused_topics([config(name, value), config(name, None)]) == ({"t"} if is_refused else set())
