"""The predicted records against those that each release's own PartitionChangeBuilder makes now, on new random cases."""

import json
from typing import Any

import pytest

from replay.controller.conformance import differences
from tests.kafka.conftest import RELEASES, output_of

SEED, COUNT = 41, 8_000
FIELDS = {"isr", "leader", "leaderRecoveryState", "replicas", "removingReplicas", "addingReplicas", "directories"}
ELR_FIELDS = {"eligibleLeaderReplicas", "lastKnownElr"}


def answered_by(release: str) -> list[dict[str, Any]]:
    """Cases of PolicyCases.java with the answers of the release's classes."""
    output = output_of(release, "PolicyCases", release, SEED, COUNT)
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.parametrize("release", RELEASES)
def test_every_decision_of_kafka_is_predicted(release: str) -> None:
    cases = answered_by(release)
    assert [d for d in differences(cases) if d is not None] == []
    changes = [case["change"] for case in cases if case["change"] is not None]
    assert COUNT * 0.8 < len(changes) < len(cases) == COUNT
    # No metadata.version that 3.9 lets a cluster have writes an ELR.
    expected = FIELDS if release == "3.9.1" else FIELDS | ELR_FIELDS
    assert {name for change in changes for name in change} == expected | {"partitionId", "topicId"}
