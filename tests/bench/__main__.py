"""`make bench`: run each stage of the pipeline on named inputs, next to Kafka's own tool and classes on the same files.

Prints a table and writes a JSON file per run. Each figure is the median of the warm runs, with the minimum and maximum.
docs/benchmarks.md explains what is measured.
"""

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import combinations
from math import log
from pathlib import Path

from bench.measure import ROOT, Result, figures, in_own_process
from tests.bench.inputs import OFFSETS, PEERS, RANDOM, SERVER_LOG, SNAPSHOT, Input, Maker, peer
from tests.bench.spark_run import whole
from tests.bench.stages import STAGES

_MAIN, GROWING = "p100k", ("p10k", "p100k", "p1m")
_FRAMED = ("read", "sha256", "crc", "frame", "decode")
_REPLAYED = ("sha256", "decode", "sort", "state", "reduce", "detect")
# The stages that are measured on each input, in this order.
PLAN = {
    _MAIN: (*PEERS, *_FRAMED, "sort", "state", "reduce", "detect", "parquet", "write"),
    "gb": _FRAMED,
    "long": (*PEERS, *_REPLAYED),
    SNAPSHOT: (*PEERS, *_FRAMED),
    OFFSETS: ("read", "sha256", "offsets"),
    SERVER_LOG: ("read", "sha256", "logs"),
    RANDOM: ("copy", "policies"),
    "p10k": _REPLAYED,
    "p1m": _REPLAYED,
}
COLUMNS = ("input", "stage", "cold_s", "median_s", "min_s", "max_s", "rows_per_s", "mb_per_s", "peak_mib", "of_floor")
_PACKAGES = ("numpy", "pyarrow", "numba", "pyspark", "delta-spark")


def main() -> None:
    """Measure, print the table and write the JSON file, also of the results before a failure."""
    options = _parser().parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    machine = {"measured_at": at, "platform": platform.platform(), "cpus": os.cpu_count()}
    machine |= {"python": platform.python_version(), **{package: version(package) for package in _PACKAGES}}
    results: list[Result] = []
    try:
        for result in _results(options):
            results.append(result)
    finally:
        grown = growth(results)
        print("\n".join([*table(COLUMNS, results), "", *table(("stage", "from", "to", "exponent"), grown)]))
        file = options.work / f"results-{at.replace(':', '')}.json"
        report = {"machine": machine, "options": vars(options), "results": results, "growth": grown}
        file.write_text(json.dumps(report, indent=1, default=str), encoding="utf-8")
        print(f"\n{file}", file=sys.stderr)


def _results(options: argparse.Namespace) -> Iterator[Result]:
    """The results with their figures. Inputs are made one at a time."""
    maker, made_of = Maker(options.work, options.kafka, options.seed, options.scale), options.work / "made"
    shutil.rmtree(made_of, ignore_errors=True)  # files that older code made from the same inputs
    for name in options.inputs or (name for name in PLAN if options.growth or name not in ("p10k", "p1m")):
        made, done = maker.make(name), dict[str, Result]()
        for stage in (s for s in PLAN[name] if s in (options.stages or PLAN[name])):
            print(f"bench: {name}: {stage}", file=sys.stderr)
            if stage in PEERS:
                found = peer(stage, made, maker, options.runs)
            else:
                found = in_own_process("tests.bench.stages", stage, made.path, options.runs, made_of / name)
            done[stage] = with_figures(found, made, done)
            yield done[stage]
        shutil.rmtree(made_of / name, ignore_errors=True)
        if options.run_runs and (name == _MAIN or (options.growth and name in GROWING)):
            print(f"bench: {name}: run", file=sys.stderr)
            found_all = whole(made.path, options.work, options.run_runs)
            yield from (with_figures(found, made, {}) for found in found_all)


def with_figures(result: Result, made: Input, before: Mapping[str, Result]) -> Result:
    """A result with its input and figures. before: results on the same input, by stage, the floor's among them."""
    stage = STAGES.get(result["stage"])
    reads = made.records is not None and (result["stage"] in PEERS or (stage is not None and not stage.replays))
    found = figures(result, before.get((stage and stage.floor) or ""), made.size_bytes if reads else None)
    return {"input": made.name, "records": made.records, **result, **found}


def growth(results: Sequence[Result]) -> list[Result]:
    """For each stage and pair of sizes it was measured on: the exponent by which its time grows with the number of
    records."""
    found = []
    for small, large in combinations((r for name in GROWING for r in results if r["input"] == name), 2):
        if small["stage"] == large["stage"]:
            exponent = log(large["median_s"] / small["median_s"]) / log(large["records"] / small["records"])
            sizes = {"stage": small["stage"], "from": small["input"], "to": large["input"]}
            found.append({**sizes, "exponent": round(exponent, 2)})
    return found


def table(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> list[str]:
    """A table in Markdown; None gives an empty cell."""
    cells = [[_cell(row[name]) for name in columns] for row in rows]
    return [f"| {' | '.join(line)} |" for line in (columns, ["---"] * len(columns), *cells)]


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--kafka", type=Path, help="folder of Kafka's jars and the compiled Oracle (set by make bench)")
    parser.add_argument("--work", type=Path, default=ROOT / ".bench", help="folder for inputs and results")
    parser.add_argument("--inputs", nargs="+", choices=PLAN, help="default: all but p10k and p1m")
    parser.add_argument("--stages", nargs="+", choices=(*PEERS, *STAGES), help="default: all")
    parser.add_argument("--runs", type=int, default=5, help="runs of each stage, the first of them cold (default: 5)")
    parser.add_argument("--run-runs", type=int, default=1, help=f"runs of the whole job on {_MAIN} (default: 1)")
    parser.add_argument("--growth", action="store_true", help="also p10k and p1m, the whole job on both, too")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="size of each input, e.g. 0.01 to try things out")
    return parser


if __name__ == "__main__":
    main()
