"""Each inference of a verdict by itself, with the statement that names it (docs/findings.md)."""

import pytest

from replay.controller.transitions import Bucket
from replay.loss.judged_windows import judged_windows
from replay.loss.partition_floors import Contradictions
from replay.offsets.clean_stops import left_behind
from tests.support.scenario import evidence, up
from tests.support.window_table import Entry, beside, entries, inputs


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_window(entry: Entry) -> None:
    entry.check()


# The brokers register, and the leader of the election asks for its shutdown.
HANDED_OVER = "10 isr=1,2,3; 50 isr=2,3 leader=-1; 60 isr=2,3 leader=2; "
HANDED_OVER += "; ".join((*up(1, 2, 3), "49 shutdown 1", "51 fence 1"))


def test_a_change_that_no_rule_explains_is_not_excluded() -> None:
    history, rows, cluster, *_ = inputs(HANDED_OVER)
    for unexplained, expected in ((), "excluded"), ((60,), "undetermined"):
        (window,) = judged_windows(Bucket(history, cluster), rows, Contradictions(changes=frozenset(unexplained)))
        assert window.judgement.verdict == expected


@pytest.mark.parametrize(("mark", "is_last"), [(80, True), (81, False)])
def test_a_recovery_point_below_the_high_watermark_beside_it_was_not_written_at_the_stop(
    mark: int, is_last: bool
) -> None:
    left = left_behind(evidence("54 b1 rp=80/1", f"57 b1 rp=80/1 hw={mark}"))
    assert ((1, 1) in left) == is_last
