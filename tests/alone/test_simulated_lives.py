"""Over many simulated lives, by class of fault: no claim is ever wrong, and there are many; less evidence claims no
more."""

from __future__ import annotations

from tests.simulator.faults import FAULTS, SHARED
from tests.simulator.judge import Tally, report
from tests.simulator.less import surer_with_less
from tests.simulator.runs import chunks, run
from tests.support.detection import spread

# tests/unit judges lives of the lowest seeds.
LIVES, SEED = 3_100, 1
# How many lives of a class have evidence taken away, and how often.
FEWER, PARTS = SHARED, 2

# The least share of losses that is proven, and of windows without a loss that is excluded, in percent: a little less
# than was measured when this was written.
FLOORS = {
    "clean stops": (49.7, 59.1),
    "unclean restarts": (24.7, 44.8),
    "restarts inside the session": (14.8, 15.3),
    "cut-off leaders": (8.5, 36.4),
    "frozen processes": (33.0, 47.9),
    "fail-overs": (6.1, 31.4),
    "controllers of 4.0": (11.7, 44.8),
    "min ISR changes": (10.2, 15.0),
    "ELR switched": (12.7, 27.8),
    "reassignments": (12.2, 25.8),
    "recreated topics": (16.3, 43.8),
    "lost directories": (74.7, 39.1),
    "lost checkpoint files": (10.2, 31.7),
    "skewed clocks": (10.8, 24.2),
    "missing rows": (11.8, 30.6),
    "missing log": (15.4, 8.6),
    "late metadata": (24.7, 18.6),
    "moved replicas": (21.9, 21.9),
    "lone leaders": (10.5, 16.3),
    "lost metadata": (7.8, 26.2),
    "cluster's min ISR": (9.9, 20.9),
    "coordinators": (5.1, 11.1),
    "everything": (7.3, 19.0),
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
