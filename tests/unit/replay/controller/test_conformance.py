"""The rules against Kafka's own PartitionChangeBuilder, release by release, and where the releases differ."""

import copy
import gzip
import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.arrow.ragged import PAD, to_matrix
from replay.cluster.features import MetadataVersion
from replay.controller.conformance import CaseError, differences
from replay.controller.partition_change_builder import _as_hash_set
from replay.controller.profiles import PROFILES, profile_of
from tests.support.paths import ORACLE

Row = dict[str, Any]
RELEASES = {"4.0.2": "4.0", "4.1.0": "4.1.0", "4.2.1": "4.1.1", "4.3.1": "4.3", "4.4.0": "4.3"}


@cache
def cases(release: str) -> list[Row]:
    with gzip.open(ORACLE / f"policy-{release}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("release", RELEASES)
def test_every_case_of_kafkas_own_class_is_predicted(release: str) -> None:
    found = differences(cases(release))
    assert len(found) == 3000
    assert [f for f in found if f is not None] == []


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("profile", PROFILES)
def test_the_rules_of_another_release_are_told_apart(release: str, profile: str) -> None:
    """Each profile predicts its own release's cases, and no other's."""
    wrong = sum(f is not None for f in differences(cases(release)[:1500], PROFILES[profile]))
    assert (wrong == 0) == (RELEASES[release] == profile)


@pytest.mark.parametrize(
    "field", ["isr", "leader", "eligibleLeaderReplicas", "lastKnownElr", "directories", "replicas"]
)
def test_an_answer_that_is_not_kafkas_is_a_difference(field: str) -> None:
    changed = next(copy.deepcopy(c) for c in cases("4.3.1") if c["change"] and field in c["change"])
    assert differences([changed]) == [None]
    del changed["change"][field]
    assert differences([changed])[0] is not None


def test_the_state_behind_the_change_is_compared_too() -> None:
    case = next(copy.deepcopy(c) for c in cases("4.3.1") if c["change"])
    case["state_after"]["partition_epoch"] += 1
    assert differences([case])[0] is not None


def test_profiles_by_release() -> None:
    releases = ("3.9.1", "4.0.0", "4.1.0", "4.1.1", "4.2.0", "4.2.1", "4.3.0", "4.4.0")
    assert {r: p.name for r in releases if (p := profile_of(r))} == {
        "3.9.1": "4.0",
        "4.0.0": "4.0",
        "4.1.0": "4.1.0",
        "4.1.1": "4.1.1",
        "4.2.0": "4.1.1",
        "4.2.1": "4.1.1",
        "4.3.0": "4.3",
        "4.4.0": "4.3",
    }
    assert profile_of("3.8.0") is None
    assert profile_of("5.0.0") is None


def test_a_fingerprint_is_of_the_rules_alone() -> None:
    """A profile that covers one release more still has the same rules."""
    assert len({p.fingerprint for p in PROFILES.values()}) == len(PROFILES)
    for profile in PROFILES.values():
        assert replace(profile, name="other", releases=("9.9.",)).fingerprint == profile.fingerprint


@pytest.mark.parametrize(
    ("text", "switches"),
    [
        ("3.1-IV0", (False, True, False, 0)),
        ("3.2-IV0", (True, True, False, 0)),
        ("3.5-IV2", (True, True, False, 0)),
        ("3.6-IV0", (True, False, False, 0)),
        ("3.7-IV1", (True, False, False, 0)),
        ("3.7-IV2", (True, False, True, 1)),
        ("4.0-IV0", (True, False, True, 1)),
        ("4.0-IV1", (True, False, True, 2)),
        ("4.3-IV0", (True, False, True, 2)),
        ("4.4-IV2", (True, False, True, 2)),
    ],
)
def test_what_a_metadata_version_switches(text: str, switches: tuple[bool, bool, bool, int]) -> None:
    v = MetadataVersion.parse(text)
    assert (v.marks_recovery, v.bumps_leader_epoch_on_shrink, v.has_directories, v.change_record_version) == switches


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kafka": "9.9.9"}, "no profile for Kafka '9.9.9'"),
        ({"metadata_version": "latest"}, "not a metadata.version"),
        ({"election": "LOUD"}, "LOUD"),
        ({"state": {}}, "KeyError"),
        ({"acceptable_leaders": None, "min_isr": "two"}, "two"),
    ],
)
def test_what_is_no_case_is_said(change: Row, message: str) -> None:
    with pytest.raises(CaseError, match=message):
        differences([{**cases("4.3.1")[0], **change}])


def test_members_stand_as_in_javas_hash_set() -> None:
    """Buckets of the low bits (with the high ones on top), 16 of them up to 12 members, then twice as many; in a bucket
    by arrival. 70000 and 1 fall into the same. As java.util.HashSet 17 printed them."""
    rows = [[3, 1, 2], [17, 1, 33], [100, 5, 16], list(range(30, 17, -1)), [70_000, 1]]
    members = to_matrix(pa.array(rows, type=pa.list_(pa.int64())))
    ordered = _as_hash_set(members, np.array([1, 1, 1, 1, 1]))
    assert [[v for v in row if v != PAD] for row in ordered.tolist()] == [
        [1, 2, 3],
        [17, 1, 33],
        [16, 100, 5],
        list(range(18, 31)),
        [70_000, 1],
    ]
