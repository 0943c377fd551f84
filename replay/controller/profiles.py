"""The rules that controllers ran, by release, and which of them the active controller may have run, at every offset of
the metadata log.

The PartitionChangeBuilders of ten releases were measured: they have four behaviours, each a profile here.
metadata.version does not identify the release; it only enables a few features, as in Kafka's MetadataVersion. Two
things do: the newest metadata.version that a controller registers as supported (RegisterControllerRecord), which
identifies the minor release; and a manifest that names the release. A registration counts until the controller is
unregistered (UnregisterControllerRecord, Kafka 4.4).
"""

import json
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from replay.arrow.ragged import Array
from replay.cluster.brokers import ControllerReleases
from replay.cluster.features import METADATA_VERSION

# When the last known leader is written: when the ISR becomes empty, or when the partition becomes leaderless.
ON_EMPTY_ISR, ON_LEADERLESS = "empty_isr", "leaderless"


@dataclass(frozen=True, slots=True)
class Profile:
    """One behaviour of PartitionChangeBuilder.

    name: remains the same when more releases have it. releases: prefixes of their versions.
    """

    name: str
    releases: tuple[str, ...]
    # Before the fix of KAFKA-19522, a last known leader was elected even if its broker was fenced.
    last_known_leader_must_be_acceptable: bool
    last_known_leader_written: str
    # A reassignment with at least as many adding as removing replicas ends once the adding ones are in sync.
    reassignment_ends_with_adding: bool
    # Before the fix, assigning a replica's directory was done as if ELR were off, which empties the ELR.
    directory_assignment_keeps_elr: bool

    @property
    def fingerprint(self) -> str:
        """Identifies the rules, independently of the profile's name and releases."""
        rules = {name: rule for name, rule in asdict(self).items() if name not in ("name", "releases")}
        return sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of some cases' profiles, one bool per case; named as in `Profile`. last_known_leader_on_leaderless:
    last_known_leader_written is ON_LEADERLESS."""

    last_known_leader_must_be_acceptable: Array
    last_known_leader_on_leaderless: Array
    reassignment_ends_with_adding: Array
    directory_assignment_keeps_elr: Array


def rules_of(profiles: Sequence[Profile], number: Array) -> Rules:
    """The rules of each case. number: of each case's profile among `profiles`."""
    rules = [
        (
            p.last_known_leader_must_be_acceptable,
            p.last_known_leader_written == ON_LEADERLESS,
            p.reassignment_ends_with_adding,
            p.directory_assignment_keeps_elr,
        )
        for p in profiles
    ]
    return Rules(*np.array(rules, dtype=bool).T[:, number])


PROFILES = {
    p.name: p
    for p in (
        Profile("4.0", ("3.9.", "4.0."), False, ON_EMPTY_ISR, False, False),
        Profile("4.1.0", ("4.1.0",), True, ON_EMPTY_ISR, False, False),
        Profile("4.1.1", ("4.1.", "4.2."), True, ON_LEADERLESS, False, False),
        Profile("4.3", ("4.3.", "4.4."), True, ON_LEADERLESS, True, True),
    )
}
# Ticket -> what its fix changed in the rules. Sources: KAFKA-19522 (apache/kafka#20200), apache/kafka#20629,
# KAFKA-19975 (apache/kafka#21114), apache/kafka#20716.
FIXES: dict[str, dict[str, Any]] = {
    "KAFKA-19522": {"last_known_leader_must_be_acceptable": True},
    "apache/kafka#20629": {"last_known_leader_written": ON_LEADERLESS},
    "KAFKA-19975": {"reassignment_ends_with_adding": True},
    "apache/kafka#20716": {"directory_assignment_keeps_elr": True},
}


# Minor releases of Confluent Platform, whose versions end with -ccs or -ce, and the Kafka that they contain. Patches do
# not correspond. Source: "Confluent Platform and Apache Kafka compatibility", a table of Confluent's documentation
# (installation/versions-interoperability).
_CONFLUENT = {"7.9": "3.9", "8.0": "4.0", "8.1": "4.1", "8.2": "4.2"}
_OF_CONFLUENT = re.compile(r"(\d+\.\d+)\.\d+(-\d+)?-(ccs|ce)")


def kafka_release(version: str) -> str:
    """Kafka's release of a version as brokers print it: `8.1.0-ccs` is 4.1. Any other version, of Kafka or not known,
    is returned as it is."""
    found = _OF_CONFLUENT.fullmatch(version)
    return _CONFLUENT.get(found[1], version) if found else version


def profiles_of(version: str) -> set[str]:
    """The names of the profiles that a version (as `kafka_release` takes it) may have: of a minor release, such as 4.1,
    those of all its patches. Empty if it was not measured."""
    release = kafka_release(version)
    of_patches = {p.name for p in PROFILES.values() if any(each.startswith(f"{release}.") for each in p.releases)}
    profile = profile_of(release)
    return of_patches | ({profile.name} if profile else set())


def profile_of(release: str) -> Profile | None:
    """The profile of a release, e.g. 4.2.1, by the longest prefix; None if the release was not measured."""
    found = [(len(prefix), p) for p in PROFILES.values() for prefix in p.releases if f"{release}.".startswith(prefix)]
    return max(found, key=lambda f: f[0])[1] if found else None


# The newest metadata.version (as a level) that a release supports -> the profiles of that minor release. Source:
# MetadataVersion of 3.9.1, 4.0.2, 4.1.1, 4.2.1, 4.3.1, 4.4.0 (33; 4.3 supports 31 with unstable features, and 31 and 32
# were the newest during the development of 4.4). Any other level excludes no profile.
_BY_NEWEST_LEVEL = {21: ("4.0",), 25: ("4.0",), 27: ("4.1.0", "4.1.1"), 29: ("4.1.1",)}
_BY_NEWEST_LEVEL |= dict.fromkeys((30, 31, 32, 33), ("4.3",))
_ALL = tuple(PROFILES)


@dataclass(frozen=True, slots=True)
class PossibleProfiles:
    """profiles[i]: names of the profiles that may have written the records from offsets[i] on."""

    offsets: tuple[int, ...]
    profiles: tuple[tuple[str, ...], ...]

    def at(self, offset: int) -> tuple[str, ...]:
        """The profiles at an offset; all of them without evidence."""
        index = bisect_right(self.offsets, offset)
        return self.profiles[index - 1] if index else _ALL

    def may_be(self, name: str, offsets: Array) -> Array:
        """True for each offset (int64) that the profile may have written."""
        possible = np.array([True, *(name in names for names in self.profiles)])
        return possible[np.searchsorted(np.array(self.offsets, dtype=np.int64), offsets, side="right")]

    def newest(self, offsets: Array) -> Array:
        """The number in PROFILES of the newest profile that may have written each offset (int64)."""
        newest = np.array([_ALL.index(names[-1]) for names in (_ALL, *self.profiles)])
        return newest[np.searchsorted(np.array(self.offsets, dtype=np.int64), offsets, side="right")]

    @property
    def names(self) -> tuple[str, ...]:
        """Every profile that may have written a record, oldest first."""
        found = {name for names in self.profiles for name in names} or set(_ALL)
        return tuple(name for name in _ALL if name in found)


def possible_profiles(releases: ControllerReleases) -> PossibleProfiles:
    """The profiles that the evidence leaves possible.

    Releases named by manifests select among the profiles that the log allows; they are ignored if none of them matches.
    """
    controllers = releases.controllers
    named = {name for release in releases.named for name in profiles_of(release)}
    by_node: dict[int, list[tuple[int, tuple[str, ...] | None]]] = {}
    for offset, data in releases.registrations:
        by_node.setdefault(data["controllerId"], []).append((offset, _profiles_of(data)))
    offsets, profiles = [0], [_chosen(_ALL, named)]
    for number, (begin, node) in enumerate(controllers, start=1):
        end = controllers[number][0] if number < len(controllers) else None
        offsets.append(begin)
        profiles.append(_chosen(_registered(by_node.get(-1 if node is None else node, []), begin, end), named))
    # If the first known controller begins at 0, drop the entry before it: it is empty.
    first = 1 if offsets[1:2] == [0] else 0
    return PossibleProfiles(tuple(offsets[first:]), tuple(profiles[first:]))


def _registered(
    registrations: Sequence[tuple[int, tuple[str, ...] | None]], begin: int, end: int | None
) -> tuple[str, ...]:
    """The profiles of a controller's term, from its last registration before the term's end; all of them without one.

    A controller registers early in its term, if at all. A registration that was revoked before the term does not count:
    the node may have come back with other software.
    """
    found = _ALL
    for offset, names in registrations:
        if names is not None and (end is None or offset < end):
            found = names
        elif names is None and offset < begin:
            found = _ALL
    return found


def _profiles_of(data: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The profiles that a registration allows; None for an unregistration."""
    if "features" not in data:
        return None
    newest = {f["name"]: f["maxSupportedVersion"] for f in data["features"]}
    return _BY_NEWEST_LEVEL.get(newest.get(METADATA_VERSION, 0), _ALL)


def _chosen(names: tuple[str, ...], named: set[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in named) or names
