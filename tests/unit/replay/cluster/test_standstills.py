"""When the active controller stood still, by the no-op records that it did not write."""

from __future__ import annotations

import pytest

from replay.cluster.facts import Clock, cluster_facts
from replay.cluster.state import log_shape, resolve_cluster
from tests.support.records import batch

NO_OPS = [500 * number for number in range(30)]
LAST = NO_OPS[-1]


@pytest.mark.parametrize(
    ("times", "epochs", "stood"),
    [
        # The session timeout is 9 s: it is heard of, and fences, 4.4 s late at most.
        ([*NO_OPS, LAST + 20_000, LAST + 20_500], [], [(LAST, LAST + 20_000)]),
        ([*NO_OPS, LAST + 4_000], [], []),
        ([*NO_OPS[:3], 60_000], [], [(NO_OPS[2], 60_000)]),
        # A controller that writes no no-op records may have had nothing to write, or have stood still.
        ([0, 10_000, 20_000], [], [(0, 10_000), (10_000, 20_000)]),
        # Another one took over.
        ([*NO_OPS, *(LAST + 1_000 + at for at in NO_OPS)], [1] * 30 + [2] * 30, [(LAST, LAST + 1_000)]),
    ],
)
def test_a_controller_that_wrote_nothing_for_long_stood_still(
    times: list[int], epochs: list[int], stood: list[tuple[int, int]]
) -> None:
    epochs = epochs or [1] * len(times)
    batches = [
        {**batch(number, number, epoch), "base_timestamp_ms": at}
        for number, (at, epoch) in enumerate(zip(times, epochs, strict=True))
    ]
    state = resolve_cluster(log_shape(batches, []), [], [], {})
    assert cluster_facts("c", state, Clock(), None, {}).fail_overs == stood
