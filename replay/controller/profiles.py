"""Which rules a controller ran: by the software's release, and by the metadata.version that it was set to.

Measured: eleven releases' own PartitionChangeBuilder has four behaviours (each a profile). metadata.version does not
identify the release; it switches a few features, as Kafka's MetadataVersion does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256

import numpy as np

from replay.arrow.ragged import Array

# When the last known leader is written: when the ISR becomes empty, or when the partition becomes leaderless.
ON_EMPTY_ISR, ON_LEADERLESS = "empty_isr", "leaderless"


@dataclass(frozen=True, slots=True)
class Profile:
    """One behaviour of PartitionChangeBuilder. name: stays when further releases have it; releases: their
    prefixes."""

    name: str
    releases: tuple[str, ...]
    # KAFKA-19522: before it was mended, a last known leader was elected although its broker was fenced.
    last_known_leader_must_be_acceptable: bool
    last_known_leader_written: str
    # A reassignment with at least as many adding as removing replicas ends once the adding ones are in sync.
    reassignment_ends_with_adding: bool
    # Before it was mended, assigning a replica's directory was done as if ELR were off, which empties the ELR.
    directory_assignment_keeps_elr: bool

    @property
    def fingerprint(self) -> str:
        """Identifies the rules, whatever they are called and whichever releases have them."""
        rules = {name: rule for name, rule in asdict(self).items() if name not in ("name", "releases")}
        return sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:16]


PROFILES = {
    p.name: p
    for p in (
        Profile("4.0", ("3.9.", "4.0."), False, ON_EMPTY_ISR, False, False),
        Profile("4.1.0", ("4.1.0",), True, ON_EMPTY_ISR, False, False),
        Profile("4.1.1", ("4.1.", "4.2."), True, ON_LEADERLESS, False, False),
        Profile("4.3", ("4.3.", "4.4."), True, ON_LEADERLESS, True, True),
    )
}


def profile_of(release: str) -> Profile | None:
    """The profile of a release, e.g. 4.2.1; None for one that was not measured. The longest prefix counts."""
    found = [(len(prefix), p) for p in PROFILES.values() for prefix in p.releases if f"{release}.".startswith(prefix)]
    return max(found, key=lambda f: f[0])[1] if found else None


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """A metadata.version as Kafka writes it, e.g. 3.5-IV2, and what it switches."""

    level: tuple[int, int, int]

    @classmethod
    def parse(cls, text: str) -> MetadataVersion:
        """Errors: ValueError for what is no metadata.version."""
        match = re.fullmatch(r"(\d+)\.(\d+)-IV(\d+)[A-Z]?", text)
        if match is None:
            raise ValueError(f"{text!r} is no metadata.version (expected e.g. 4.0-IV1)")
        major, minor, step = map(int, match.groups())
        return cls((major, minor, step))

    @property
    def marks_recovery(self) -> bool:
        """LeaderRecoveryState exists (KIP-704)."""
        return self.level >= (3, 2, 0)

    @property
    def bumps_leader_epoch_on_shrink(self) -> bool:
        """Every ISR shrink begins a leader epoch (KAFKA-15021)."""
        return self.level < (3, 6, 0)

    @property
    def has_directories(self) -> bool:
        """Replicas are assigned to log directories (KIP-858)."""
        return self.level >= (3, 7, 2)

    @property
    def change_record_version(self) -> int:
        """The version of the PartitionChangeRecord that is written."""
        return 2 if self.level >= (4, 0, 1) else 1 if self.has_directories else 0


def flags(versions: Iterable[MetadataVersion], name: str) -> Array:
    """One of the switches, as bool, for many versions."""
    return np.array([getattr(v, name) for v in versions], dtype=bool)
