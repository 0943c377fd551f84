"""Many lives, in parts that processes can take on."""

from collections.abc import Iterator

from tests.simulator.faults import SHARED, life
from tests.simulator.judge import Tally, judged

# One process judges so many lives at once: several clusters' worth.
CHUNK = 4 * SHARED


def run(chunk: tuple[str, int, int]) -> Tally:
    """(fault, first seed, number of lives)."""
    fault, first, count = chunk
    tally = Tally()
    for begin in range(first, first + count, SHARED):
        tally.add(judged(life(fault, seed) for seed in range(begin, min(begin + SHARED, first + count))))
    return tally


def chunks(faults: list[str], seed: int, lives: int) -> Iterator[tuple[str, int, int]]:
    """The lives, spread evenly over the faults; `seed` is the number of a range of seeds of its own."""
    each = -(-lives // len(faults))
    # Ranges begin where a shared cluster does.
    first = seed * 10_000_000 // SHARED * SHARED
    for begin in range(0, each, CHUNK):
        for fault in faults:
            yield fault, first + begin, min(CHUNK, each - begin)
