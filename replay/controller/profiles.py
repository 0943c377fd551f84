"""The rules that controllers ran, by release.

The PartitionChangeBuilders of ten releases were measured: they have four behaviours, each a profile here.
metadata.version does not identify the release; it only enables a few features, as in Kafka's MetadataVersion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256

import numpy as np

from replay.arrow.ragged import Array

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
