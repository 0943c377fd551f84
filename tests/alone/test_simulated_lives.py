"""Over many simulated lives, by class of fault: no claim is ever wrong, and there are many; less evidence claims no
more."""

from tests.simulator.faults import FAULTS, SHARED
from tests.simulator.judge import Tally, report
from tests.simulator.less import surer_with_less
from tests.simulator.runs import chunks, run
from tests.support.detection import spread

# tests/unit judges lives of the lowest seeds.
LIVES, SEED = 3_915, 1
# How many lives of a class have evidence taken away, and how often.
FEWER, PARTS = SHARED, 2

# The least share of losses that is proven, and of windows without a loss that is excluded, in percent: a little less
# than was measured when this was written.
FLOORS = {
    "clean stops": (49.7, 51.8),
    "unclean restarts": (33.0, 47.2),
    "restarts inside the session": (19.1, 9.9),
    "cut-off leaders": (14.8, 35.6),
    "frozen processes": (54.2, 44.9),
    "fail-overs": (3.7, 30.1),
    "controllers of 4.0": (28.2, 38.0),
    "min ISR changes": (12.2, 12.8),
    "ELR switched": (33.0, 23.8),
    "reassignments": (18.5, 22.7),
    "recreated topics": (12.2, 37.7),
    "lost directories": (49.7, 39.2),
    "lost checkpoint files": (12.2, 23.7),
    "skewed clocks": (17.1, 19.7),
    "missing rows": (16.9, 34.4),
    "missing log": (16.4, 7.0),
    "late metadata": (28.2, 16.4),
    "moved replicas": (21.4, 12.9),
    "lone leaders": (28.6, 9.7),
    "lost metadata": (15.8, 21.5),
    "deleted records": (27.3, 9.7),
    "cluster's min ISR": (20.9, 16.8),
    "coordinators": (4.6, 8.9),
    "read in pieces": (45.9, 26.2),
    "hushed": (0, 28.1),
    "failed directories": (30.1, 26.8),
    "forgotten epochs": (6.5, 17.7),
    "everything": (8.0, 12.4),
    "two at once": (20.7, 29.8),
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
