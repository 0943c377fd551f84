"""Over many simulated lives, by class of fault: no claim is ever wrong, and there are many; less evidence claims no
more."""

from tests.simulator.faults import FAULTS, SHARED
from tests.simulator.judge import Tally, report
from tests.simulator.less import surer_with_less
from tests.simulator.runs import chunks, run
from tests.support.detection import spread

# tests/unit judges lives of the lowest seeds.
LIVES, SEED = 3_510, 1
# How many lives of a class have evidence taken away, and how often.
FEWER, PARTS = SHARED, 2

# The least share of losses that is proven, and of windows without a loss that is excluded, in percent: a little less
# than was measured when this was written.
FLOORS = {
    "clean stops": (49.7, 54.8),
    "unclean restarts": (24.7, 46.5),
    "restarts inside the session": (14.9, 11.7),
    "cut-off leaders": (11.5, 34.4),
    "frozen processes": (41.4, 49.7),
    "fail-overs": (6.2, 30.7),
    "controllers of 4.0": (19.7, 40.0),
    "min ISR changes": (10.2, 15.1),
    "ELR switched": (17.1, 27.4),
    "reassignments": (11.5, 27.5),
    "recreated topics": (16.4, 39.2),
    "lost directories": (74.7, 36.5),
    "lost checkpoint files": (10.2, 26.1),
    "skewed clocks": (14.5, 22.3),
    "missing rows": (14.9, 30.6),
    "missing log": (10.2, 6.8),
    "late metadata": (28.9, 17.3),
    "moved replicas": (25.6, 16.4),
    "lone leaders": (29.0, 12.4),
    "lost metadata": (10.5, 26.3),
    "deleted records": (19.2, 7.1),
    "cluster's min ISR": (10.0, 19.1),
    "coordinators": (4.2, 11.5),
    "read in pieces": (42.6, 30.3),
    "hushed": (0.0, 27.8),
    "everything": (7.4, 17.2),
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
