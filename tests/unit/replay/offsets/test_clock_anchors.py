"""The clock error that lines of leader-epoch-checkpoints show: read before their epoch was opened."""

import pytest

from replay.offsets.clock_anchors import least_clock_error_ms
from tests.support.scenario import UNCERTAINTY_MS, evidence, ms, offsets_table, states


@pytest.mark.parametrize(
    ("history", "line", "seconds"),
    [
        (("10 isr=1,2", "100 isr=2 leader=2"), "50 b1 e0@0 e1@80", 50),
        (("10 isr=1,2", "100 isr=2 leader=2"), "101 b1 e0@0 e1@80", 0),
        (("100 isr=1,2",), "50 b1 e0@0", 50),
        # It was opened before the snapshot; the ISR changed in it after the reading.
        (("10 checkpoint isr=1,2 epoch=5", "100 isr=1"), "50 b1 e0@0 e5@80", 0),
        (("10 isr=1,2", "60 checkpoint leader=2", "100 isr=1"), "50 b1 e0@0 e1@80", 0),
        (("10 checkpoint isr=1,2 epoch=5", "100 isr=1 leader=2"), "50 b1 e0@0 e6@80", 50),
        # Or in ZooKeeper.
        (("100 isr=1,2 epoch=5",), "50 b1 e0@0 e5@80", 0),
    ],
)
def test_only_an_epoch_that_the_log_opens_shows_a_clock_error(
    history: tuple[str, ...], line: str, seconds: int
) -> None:
    found = least_clock_error_ms(states(*history), offsets_table(evidence(line)))
    assert found == max(0, ms(seconds) - UNCERTAINTY_MS)
