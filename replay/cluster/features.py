"""Finalized feature levels over metadata offsets, and the names of metadata.version's levels (metadata_versions.txt).

Sources: FeatureLevelRecord; Kafka's MetadataVersion (the names of the levels).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from replay.arrow.ragged import Array

ELR_VERSION = "eligible.leader.replicas.version"
METADATA_VERSION = "metadata.version"
# How far a migration from ZooKeeper is (KIP-866), levels as Kafka's ZkMigrationState: MIGRATION and PRE_MIGRATION.
ZK_MIGRATION_STATE, USES_ZOOKEEPER = "ZK_MIGRATION_STATE_RECORD", (1, 2)


@dataclass(frozen=True, slots=True)
class MetadataVersion:
    """A metadata.version as Kafka writes it, e.g. 3.5-IV2, and the behaviour that it enables."""

    level: tuple[int, int, int]

    @classmethod
    def parse(cls, text: str) -> "MetadataVersion":
        """Parse its text form. Errors: ValueError if it is not a metadata.version."""
        match = re.fullmatch(r"(\d+)\.(\d+)-IV(\d+)[A-Z]?", text)
        if match is None:
            raise ValueError(f"{text!r} is not a metadata.version (expected e.g. 4.0-IV1)")
        major, minor, step = map(int, match.groups())
        return cls((major, minor, step))

    @property
    def marks_recovery(self) -> bool:
        """Whether LeaderRecoveryState exists (KIP-704)."""
        return self.level >= (3, 2, 0)

    @property
    def bumps_leader_epoch_on_shrink(self) -> bool:
        """Whether every ISR shrink starts a leader epoch (KAFKA-15021)."""
        return self.level < (3, 6, 0)

    @property
    def has_directories(self) -> bool:
        """Whether replicas are assigned to log directories (KIP-858)."""
        return self.level >= (3, 7, 2)

    @property
    def change_record_version(self) -> int:
        """The version of PartitionChangeRecord that controllers write."""
        return 2 if self.level >= (4, 0, 1) else 1 if self.has_directories else 0


# The level of the first name in metadata_versions.txt; each further name is one level up.
_FIRST_LEVEL = 1
_NAMES = files("replay.cluster").joinpath("metadata_versions.txt").read_text("utf-8").split()
_VERSIONS = tuple(MetadataVersion.parse(name) for name in _NAMES)


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """levels: feature -> (offsets ascending, the level finalized by the record at each)."""

    levels: dict[str, tuple[list[int], list[int]]]

    def at_each(self, name: str, offsets: Array) -> Array:
        """The level after the record at each offset; 0 where none was finalized by then. int64."""
        known, levels = self.levels.get(name, ([], []))
        index = np.searchsorted(np.array(known, dtype=np.int64), offsets, side="right")
        return np.array([0, *levels], dtype=np.int64)[index]


def feature_levels(changes: Iterable[tuple[int, str, int]]) -> FeatureLevels:
    """Build the levels from (offset, feature, level), in offset order."""
    levels: dict[str, tuple[list[int], list[int]]] = {}
    for offset, name, level in changes:
        offsets, values = levels.setdefault(name, ([], []))
        offsets.append(offset)
        values.append(level)
    return FeatureLevels(levels)


def switches(levels: Array, name: str) -> Array:
    """A bool property of MetadataVersion, by name, at each level (int64)."""
    by_level = np.array([getattr(version, name) for version in _VERSIONS], dtype=bool)
    return by_level[np.clip(levels - _FIRST_LEVEL, 0, len(by_level) - 1)]
