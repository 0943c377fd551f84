"""Over many simulated lives, by class of fault: no claim is ever wrong, and there are many; less evidence claims no
more."""

from __future__ import annotations

from tests.simulator.faults import FAULTS, SHARED
from tests.simulator.judge import Tally, report
from tests.simulator.less import surer_with_less
from tests.simulator.runs import chunks, run
from tests.support.detection import spread

# tests/unit judges lives of the lowest seeds.
LIVES, SEED = 6_300, 1
# How many lives of a class have evidence taken away, and how often.
FEWER, PARTS = SHARED, 2

# The least share of losses that is proven, and of windows without a loss that is excluded, in percent: a little less
# than was measured when this was written.
FLOORS = {
    "clean stops": (39.6, 60.5),
    "unclean restarts": (27.7, 40.2),
    "restarts inside the session": (20.7, 20.0),
    "cut-off leaders": (11.2, 37.5),
    "frozen processes": (24.2, 42.5),
    "fail-overs": (6.4, 29.6),
    "controllers of 4.0": (17.1, 37.5),
    "min ISR changes": (11.1, 16.6),
    "ELR switched": (9.9, 25.4),
    "reassignments": (5.5, 28.8),
    "recreated topics": (9.1, 39.3),
    "lost directories": (36.0, 45.0),
    "lost checkpoint files": (11.3, 32.3),
    "skewed clocks": (11.3, 23.6),
    "missing rows": (9.4, 28.1),
    "missing log": (15.1, 10.0),
    "late metadata": (23.8, 22.0),
    "moved replicas": (16.5, 20.8),
    "lone leaders": (11.3, 15.6),
    "lost metadata": (10.4, 26.4),
    "cluster's min ISR": (10.9, 20.2),
    "coordinators": (7.1, 7.4),
    "everything": (7.2, 17.6),
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
