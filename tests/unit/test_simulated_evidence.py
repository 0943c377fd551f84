"""What is made of the evidence of simulated lives: less of it never says more, and its order says nothing."""

from __future__ import annotations

import pytest

from tests.simulator.detection import detected
from tests.simulator.faults import FAULTS, life
from tests.simulator.judge import groups
from tests.simulator.less import shuffled, surer_with_less, with_evidence

LIVES, PARTS = 16, 2
# Seeds of their own: other tests judge the first ones.
FIRST = 64 * 100


@pytest.mark.parametrize("fault", FAULTS)
def test_less_evidence_never_claims_more(fault: str) -> None:
    surer = surer_with_less((fault, FIRST, LIVES, PARTS))
    assert not surer, "\n".join(surer)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_order_of_evidence_does_not_matter(fault: str) -> None:
    found = 0
    for group in groups(life(fault, seed) for seed in range(FIRST, FIRST + LIVES // 2)):
        one = detected(group)
        other = detected([with_evidence(each, shuffled(each)) for each in group])
        found += len(one.findings)
        assert one.findings.to_pylist() == other.findings.to_pylist()
        assert one.counterfactuals.to_pylist() == other.counterfactuals.to_pylist()
    assert found
