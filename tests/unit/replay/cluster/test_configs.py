"""Which layer an effective config comes from, and from when on."""

import numpy as np
import pytest

from replay.cluster.configs import BROKER, MIN_ISR, TOPIC, UNCLEAN_LEADER_ELECTION, ConfigChange, config_timeline
from tests.support.window_table import beside, lines_of


def topic(offset: int, value: str | None, name: str = "t", key: str = MIN_ISR) -> ConfigChange:
    return ConfigChange(offset, TOPIC, name, key, value)


def broker(offset: int, value: str | None, resource: str = "") -> ConfigChange:
    return ConfigChange(offset, BROKER, resource, MIN_ISR, value)


def change(item: str) -> ConfigChange:
    offset, resource, value = item.replace("=", " ").split()
    given = int(offset), None if value == "-" else value
    if resource == "cluster" or resource.isdigit():
        return broker(*given, resource.removeprefix("cluster"))
    return topic(*given, resource)


FILES = {"-": {"process.roles": "controller"}, "?": {"other": "x"}}


@pytest.mark.parametrize(("story", "answer"), lines_of(beside(__file__)))
def test_what_is_in_force(story: list[str], answer: str) -> None:
    words = [item.split() for item in story if not item[0].isdigit()]
    controllers = [(int(offset), int(node)) for word, offset, node in (w for w in words if w[0] == "leads")]
    static = {int(w[1]): FILES.get(w[2], {MIN_ISR: w[2]}) for w in words if w[0] == "file"}
    removed = [(int(w[1]), w[2]) for w in words if w[0] == "removed"]
    key = UNCLEAN_LEADER_ELECTION if ["unclean"] in words else MIN_ISR
    timeline = config_timeline(key, [change(i) for i in story if i[0].isdigit()], controllers, static, removed)
    offsets = np.array([int(offset) for w in words if w[0] == "at" for offset in w[1].split(",")])
    found = timeline.resolve(["t"], np.zeros(len(offsets), dtype=np.int64), offsets)
    assert ", ".join(" ".join(found.pairs[i]) for i in found.index) == answer


def test_a_config_is_that_of_its_key() -> None:
    changes = [topic(1, "true", key=UNCLEAN_LEADER_ELECTION)]
    for key, expected in ((MIN_ISR, ("1", "assumed_default")), (UNCLEAN_LEADER_ELECTION, ("true", "topic"))):
        found = config_timeline(key, changes, [], {}).resolve(["t"], np.array([0]), np.array([5]))
        assert found.pairs[found.index[0]] == expected


def test_many_rows_at_once() -> None:
    timeline = config_timeline(MIN_ISR, [topic(5, "2"), topic(9, "3", name="u"), broker(7, "4")], [], {})
    found = timeline.resolve(["t", "u", "v"], np.array([0, 0, 1, 1, 2]), np.array([4, 5, 8, 9, 7]))
    assert found.ints().tolist() == [1, 2, 4, 3, 4]
    assert found.sources().to_pylist() == ["assumed_default", "topic", "cluster", "topic", "cluster"]


def test_where_a_topics_config_may_have_changed() -> None:
    timeline = config_timeline(MIN_ISR, [topic(5, "2"), broker(7, "4"), broker(8, "4"), broker(9, "4", "3000")], [], {})
    topics, offsets = timeline.changes(["t", "u"])
    assert sorted(zip(topics.tolist(), offsets.tolist(), strict=True)) == [(0, 5), (0, 7), (1, 7)]
