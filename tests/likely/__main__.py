"""How often each rule of replay/loss/likely.py was right, in simulated lives and in the folders of drills:

python -m tests.likely --lives 20000 --out replay/loss/likely_record.py drills/random-*

Without --out it measures the rules and what the kept record says of these windows.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.likely.record import DRILLS, LIVES, Case, cases_of_drill, cases_of_lives, module, record_of, report
from tests.simulator.faults import FAULTS
from tests.simulator.runs import chunks
from tests.support.detection import spread


def cases(lives: int, seed: int, drills: Iterable[Path]) -> dict[str, list[Case]]:
    todo = list(chunks(list(FAULTS), seed, lives)) if lives else []
    return {
        DRILLS: [case for folder in drills for case in cases_of_drill(folder)],
        LIVES: [case for part in spread(cases_of_lives, todo) for case in part],
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.likely", description=__doc__)
    parser.add_argument("drills", nargs="*", type=Path, help="folders of drills")
    parser.add_argument("--lives", type=int, default=0)
    parser.add_argument("--seed", type=int, default=7, help="number of the range of seeds of the lives")
    parser.add_argument("--out", type=Path, help="write the record there")
    options = parser.parse_args()
    found = cases(options.lives, options.seed, options.drills)
    print(report(found))
    if options.out is not None:
        options.out.write_text(module(record_of(found)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
