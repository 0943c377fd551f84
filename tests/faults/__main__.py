"""Try every fault, and write docs/faults.csv and its sums in docs/reliability.md (`make test-faults`)."""

import argparse


def main() -> int:
    from tests.faults.matrix import run

    options = argparse.ArgumentParser(prog="tests.faults", description=__doc__)
    options.add_argument("--moments", type=int, default=200, help="kills at random moments")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--rows", default="", help="only rows with this text in `fault | where`; the others stay")
    options.add_argument("--resume", action="store_true", help="leave out rows that the record gives for this commit")
    given = options.parse_args()
    return run(given.moments, given.seed, given.rows, given.resume)


# Every process that is forked reads this module: it imports nothing else before it is called.
if __name__ == "__main__":
    raise SystemExit(main())
