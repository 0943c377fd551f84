"""The vectorised prediction equals the scalar one on cases of every kind; the scalar one gives Kafka's answers."""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.arrow.ragged import PAD, to_matrix
from replay.cluster.features import MetadataVersion
from replay.controller.conformance import _arrays, differences
from replay.controller.partition_change_builder import (
    ELECT_ONLINE,
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    RECOVERED,
    RECOVERING,
    UNASSIGNED,
    Cases,
    predict,
)
from replay.controller.profiles import PROFILES, Profile, profile_of
from tests.support.paths import ROOT
from tests.support.scalar_builder import Case, Record, build
from tests.unit.replay.controller.test_conformance import cases as kafkas_cases

VERSIONS = (
    *("3.0-IV1", "3.1-IV0", "3.2-IV0", "3.5-IV2", "3.6-IV0", "3.7-IV1", "3.7-IV2", "4.0-IV0", "4.0-IV3", "4.3-IV0"),
    "4.4-IV2",
)
SWITCHES = ("marks_recovery", "bumps_leader_epoch_on_shrink", "has_directories")


def as_cases(cases: Sequence[Case]) -> Cases:
    """Field by field: lists become matrices."""
    columns: dict[str, Any] = {}
    for field in fields(Case):
        values = [getattr(case, field.name) for case in cases]
        if isinstance(values[0], list):
            columns[field.name] = to_matrix(pa.array(values, type=pa.list_(pa.int64())))
        else:
            columns[field.name] = np.array(values)
    return Cases(**columns)


def predicted(cases: Sequence[Case], profile: Profile) -> list[Record]:
    """The vectorised answers, as the scalar ones are given."""
    changes = predict(as_cases(cases), profile)
    records = []
    for i in range(len(cases)):
        held = {
            name: [int(v) for v in changes.lists[name][i] if v != PAD]
            for name, written in changes.written.items()
            if written[i]
        }
        records.append(Record(int(changes.leader[i]), int(changes.recovery[i]), **held))
    assert changes.is_no_op.tolist() == [record == Record() for record in records]
    return records


def random_case(random: Random, sizes: Sequence[int] = (*range(1, 9), 12, 70)) -> Case:
    """Any lists of a few brokers, so that each list meets each other one in every relation."""
    brokers = random.sample(range(100), random.choice(sizes))
    if random.random() < 0.3:
        brokers = [random.choice((-1, 1)) * random.randrange(2**31) ^ b for b in brokers]

    def some() -> list[int]:
        return random.sample(brokers, random.choice((len(brokers), random.randint(0, len(brokers)))))

    def maybe(wanted: list[int]) -> list[int]:
        return random.choice((wanted, [], some()))

    replicas, isr = some(), some()
    as_many = random.randint(0, min(2, len(brokers)))
    swap = brokers[:as_many], brokers[len(brokers) - as_many :]
    removing, adding = random.choice((([], []), swap, (some(), some())))
    recovery = random.choice((RECOVERED, RECOVERING))
    version = MetadataVersion.parse(random.choice(VERSIONS))
    return Case(
        replicas=replicas,
        isr=isr,
        elr=random.choice(([b for b in brokers if b not in isr], [], some())),
        last_known_elr=random.choice(([], brokers[:1], some())),
        removing=removing,
        adding=adding,
        directories=[random.randint(UNASSIGNED, 3) for _ in replicas],
        leader=random.choice((-1, *brokers)),
        recovery=recovery,
        election=random.choice((ELECT_PREFERRED, ELECT_ONLINE, ELECT_UNCLEAN)),
        acceptable=some(),
        target_isr=maybe(isr),
        target_replicas=maybe(replicas),
        target_removing=maybe(removing),
        target_adding=maybe(adding),
        target_recovery=random.choice((recovery, recovery, RECOVERED)),
        unclean_shutdown=maybe([]),
        min_isr=random.randint(1, 4),
        elr_enabled=random.random() < 0.7,
        **{switch: getattr(version, switch) for switch in SWITCHES},
    )


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda p: p.name)
def test_vectorised_equals_scalar(profile: Profile) -> None:
    """Their widths are mixed, from no replica at all to 70."""
    random = Random(1)
    cases = [random_case(random) for _ in range(1_000)]
    expected = [build(case, profile) for case in cases]
    assert predicted(cases, profile) == expected
    assert {len(case.replicas) for case in cases} >= {*range(9), 70}
    for field in fields(Record):
        held = sum(getattr(record, field.name) != getattr(Record(), field.name) for record in expected)
        assert held > 30, field.name


def test_more_cases_than_are_predicted_in_one_piece() -> None:
    """Their ELRs grow from piece to piece, from two members at most."""
    profile, random, repeated = PROFILES["4.3"], Random(2), range(50)
    cases = [random_case(random, [size]) for size in range(1, 9) for _ in range(100)]
    cases = [replace(case, elr=case.elr[:2]) for case in cases]
    expected = [record for record in (build(case, profile) for case in cases) for _ in repeated]
    assert len(expected) == 40_000
    assert predicted([case for case in cases for _ in repeated], profile) == expected


def test_no_cases() -> None:
    cases = as_cases([random_case(Random(3))])
    none = Cases(*(getattr(cases, field.name)[:0] for field in fields(Cases)))
    assert predict(none, PROFILES["4.3"]).is_no_op.tolist() == []


def as_scalars(cases: Cases) -> list[Case]:
    """One by one: rows of matrices become lists."""
    columns = {field.name: getattr(cases, field.name) for field in fields(Case)}
    return [
        Case(**{n: [int(v) for v in c[i] if v != PAD] if c.ndim > 1 else c[i].item() for n, c in columns.items()})
        for i in range(len(cases.leader))
    ]


@pytest.mark.parametrize("release", ["4.0.2", "4.1.0", "4.2.1", "4.3.1", "4.4.0"])
def test_scalar_equals_kafka(release: str) -> None:
    """Out of all parts of Kafka's cases, on which the vectorised rules give its answers (test_conformance.py, which
    takes an ELR for a set)."""
    profile, rows = profile_of(release), kafkas_cases(release)[::5]
    assert profile is not None
    versions = [MetadataVersion.parse(row["metadata_version"]) for row in rows]
    cases = as_scalars(_arrays(rows, versions)[0])
    records = [build(case, profile) for case in cases]
    assert records == predicted(cases, profile)
    assert [record.elr for record in records] == [(row["change"] or {}).get("eligibleLeaderReplicas") for row in rows]


@pytest.mark.parametrize("name", ["leader_that_stays_keeps_the_last_known_one", "adding_replica_that_is_also_removed"])
def test_regression(name: str) -> None:
    """Cases of tests/cases, which say themselves what they are about."""
    lines = (ROOT / "tests" / "cases" / f"policy_{name}" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    assert differences(cases) == [None] * len(cases)
