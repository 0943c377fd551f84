"""Compare policy cases (JSON, as oracle/PolicyOracle prints them) with the predicted record, case by case.

A case has kafka (release), elr_enabled, min_isr (effective), metadata_version, election, acceptable_leaders and state;
optionally target_isr, unclean_shutdown_replicas, target_leader_recovery_state, and target_replicas with
target_adding_replicas and target_removing_replicas; and Kafka's answer: change (its JSON of the record, or null) and
state_after.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import PAD, Array, Row, to_matrix
from replay.cluster.features import MetadataVersion
from replay.controller.acceptable_leaders import Directories
from replay.controller.partition_change_builder import (
    ELECT_ONLINE,
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    KEEP_RECOVERY,
    LISTS,
    NO_CHANGE,
    Cases,
    Changes,
    predict,
)
from replay.controller.profiles import PROFILES, Profile, profile_of
from replay.controller.transitions import SWITCHES
from replay.partitions.reducer import MIGRATING

_ELECTIONS = {"PREFERRED": ELECT_PREFERRED, "ONLINE": ELECT_ONLINE, "UNCLEAN": ELECT_UNCLEAN}
_RECOVERY = ("RECOVERED", "RECOVERING")
# Our names -> the names in the record's JSON form, and those in a state.
_NAMES = {
    "isr": ("isr", "isr"),
    "replicas": ("replicas", "replicas"),
    "removing": ("removingReplicas", "removing_replicas"),
    "adding": ("addingReplicas", "adding_replicas"),
    "elr": ("eligibleLeaderReplicas", "elr"),
    "last_known_elr": ("lastKnownElr", "last_known_elr"),
    "directories": ("directories", "directories"),
}


class CaseError(ValueError):
    """A case cannot be predicted; the message gives the reason."""


def differences(cases: Sequence[Row], profile: Profile | None = None) -> list[Row | None]:
    """For each case None if the prediction equals Kafka's answer, else {"expected": ..., "predicted": ...}.

    profile: for all cases; None: each case uses the profile of its release. Errors: CaseError for a release without a
    profile, and for a missing or invalid field.
    """
    result: list[Row | None] = [None] * len(cases)
    groups: dict[str, list[int]] = {}
    for index, case in enumerate(cases):
        found = profile or profile_of(str(case.get("kafka")))
        if found is None:
            raise CaseError(f"no profile for Kafka {case.get('kafka')!r}; known profiles: {', '.join(PROFILES)}")
        groups.setdefault(found.name, []).append(index)
    for name, indexes in groups.items():
        for index, predicted in zip(indexes, _predicted([cases[i] for i in indexes], PROFILES[name]), strict=True):
            expected = {n: cases[index].get(n) for n in ("change", "change_version", "state_after")}
            if _comparable(expected) != _comparable(predicted):
                result[index] = {"expected": expected, "predicted": predicted}
    return result


def _predicted(cases: Sequence[Row], profile: Profile) -> list[Row]:
    """change, change_version and state_after of every case."""
    try:
        versions = [MetadataVersion.parse(case["metadata_version"]) for case in cases]
        arrays, directories = _arrays(cases, versions)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CaseError(f"a case cannot be read: {type(error).__name__}: {error}") from error
    changes = predict(arrays, profile)
    no_op = changes.is_no_op.tolist()
    return [
        {"change": None, "change_version": None, "state_after": case["state"]}
        if nothing
        else _answer(case, changes, index, versions[index], directories)
        for index, (case, nothing) in enumerate(zip(cases, no_op, strict=True))
    ]


def _arrays(cases: Sequence[Row], versions: Sequence[MetadataVersion]) -> tuple[Cases, list[str]]:
    """(the input of the rules, directory ids by their numbers in it)."""
    states = [case["state"] for case in cases]
    listed = pa.chunked_array([[state["directories"] for state in states]], pa.list_(pa.string()))
    directories = Directories(listed)

    def lists(values: Iterable[list[int] | None]) -> Array:
        return to_matrix(pa.array(list(values), type=pa.list_(pa.int64())))

    def target(name: str, own: str) -> Array:
        return lists(case.get(name, state[own]) for case, state in zip(cases, states, strict=True))

    def recovery(names: Iterable[str]) -> Array:
        return np.array([_RECOVERY.index(name) for name in names], dtype=np.int64)

    own = [state["leader_recovery_state"] for state in states]
    targets = [case.get("target_leader_recovery_state", name) for case, name in zip(cases, own, strict=True)]
    arrays = Cases(
        **{name: lists(s[_NAMES[name][1]] for s in states) for name in LISTS},
        directories=directories.codes(listed),
        leader=np.array([s["leader"] for s in states], dtype=np.int64),
        recovery=recovery(own),
        election=np.array([_ELECTIONS[case["election"]] for case in cases]),
        acceptable=lists(case["acceptable_leaders"] for case in cases),
        target_isr=target("target_isr", "isr"),
        target_replicas=target("target_replicas", "replicas"),
        target_removing=target("target_removing_replicas", "removing_replicas"),
        target_adding=target("target_adding_replicas", "adding_replicas"),
        target_recovery=recovery(targets),
        unclean_shutdown=lists(case.get("unclean_shutdown_replicas") for case in cases),
        min_isr=np.array([case["min_isr"] for case in cases], dtype=np.int64),
        elr_enabled=np.array([bool(case["elr_enabled"]) for case in cases]),
        **{name: np.array([getattr(version, name) for version in versions], dtype=bool) for name in SWITCHES},
    )
    return arrays, directories.names


def _answer(case: Row, changes: Changes, index: int, version: MetadataVersion, directories: Sequence[str]) -> Row:
    """The record in Kafka's JSON form, and the state after it (PartitionRegistration.merge)."""
    record: Row = {}
    state = dict(case["state"])
    for name, (in_record, in_state) in _NAMES.items():
        if changes.written[name][index]:
            row = changes.lists[name][index]
            numbers = [int(v) for v in row if v != PAD]
            given = [directories[number] for number in numbers] if name == "directories" else numbers
            record[in_record] = state[in_state] = given
    if set(state["directories"]) <= {MIGRATING}:
        state["directories"] = [MIGRATING] * len(state["replicas"])
    leader, recovery = int(changes.leader[index]), int(changes.recovery[index])
    if leader != NO_CHANGE:
        record["leader"] = state["leader"] = leader
        state["leader_epoch"] += 1
    if recovery != KEEP_RECOVERY:
        record["leaderRecoveryState"] = recovery
        state["leader_recovery_state"] = _RECOVERY[recovery]
    state["partition_epoch"] += 1
    return {"change": record, "change_version": version.change_record_version, "state_after": state}


def _comparable(answer: Row) -> Row:
    """An answer in comparable form: without the partition's identity, and with ELRs sorted, since they are sets."""
    change = {k: v for k, v in (answer["change"] or {}).items() if k not in ("partitionId", "topicId")}
    state = dict(answer["state_after"] or {})
    for where, name in ((change, "eligibleLeaderReplicas"), (state, "elr")):
        if where.get(name) is not None:
            where[name] = sorted(where[name])
    version = answer["change_version"] if answer["change"] is not None else None
    return {"change": change if answer["change"] is not None else None, "version": version, "state": state}
