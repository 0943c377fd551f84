"""Verdicts against the truth of a simulated partition: never wrong, and never surer with less evidence."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.detect import Detected, detect
from tests.support.detection import Found, claims
from tests.support.scenario import offsets_table
from tests.unit.replay.simulated import Gap, Partition, Row
from tests.unit.replay.simulated_faults import FAULTS, groups, life, one_cluster

NOTHING_MISSING = sorted(name for name, fault in FAULTS.items() if not fault.missing and not fault.gap)

lives = st.builds(
    lambda seed, fault: life(seed, fault).partition, st.integers(0, 2**40), st.sampled_from(NOTHING_MISSING)
)
subsets = st.randoms(use_true_random=False)
slow = [HealthCheck.too_slow, HealthCheck.data_too_large]


def judged(partition: Partition, rows: list[Row], gap: Gap = None) -> Detected:
    return detect(partition.table(gap), offsets_table(rows), partition.cluster(gap))


def by_election(detected: Detected) -> dict[int, Row]:
    return {key[-1]: window for key, window in Found.of(detected).windows.items()}


def check(partition: Partition, detected: Detected) -> None:
    for offset, finding in by_election(detected).items():
        truth = partition.truth[offset]
        assert finding["verdict"] != "proven" or truth.lost > 0
        assert finding["verdict"] != "excluded" or truth.lost == 0
        assert finding["first_lost_offset"] in (None, truth.first)
        for name, value in (("loss", truth.lost), ("unacked", truth.unacked)):
            assert within(value, finding[f"{name}_min"], finding[f"{name}_max"]), name
    for row in detected.counterfactuals.to_pylist():
        if row["leader"] in partition.setup.brokers:
            lost = partition.truth[row["offset"]].would_lose[row["leader"]]
            assert within(lost, row["loss_min"], row["loss_max"]), row["policy"]


def within(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


@settings(max_examples=120, deadline=None, suppress_health_check=slow)
@given(lives)
def test_no_verdict_says_more_than_is_true(partition: Partition) -> None:
    check(partition, judged(partition, partition.evidence()))


@settings(max_examples=80, deadline=None, suppress_health_check=slow)
@given(lives, st.integers(0, 1500), st.integers(1, 400))
def test_nor_when_part_of_the_log_is_missing(partition: Partition, start: int, length: int) -> None:
    gap = (start, start + length)
    check(partition, judged(partition, partition.evidence(), gap))


@settings(max_examples=80, deadline=None, suppress_health_check=slow)
@given(lives, subsets)
def test_less_evidence_never_claims_more(partition: Partition, rng: Any) -> None:
    rows = partition.evidence()
    share = rng.random()
    fewer = Found.of(judged(partition, [r for r in rows if rng.random() < share]))
    assert claims(fewer, Found.of(judged(partition, rows))) == []


@settings(max_examples=50, deadline=None, suppress_health_check=slow)
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
    every = [life(seed, NOTHING_MISSING[seed % len(NOTHING_MISSING)], seed) for seed in range(120)]
    truth = {each.partition.setup.topic_id: each.partition.truth for each in every}
    for group in groups(every):
        for (topic_id, _, offset), finding in Found.of(detect(*one_cluster(group))).windows.items():
            found.append((finding["verdict"], finding["loss_min"], truth[topic_id][offset].lost))
    verdicts = [verdict for verdict, _, _ in found]
    assert verdicts.count("proven") > 5
    assert min(verdicts.count(v) for v in ("possible", "excluded")) > 20
    assert "undetermined" in verdicts
    exact = [loss_min == lost for verdict, loss_min, lost in found if verdict == "proven"]
    assert sum(exact) > len(exact) / 2
