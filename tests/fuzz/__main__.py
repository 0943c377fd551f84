"""The mutation loop: read damaged files until the count is reached; stop at nothing but report everything.

    python -m tests.fuzz --files 100000 --seed 7 --workers 2
    python -m tests.fuzz --seed 7 --only 4711            # the same file again, with its traceback

For every file: no exception but the errors that name what is wrong, no more than TIMEOUT_S seconds, no more than
MEMORY_BYTES of address space, parsed + quarantined + trailing bytes = its length, and the same rows from the compiled
decoder as from the reference. tests/fuzz/guided.py is the same with files that coverage chooses.
"""

import argparse
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType

from tests.fuzz import corpus
from tests.fuzz.mutate import damage, with_good_crcs
from tests.fuzz.reading import read

TIMEOUT_S = 20
MEMORY_BYTES = 3 << 30


@dataclass
class Tally:
    """What was seen. outcomes: by kind of file and what became of it. failures: (number, what)."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)


class HangError(Exception):
    """A file took longer than TIMEOUT_S."""


seeds = cache(corpus.build)


def damaged(seed: int, number: int) -> corpus.Seed:
    """File `number` of a run: always the same for the same seed."""
    random = Random(f"{seed}/{number}")
    chosen, other = random.choice(seeds()), random.choice(seeds())
    data = damage(chosen.data, other.data, random)
    # Behind a wrong CRC no record is read: every second file has right ones, if it is a log.
    return corpus.Seed(chosen.name, with_good_crcs(data) if number % 2 else data)


def work(seed: int, numbers: range) -> Tally:
    """Read the numbered files, one after another."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _hang)
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        _load_compiled_loops(folder)
        for number in numbers:
            given = damaged(seed, number)
            signal.alarm(TIMEOUT_S)
            try:
                tally.outcomes[read(given, Path(folder) / "capture")] += 1
            except Exception:  # noqa: BLE001 - whatever it is, it is what this loop is for
                tally.failures.append((number, f"{given.name}: {traceback.format_exc()}"))
            signal.alarm(0)
    return tally


@cache
def _load_compiled_loops(folder: str) -> None:
    """Once for each process, and not within the time of a file."""
    read(corpus.every_record(), Path(folder) / "first")


def _hang(_: int, __: FrameType | None) -> None:
    raise HangError


def main() -> int:
    """Run the loop; 1 if any file failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int, help="read just this one of the run's files")
    given = parser.parse_args()
    if given.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(read(damaged(given.seed, given.only), Path(folder) / "capture"))
        return 0
    begin, total, step = time.perf_counter(), Tally(), 500
    chunks = [range(at, min(at + step, given.files)) for at in range(0, given.files, step)]
    with ProcessPoolExecutor(given.workers) as pool:
        for done, tally in enumerate(pool.map(work, [given.seed] * len(chunks), chunks), 1):
            total.outcomes += tally.outcomes
            total.failures += tally.failures
            if done % 20 == 0:
                print(f"{done * step} files, {len(total.failures)} failed", file=sys.stderr, flush=True)
    taken = time.perf_counter() - begin
    print(f"{given.files} damaged files, seed {given.seed}, in {taken:.0f} s with {given.workers} workers")
    for at, name in enumerate(("kinds", "outcomes")):
        counts: Counter[str] = Counter()
        for pair, count in total.outcomes.items():
            counts[pair[at]] += count
        print(f"{name}: " + ", ".join(f"{n} {c}" for n, c in counts.most_common()))
    print(f"failures: {len(total.failures)}")
    for number, what in total.failures[:20]:
        print(f"--only {number}: {what}")
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
