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
    "clean stops": (28.2, 63.8),
    "unclean restarts": (32.0, 47.3),
    "restarts inside the session": (25.8, 25.9),
    "cut-off leaders": (22.0, 42.2),
    "frozen processes": (24.6, 50.3),
    "fail-overs": (12.6, 33.8),
    "controllers of 4.0": (26.4, 40.2),
    "min ISR changes": (21.6, 20.7),
    "ELR switched": (22.9, 32.9),
    "reassignments": (20.5, 31.7),
    "recreated topics": (11.0, 44.6),
    "lost directories": (57.9, 45.4),
    "lost checkpoint files": (18.0, 31.8),
    "skewed clocks": (24.6, 35.6),
    "missing rows": (21.1, 35.0),
    "missing log": (29.9, 12.9),
    "late metadata": (32.9, 27.6),
    "moved replicas": (26.5, 26.2),
    "lone leaders": (17.9, 17.8),
    "coordinators": (8.0, 12.0),
    "everything": (9.3, 20.1),
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
