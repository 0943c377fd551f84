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
    "clean stops": (28.1, 63.7),
    "unclean restarts": (33.7, 47.3),
    "restarts inside the session": (27.3, 25.0),
    "cut-off leaders": (18.9, 42.5),
    "frozen processes": (24.5, 50.9),
    "fail-overs": (15.4, 34.3),
    "controllers of 4.0": (25.8, 40.4),
    "min ISR changes": (25.5, 22.7),
    "ELR switched": (25.1, 33.6),
    "reassignments": (20.4, 31.6),
    "recreated topics": (10.9, 43.3),
    "lost directories": (57.8, 46.4),
    "lost checkpoint files": (19.9, 32.5),
    "skewed clocks": (24.5, 35.6),
    "missing rows": (22.6, 37.7),
    "missing log": (18.9, 10.6),
    "late metadata": (31.1, 26.9),
    "moved replicas": (24.9, 25.2),
    "coordinators": (8.6, 12.4),
    "everything": (13.3, 19.0),
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
