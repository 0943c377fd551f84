"""What the sources of the current folder get wrong, and which windows of the captures they decide:

python -m tests.mutants.trial --lives 2000 --after 1000

Prints JSON: `wrong`, the first wrong claim that is not known (with --all: every one), and `decided`, the windows.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import replay
from replay.bucket import detect
from tests.simulator.faults import FAULTS, SHARED, life
from tests.simulator.judge import judged
from tests.simulator.life import Life, from_json
from tests.support.detection import cluster_of, events_of, windows, with_topic_ids
from tests.support.pure import decode, history_of
from tests.unit.test_oracle import LOST, LOST_WITH_LOGS

Row = dict[str, Any]
TRUTH = {**LOST, **LOST_WITH_LOGS}


def of_capture(path: Path) -> list[Row]:
    """The judged windows of a capture, with all of its evidence."""
    decoded = decode(path)
    history, state = history_of(decoded)
    table = history.table
    cluster, events = cluster_of(decoded, state, 0, table), events_of(decoded, state, table)
    return windows(detect(table, with_topic_ids(decoded.offsets, table), cluster, events=events).findings)


def is_wrong(name: str, window: Row) -> bool:
    """Whether more is proven than was lost there, as measured."""
    lost, _ = TRUTH.get(name, {}).get((window["topic"], window["partition"]), (0, None))
    return name in TRUTH and window["verdict"] == "proven" and window["loss_min"] > lost


def cases() -> dict[str, Life]:
    return {
        path.parent.name: from_json(json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(Path("tests/cases").glob("life_*/life.json"))
    }


def wrong_cases() -> Iterator[str]:
    for name, case in cases().items():
        if judged([case]).wrong:
            yield f"`{name}`"


def wrong_lives(lives: int, after: int = 0) -> Iterator[str]:
    """The lives of all kinds of fault in turn. after: how many were tried before, and are left out."""
    begin, end = after // len(FAULTS), -(-(after + lives) // len(FAULTS))
    for first in range(begin, end, SHARED):
        for fault in FAULTS:
            tally = judged(life(fault, seed) for seed in range(first, min(first + SHARED, end)))
            yield from (f"{w.fault}, seed {w.seed}: {w.kind}" for w in tally.wrong)


def trial(lives: int, after: int, known: Sequence[str], most: int | None) -> dict[str, Any]:
    archives = [*Path("tests/captures").glob("*.tar.xz"), *Path("examples").glob("*.tar.xz")]
    found = {path.name.removesuffix(".tar.xz"): of_capture(path) for path in sorted(archives)}
    captures = (f"capture {name}" for name, own in found.items() if any(is_wrong(name, window) for window in own))
    wrong = (claim for claim in chain(captures, wrong_cases(), wrong_lives(lives, after)) if claim not in known)
    decided = [
        [name, window["topic"], window["partition"], window["election_offset"]]
        for name, own in found.items()
        for window in own
        if window["verdict"] in ("proven", "excluded")
    ]
    return {"wrong": list(islice(wrong, most)), "decided": decided}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.trial", description=__doc__)
    parser.add_argument("--lives", type=int, required=True)
    parser.add_argument("--after", type=int, default=0, help="leave out as many lives, which were tried before")
    parser.add_argument("--known", action="append", default=[], help="a claim that is wrong anyway")
    parser.add_argument("--all", action="store_true", help="do not stop at the first wrong claim")
    options = parser.parse_args()
    if not Path(replay.__file__).is_relative_to(Path.cwd()):
        parser.error(f"{replay.__file__} is not of this folder")
    print(json.dumps(trial(options.lives, options.after, options.known, None if options.all else 1)))


if __name__ == "__main__":
    main()
