"""Verdicts against the truth of a simulated partition: never wrong, never surer with less evidence."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.detect import Detected, detect
from tests.support.scenario import offsets_table
from tests.unit.replay.simulated import OPERATIONS, Partition

Row = dict[str, Any]

lives = st.builds(
    Partition,
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 29), st.integers(0, 12)), min_size=5, max_size=70),
)
often = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def judged(partition: Partition, rows: list[Row]) -> Detected:
    return detect(partition.table(), offsets_table(rows), partition.cluster())


def by_election(detected: Detected) -> dict[int, Row]:
    return {f["election_offset"]: f for f in detected.findings.to_pylist()}


@often
@given(lives)
def test_no_verdict_says_more_than_is_true(partition: Partition) -> None:
    for offset, finding in by_election(judged(partition, partition.evidence())).items():
        truth = partition.truth[offset]
        assert finding["loss_min"] <= truth.lost
        assert finding["loss_max"] is None or truth.lost <= finding["loss_max"]
        assert finding["verdict"] != "proven" or truth.lost > 0
        assert finding["verdict"] != "excluded" or truth.lost == 0
        assert finding["first_lost_offset"] in (None, truth.first)
