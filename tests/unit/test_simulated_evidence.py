"""The order of the evidence of simulated lives says nothing. tests/alone takes evidence away."""

from __future__ import annotations

import pytest

from tests.simulator.detection import detected
from tests.simulator.faults import life
from tests.simulator.judge import groups
from tests.simulator.less import shuffled, with_evidence

# Seeds of their own: other tests judge the first ones.
FIRST, LIVES = 64 * 100, 16


@pytest.mark.parametrize("fault", ["everything", "fail-overs", "moved replicas", "missing rows", "missing log"])
def test_the_order_of_evidence_does_not_matter(fault: str) -> None:
    found = 0
    for group in groups(life(fault, seed) for seed in range(FIRST, FIRST + LIVES)):
        one = detected(group)
        other = detected([with_evidence(each, shuffled(each)) for each in group])
        found += len(one.findings)
        assert one.findings.to_pylist() == other.findings.to_pylist()
        assert one.counterfactuals.to_pylist() == other.counterfactuals.to_pylist()
    assert found
