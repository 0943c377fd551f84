"""Which release's rules may have written the log, and its features' levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from replay.cluster import features as levels_of
from replay.cluster.brokers import ControllerReleases
from replay.cluster.features import feature_levels, switches
from replay.controller.profiles import PROFILES, PossibleProfiles, kafka_release, possible_profiles


def profiles_of(
    controllers: Sequence[tuple[int, int | None]],
    registrations: Sequence[tuple[int, dict[str, Any]]],
    named: Sequence[str] = (),
) -> PossibleProfiles:
    return possible_profiles(ControllerReleases(tuple(controllers), tuple(registrations), tuple(named)))


def registered(node: int, newest: int) -> dict[str, Any]:
    features = [{"name": "kraft.version", "minSupportedVersion": 0, "maxSupportedVersion": 1}]
    features += [{"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": newest}]
    return {"controllerId": node, "features": features}


@pytest.mark.parametrize(
    ("newest", "profiles"),
    [
        (21, ("4.0",)),
        (25, ("4.0",)),
        (27, ("4.1.0", "4.1.1")),
        (29, ("4.1.1",)),
        (30, ("4.3",)),
        *((level, ("4.3",)) for level in (31, 32, 33)),
        (34, tuple(PROFILES)),
        (99, tuple(PROFILES)),
    ],
)
def test_the_newest_metadata_version_tells_the_minor_release(newest: int, profiles: tuple[str, ...]) -> None:
    assert profiles_of([(0, 3000)], [(5, registered(3000, newest))]).at(7) == profiles


def test_the_active_controllers_software_counts_and_changes_with_it() -> None:
    """3000 begins with 4.0, hands over to 3001 of 4.3, and comes back upgraded."""
    registrations = [(3, registered(3000, 25)), (4, registered(3001, 30)), (20, registered(3000, 30))]
    found = profiles_of([(0, 3000), (10, 3001), (30, 3000)], registrations)
    assert [found.at(offset) for offset in (0, 9, 10, 29, 30, 99)] == [("4.0",), ("4.0",), *[("4.3",)] * 4]
    assert found.names == ("4.0", "4.3")
    assert found.may_be("4.0", np.array([0, 9, 10, 30])).tolist() == [True, True, False, False]
    assert found.may_be("4.1.0", np.array([0, 30])).tolist() == [False, False]


def test_a_controller_that_nothing_names_may_be_any() -> None:
    registrations = [(3, registered(3000, 25))]
    assert profiles_of([(0, None)], registrations).at(5) == tuple(PROFILES)
    assert profiles_of([(0, 3001)], registrations).at(5) == tuple(PROFILES)
    assert profiles_of([], []).at(5) == tuple(PROFILES)
    # Offsets before the first known controller.
    assert profiles_of([(10, 3000)], registrations).at(9) == tuple(PROFILES)
    assert profiles_of([(10, 3000)], registrations).may_be("4.3", np.array([9, 10])).tolist() == [True, False]


def unregistered(node: int) -> dict[str, Any]:
    return {"controllerId": node}


def test_a_controller_that_was_unregistered_tells_nothing_until_it_registers_again() -> None:
    """3000 leads with 4.4, is unregistered while 3001 leads, and comes back: at first with nothing known of it."""
    gone = [(3, registered(3000, 33)), (4, registered(3001, 33)), (15, unregistered(3000))]
    terms = [(0, 3000), (10, 3001), (30, 3000)]
    assert [profiles_of(terms, gone).at(offset) for offset in (0, 9, 10, 30)] == [("4.3",)] * 3 + [tuple(PROFILES)]
    # The registration of that term counts, as of a controller that was never seen before.
    back = [*gone, (31, registered(3000, 25))]
    assert [profiles_of(terms, back).at(offset) for offset in (9, 10, 30)] == [("4.3",), ("4.3",), ("4.0",)]


def test_an_unregistration_takes_nothing_from_the_term_that_it_falls_into() -> None:
    """No controller of Kafka unregisters itself while it is active; where it did, its software was the same."""
    records = [(3, registered(3000, 33)), (5, unregistered(3000))]
    assert profiles_of([(0, 3000)], records).at(9) == ("4.3",)
    assert profiles_of([(0, 3000)], records[1:]).at(9) == tuple(PROFILES)
    assert profiles_of([(0, 3000), (7, 3000)], records).at(9) == tuple(PROFILES)


def test_a_manifest_chooses_among_what_the_log_leaves_open() -> None:
    registrations = [(3, registered(3000, 27))]
    assert profiles_of([(0, 3000)], registrations, ["4.1.0"]).at(5) == ("4.1.0",)
    assert profiles_of([(0, 3000)], registrations, ["4.1.1"]).at(5) == ("4.1.1",)
    # The bytes go before what somebody wrote of them.
    assert profiles_of([(0, 3000)], registrations, ["4.3.1"]).at(5) == ("4.1.0", "4.1.1")
    assert profiles_of([(0, 3000)], [], ["4.3.1"]).at(5) == ("4.3",)
    assert profiles_of([(0, 3000)], [], ["2.8.0"]).at(5) == tuple(PROFILES)
    assert profiles_of([], [], ["4.0.2"]).at(5) == ("4.0",)


@pytest.mark.parametrize(
    ("version", "release", "profiles"),
    [
        ("7.9.0-ce", "3.9", ("4.0",)),
        ("7.9.2-ccs", "3.9", ("4.0",)),
        ("8.0.3-ccs", "4.0", ("4.0",)),
        ("8.1.0-ccs", "4.1", ("4.1.0", "4.1.1")),  # its patches are not Kafka's: 4.1.0 or 4.1.1
        ("8.1.1-12-ce", "4.1", ("4.1.0", "4.1.1")),
        ("8.2.1-ce", "4.2", ("4.1.1",)),
        ("4.1", "4.1", ("4.1.0", "4.1.1")),
        ("4.1.0", "4.1.0", ("4.1.0",)),
        # Not known, so nothing follows.
        ("7.8.0-ccs", "7.8.0-ccs", tuple(PROFILES)),
        ("9.0.0-ce", "9.0.0-ce", tuple(PROFILES)),
        ("8.1.0", "8.1.0", tuple(PROFILES)),
        ("8.1.0-ccs-x", "8.1.0-ccs-x", tuple(PROFILES)),
    ],
)
def test_confluents_versions_name_kafkas_releases(version: str, release: str, profiles: tuple[str, ...]) -> None:
    assert kafka_release(version) == release
    assert profiles_of([(0, 3000)], [], [version]).at(5) == profiles
    # The log goes before it.
    assert profiles_of([(0, 3000)], [(3, registered(3000, 33))], [version]).at(5) == ("4.3",)


def test_levels_hold_from_their_record_on() -> None:
    levels = feature_levels([(5, "a", 1), (5, "b", 7), (9, "a", 0)])
    assert [levels.at("a", offset) for offset in (4, 5, 8, 9, 100)] == [0, 1, 1, 0, 0]
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
