"""Which release's rules may have written the log, and its features' levels."""

from typing import Any

import numpy as np
import pytest

from replay.cluster import features as levels_of
from replay.cluster.brokers import ControllerReleases
from replay.cluster.features import feature_levels, switches
from replay.controller.profiles import PROFILES, PossibleProfiles, kafka_release, possible_profiles
from tests.support.window_table import Entry, beside, entries


def registered(item: str) -> tuple[int, dict[str, Any]]:
    offset, node, newest = item.replace("=", " ").split()
    features = [{"name": "kraft.version", "minSupportedVersion": 0, "maxSupportedVersion": 1}]
    if newest != "gone":
        features += [{"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": int(newest)}]
    return int(offset), {"controllerId": int(node)} | ({"features": features} if newest != "gone" else {})


def possible(items: list[str]) -> PossibleProfiles:
    leads = (item.split()[1:] for item in items if item.startswith("leads"))
    controllers = tuple((int(offset), None if node == "?" else int(node)) for offset, node in leads)
    named = tuple(item.split()[1] for item in items if item.startswith("named"))
    registrations = tuple(sorted((registered(i) for i in items if i[0].isdigit()), key=lambda pair: pair[0]))
    return possible_profiles(ControllerReleases(controllers, registrations, named))


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_possible_profiles(entry: Entry) -> None:
    for story, answer in entry.cases:
        items = story.split("; ")
        found, every = possible(items), list(PROFILES)
        offsets = [int(offset) for item in items if item.startswith("at ") for offset in item[3:].split(",")]
        at = [list(found.at(offset)) for offset in offsets]
        assert ", ".join("all" if names == every else " ".join(names) for names in at) == answer, story
        for profile in every:
            assert found.may_be(profile, np.array(offsets)).tolist() == [profile in names for names in at]
        for _, version, _, release in (item.split() for item in items if " is " in item):
            assert kafka_release(version) == release


def test_levels_hold_from_their_record_on() -> None:
    levels = feature_levels([(5, "a", 1), (5, "b", 7), (9, "a", 0)])
    assert levels.at_each("a", np.array([4, 5, 8, 9, 100])).tolist() == [0, 1, 1, 0, 0]
    assert levels.at_each("c", np.array([4, 5])).tolist() == [0, 0]


NAMES = {
    1: "3.0-IV1",
    3: "3.2-IV0",
    7: "3.3-IV3",
    12: "3.6-IV0",
    23: "4.0-IV1",
    30: "4.3-IV0",
    31: "4.4-IV0",
    33: "4.4-IV2",
}


@pytest.mark.parametrize(("level", "name"), NAMES.items())
def test_levels_have_kafkas_names(level: int, name: str) -> None:
    assert levels_of._NAMES[level - 1] == name


def test_switches_by_level() -> None:
    levels = np.array([2, 3, 11, 12, 16, 17, 33, 500])
    assert switches(levels, "marks_recovery").tolist() == [False] + [True] * 7
    assert switches(levels, "bumps_leader_epoch_on_shrink").tolist() == [True] * 3 + [False] * 5
    assert switches(levels, "has_directories").tolist() == [False] * 5 + [True] * 3
