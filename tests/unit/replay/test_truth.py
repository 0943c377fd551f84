"""Verdicts against the truth of a simulated partition: never wrong, and never surer with less evidence."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.detect import Detected, detect
from tests.support.scenario import offsets_table
from tests.unit.replay.simulated import OPERATIONS, REPLICAS, Partition

Row = dict[str, Any]
Gap = tuple[int, int] | None


def life(seed: int) -> Partition:
    rng = random.Random(seed)
    skews = rng.choice([(0, 0, 0), (0, 0, 0), (4, 0, 2), (0, 9, 0), (-5, 0, 3)])
    count = rng.randint(20, 90)
    return Partition(
        rng.random() < 0.5,
        skews,
        [(rng.choice(OPERATIONS), rng.randrange(30), rng.randrange(13)) for _ in range(count)],
    )


lives = st.integers(0, 2**40).map(life)
subsets = st.randoms(use_true_random=False)
slow = [HealthCheck.too_slow, HealthCheck.data_too_large]


def judged(partition: Partition, rows: list[Row], gap: Gap = None) -> Detected:
    return detect(partition.table(gap), offsets_table(rows), partition.cluster(gap))


def by_election(detected: Detected) -> dict[int, Row]:
    return {f["election_offset"]: f for f in detected.findings.to_pylist()}


def check(partition: Partition, detected: Detected) -> None:
    for offset, finding in by_election(detected).items():
        truth = partition.truth[offset]
        assert finding["loss_min"] <= truth.lost
        assert finding["loss_max"] is None or truth.lost <= finding["loss_max"]
        assert finding["verdict"] != "proven" or truth.lost > 0
        assert finding["verdict"] != "excluded" or truth.lost == 0
        assert finding["first_lost_offset"] in (None, truth.first)
    for row in detected.counterfactuals.to_pylist():
        lost = partition.truth[row["offset"]].would_lose
        if row["leader"] in REPLICAS:
            assert row["loss_min"] is None or row["loss_min"] <= lost[row["leader"]]
            assert row["loss_max"] is None or lost[row["leader"]] <= row["loss_max"]


@settings(max_examples=200, deadline=None, suppress_health_check=slow)
@given(lives)
def test_no_verdict_says_more_than_is_true(partition: Partition) -> None:
    check(partition, judged(partition, partition.evidence()))


@settings(max_examples=150, deadline=None, suppress_health_check=slow)
@given(lives, st.integers(0, 1500), st.integers(1, 400))
def test_nor_when_part_of_the_log_is_missing(partition: Partition, start: int, length: int) -> None:
    gap = (start, start + length)
    check(partition, judged(partition, partition.evidence(), gap))


@settings(max_examples=150, deadline=None, suppress_health_check=slow)
@given(lives, subsets)
def test_less_evidence_never_proves_more(partition: Partition, rng: Any) -> None:
    rows = partition.evidence()
    share = rng.random()
    fewer = by_election(judged(partition, [r for r in rows if rng.random() < share]))
    whole = by_election(judged(partition, rows))
    for offset, finding in fewer.items():
        if finding["verdict"] == "proven":
            assert whole[offset]["verdict"] == "proven"
        assert finding["loss_min"] <= whole.get(offset, {"loss_min": 0})["loss_min"]


@settings(max_examples=80, deadline=None, suppress_health_check=slow)
@given(lives, subsets)
def test_the_order_of_evidence_does_not_matter(partition: Partition, rng: Any) -> None:
    rows = partition.evidence()
    mixed = list(rows)
    rng.shuffle(mixed)
    one, other = judged(partition, rows), judged(partition, mixed)
    assert one.findings.to_pylist() == other.findings.to_pylist()
    assert one.counterfactuals.to_pylist() == other.counterfactuals.to_pylist()


def test_the_simulation_is_worth_asking() -> None:
    """Over many lives every verdict comes up, and most losses that are proven are proven in full."""
    found: list[tuple[str, int, int]] = []
    for seed in range(120):
        partition = life(seed)
        for offset, finding in by_election(judged(partition, partition.evidence())).items():
            found.append((finding["verdict"], finding["loss_min"], partition.truth[offset].lost))
    verdicts = [verdict for verdict, _, _ in found]
    assert verdicts.count("proven") > 5
    assert min(verdicts.count(v) for v in ("possible", "excluded")) > 20
    assert "undetermined" in verdicts
    exact = [loss_min == lost for verdict, loss_min, lost in found if verdict == "proven"]
    assert sum(exact) > len(exact) / 2
