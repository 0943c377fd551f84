"""Which profiles the active controller may have run, at every offset of the metadata log.

metadata.version does not identify the release. Two things do: the newest metadata.version that a controller registers
as supported (RegisterControllerRecord), which identifies the minor release; and a manifest that names the release. A
registration counts until the controller is unregistered (UnregisterControllerRecord, Kafka 4.4).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replay.arrow.ragged import Array
from replay.cluster.brokers import ControllerReleases
from replay.cluster.features import METADATA_VERSION
from replay.controller.profiles import PROFILES, profiles_of

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
        found: Array = possible[np.searchsorted(np.array(self.offsets, dtype=np.int64), offsets, side="right")]
        return found

    def newest(self, offsets: Array) -> Array:
        """The number in PROFILES of the newest profile that may have written each offset (int64)."""
        newest = np.array([_ALL.index(names[-1]) for names in (_ALL, *self.profiles)])
        found: Array = newest[np.searchsorted(np.array(self.offsets, dtype=np.int64), offsets, side="right")]
        return found

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
