"""Over many simulated lives, by class of fault: no claim is ever wrong, and there are many; less evidence claims no
more."""

from __future__ import annotations

from tests.simulator.faults import FAULTS, SHARED
from tests.simulator.judge import Tally, report
from tests.simulator.less import surer_with_less
from tests.simulator.runs import chunks, run
from tests.support.detection import spread

# tests/unit judges lives of the lowest seeds.
LIVES, SEED = 6_000, 1
# How many lives of a class have evidence taken away, and how often.
FEWER, PARTS = SHARED, 3

# The least share of losses that is proven, and of windows without a loss that is excluded, in percent: a little less
# than was measured when this was written.
FLOORS = {
    "clean stops": (29.3, 42.9),
    "unclean restarts": (13.3, 14.0),
    "restarts inside the session": (8.6, 3.1),
    "cut-off leaders": (6.9, 16.8),
    "frozen processes": (11.7, 13.4),
    "fail-overs": (7.7, 7.9),
    "controllers of 4.0": (11.7, 9.4),
    "min ISR changes": (14.3, 3.8),
    "ELR switched": (11.0, 7.2),
    "reassignments": (11.2, 12.7),
    "recreated topics": (8.0, 14.2),
    "lost directories": (16.5, 35.2),
    "lost checkpoint files": (7.9, 10.3),
    "skewed clocks": (8.6, 7.0),
    "missing rows": (3.1, 6.2),
    "missing log": (5.3, 0.8),
    "everything": (1.4, 8.4),
}


def test_no_claim_is_wrong_and_many_are_made() -> None:
    todo = list(chunks(list(FAULTS), SEED, LIVES))
    tallies = {fault: Tally() for fault in FAULTS}
    for (fault, _, _), tally in zip(todo, spread(run, todo), strict=True):
        tallies[fault].add(tally)
    print(report(tallies))
    assert sum(tally.lives for tally in tallies.values()) >= LIVES
    wrong = [str(w) for tally in tallies.values() for w in tally.wrong]
    assert not wrong, "\n".join([report(tallies), *wrong[:50]])
    short = {
        fault: tally.recall
        for fault, tally in tallies.items()
        if any(share < low for share, low in zip(tally.recall, FLOORS[fault], strict=True))
    }
    assert not short


def test_less_evidence_never_claims_more() -> None:
    todo = [(fault, SEED * 10_000_000 // SHARED * SHARED, FEWER, PARTS) for fault in FAULTS]
    surer = [text for found in spread(surer_with_less, todo) for text in found]
    assert not surer, "\n".join(surer[:50])


def test_the_same_seeds_are_judged_alike_in_another_process() -> None:
    todo = [("everything", 0, SHARED), ("recreated topics", 0, SHARED)]
    assert list(spread(run, todo)) == [run(chunk) for chunk in todo]
