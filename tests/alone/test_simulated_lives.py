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
    "clean stops": (29.3, 52.8),
    "unclean restarts": (26.5, 22.9),
    "restarts inside the session": (19.7, 5.6),
    "cut-off leaders": (24.5, 23.4),
    "frozen processes": (22.0, 22.5),
    "fail-overs": (14.5, 12.4),
    "controllers of 4.0": (18.3, 10.6),
    "min ISR changes": (22.6, 10.6),
    "ELR switched": (27.5, 10.7),
    "reassignments": (27.2, 19.7),
    "recreated topics": (16.0, 19.2),
    "lost directories": (33.0, 41.6),
    "lost checkpoint files": (17.1, 13.5),
    "skewed clocks": (20.9, 10.3),
    "missing rows": (13.0, 11.7),
    "missing log": (19.7, 1.6),
    "everything": (13.0, 9.3),
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
