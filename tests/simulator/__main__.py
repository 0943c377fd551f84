"""Judge simulated lives, compare with the truth, and make every wrong claim small:

python -m tests.simulator --lives 100000 --seed 1 --processes 2

Exits 1 if a claim was wrong. The first few of every fault and kind are written to .simulated/<fault>-<seed>/.
"""

import argparse
import gc
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.simulator.faults import FAULTS, life
from tests.simulator.judge import SILENT, Tally, Wrong, report
from tests.simulator.runs import chunks, run
from tests.simulator.shrink import claim, shrunken, write_case


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--lives", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", choices=list(FAULTS), help="only this class of fault")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cases", type=int, default=1, help="of every fault and kind, so many are made small")
    parser.add_argument("--silent", action="store_true", help="make silent losses small, too")
    parser.add_argument("--out", type=Path, default=Path(".simulated"))
    options = parser.parse_args()
    started = time.monotonic()
    tallies = {fault: Tally() for fault in options.fault or FAULTS}
    todo = list(chunks(list(tallies), options.seed, options.lives))
    with ProcessPoolExecutor(options.processes, multiprocessing.get_context("spawn"), gc.freeze) as pool:
        for (fault, _, _), tally in zip(todo, pool.map(run, todo), strict=True):
            tallies[fault].add(tally)
    print(report(tallies))
    print(f"{time.monotonic() - started:.0f} s")
    wrong = [w for tally in tallies.values() for w in tally.wrong]
    written = wrong + [w for tally in tallies.values() for w in tally.silent_ones if options.silent]
    for each in worth_writing(written, options.cases):
        write(each, options.out)
    return 1 if wrong else 0


def worth_writing(wrong: list[Wrong], most: int) -> Iterator[Wrong]:
    """The first of every fault and kind."""
    seen: Counter[tuple[str, str]] = Counter()
    for each in wrong:
        seen[each.fault, each.kind] += 1
        if seen[each.fault, each.kind] <= most:
            yield each


def write(wrong: Wrong, out: Path) -> None:
    each = life(wrong.fault, wrong.seed)
    if claim(each, wrong.kind) is None:
        # A claim that another life of the same cluster had a part in: a fault of the product or of `together`.
        print(f"{wrong.fault}, seed {wrong.seed}: {wrong.kind} only beside other lives ({wrong.text})")
        return
    kind = "" if wrong.kind == SILENT else f"-{wrong.kind.removeprefix('wrong ')}"
    name = f"{wrong.fault.replace(' ', '-')}-{wrong.seed}{kind}".replace(" ", "-")
    small = shrunken(each, wrong.kind)
    write_case(out / name, small, wrong.kind)
    print(f"{out / name}: {claim(small, wrong.kind)}")


if __name__ == "__main__":
    sys.exit(main())
