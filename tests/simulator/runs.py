"""Many lives, in parts that processes can take on."""

import gc
from collections.abc import Iterator

from tests.simulator.faults import PLACES, SHARED, life
from tests.simulator.judge import Tally, judged


def run(chunk: tuple[str, int, int]) -> Tally:
    """(fault, first seed, number of lives)."""
    fault, first, count = chunk
    gc.disable()
    tally = judged(life(fault, seed) for seed in range(first, first + count))
    gc.enable()
    gc.collect()
    return tally


def chunks(faults: list[str], seed: int, lives: int) -> Iterator[tuple[str, int, int]]:
    """The lives, spread evenly over the faults; `seed` is the number of a range of seeds of its own."""
    each = -(-lives // len(faults))
    # Ranges begin where a shared cluster does.
    first = seed * 10_000_000 // SHARED * SHARED
    for begin in range(0, each, PLACES):
        for fault in faults:
            yield fault, first + begin, min(PLACES, each - begin)
