"""Which layer an effective config comes from, and from when on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from replay.cluster.configs import BROKER, MIN_ISR, TOPIC, UNCLEAN_LEADER_ELECTION, ConfigChange, config_timeline

Static = Mapping[int, Mapping[str, str]]


def at(
    offset: int,
    *changes: ConfigChange,
    controllers: tuple[tuple[int, int], ...] = (),
    static: Static | None = None,
    removed: tuple[tuple[int, str], ...] = (),
    key: str = MIN_ISR,
    topic: str = "t",
) -> tuple[str, str]:
    timeline = config_timeline(key, changes, controllers, static or {}, removed)
    found = timeline.resolve([topic], np.array([0]), np.array([offset]))
    return found.pairs[found.index[0]]


def topic(offset: int, value: str | None, name: str = "t", key: str = MIN_ISR) -> ConfigChange:
    return ConfigChange(offset, TOPIC, name, key, value)


def broker(offset: int, value: str | None, resource: str = "", key: str = MIN_ISR) -> ConfigChange:
    return ConfigChange(offset, BROKER, resource, key, value)


def test_without_anything_the_default_is_an_assumption() -> None:
    assert at(5) == ("1", "assumed_default")
    assert at(5, key=UNCLEAN_LEADER_ELECTION) == ("false", "assumed_default")


def test_a_captured_static_file_makes_it_known() -> None:
    assert at(5, controllers=((0, 3000),), static={3000: {MIN_ISR: "3"}}) == ("3", "static")
    assert at(5, controllers=((0, 3000),), static={3000: {"process.roles": "controller"}}) == ("1", "default")
    assert at(5, controllers=((0, 3000),), static={3000: {"other": "x"}}) == ("1", "assumed_default")
    assert at(5, controllers=((0, 3000),), static={3001: {MIN_ISR: "3"}}) == ("1", "assumed_default")


def test_layers_shadow_each_other() -> None:
    layers = [broker(1, "2"), broker(2, "3", "3000"), topic(3, "4")]
    around = {"controllers": ((0, 3000),), "static": {3000: {MIN_ISR: "9"}}}
    assert [at(o, *layers, **around) for o in range(4)] == [
        ("9", "static"),
        ("2", "cluster"),
        ("3", "broker"),
        ("4", "topic"),
    ]


def test_deletions_uncover_the_layer_below() -> None:
    layers = [
        broker(1, "2"),
        broker(1, "3", "3000"),
        topic(1, "4"),
        topic(5, None),
        broker(6, None, "3000"),
        broker(7, None),
    ]
    found = [at(o, *layers, controllers=((0, 3000),)) for o in (4, 5, 6, 7)]
    assert found == [("4", "topic"), ("3", "broker"), ("2", "cluster"), ("1", "assumed_default")]


def test_the_broker_layer_is_the_active_controllers() -> None:
    layers = [broker(1, "2", "3000"), broker(1, "3", "3001")]
    found = [at(o, *layers, controllers=((4, 3000), (8, 3001))) for o in (2, 4, 7, 8)]
    assert found == [("1", "assumed_default"), ("2", "broker"), ("2", "broker"), ("3", "broker")]


def test_the_static_file_is_the_active_controllers() -> None:
    static = {3000: {MIN_ISR: "2"}, 3001: {MIN_ISR: "3"}}
    assert [at(o, controllers=((4, 3000), (8, 3001)), static=static) for o in (5, 9)] == [
        ("2", "static"),
        ("3", "static"),
    ]


def test_removing_a_topic_deletes_its_configs() -> None:
    layers = [topic(1, "4"), topic(20, "5")]
    assert [at(o, *layers, removed=((10, "t"),)) for o in (9, 10, 20)] == [
        ("4", "topic"),
        ("1", "assumed_default"),
        ("5", "topic"),
    ]


def test_a_topic_created_anew_at_the_offset_of_the_removal_keeps_its_own_setting() -> None:
    assert at(10, topic(1, "4"), topic(10, "5"), removed=((10, "t"),)) == ("5", "topic")


def test_other_topics_and_other_keys_do_not_matter() -> None:
    assert at(5, topic(1, "4", name="other"), topic(1, "true", key=UNCLEAN_LEADER_ELECTION)) == ("1", "assumed_default")
    assert at(5, topic(1, "true", key=UNCLEAN_LEADER_ELECTION), key=UNCLEAN_LEADER_ELECTION) == ("true", "topic")


def test_many_rows_at_once() -> None:
    timeline = config_timeline(MIN_ISR, [topic(5, "2"), topic(9, "3", name="u"), broker(7, "4")], [], {})
    found = timeline.resolve(["t", "u", "v"], np.array([0, 0, 1, 1, 2]), np.array([4, 5, 8, 9, 7]))
    assert found.ints().tolist() == [1, 2, 4, 3, 4]
    assert found.sources().to_pylist() == ["assumed_default", "topic", "cluster", "topic", "cluster"]


def test_where_a_topics_config_may_have_changed() -> None:
    timeline = config_timeline(MIN_ISR, [topic(5, "2"), broker(7, "4"), broker(8, "4"), broker(9, "4", "3000")], [], {})
    topics, offsets = timeline.changes(["t", "u"])
    assert sorted(zip(topics.tolist(), offsets.tolist(), strict=True)) == [(0, 5), (0, 7), (1, 7)]


@pytest.mark.parametrize(("offset", "expected"), [(-1, "1"), (0, "1"), (3, "2"), (99, "2")])
def test_steps_hold_until_the_next(offset: int, expected: str) -> None:
    assert at(offset, broker(3, "2"))[0] == expected
