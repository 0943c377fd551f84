"""`make bench`: run each stage of the pipeline on named inputs, next to Kafka's own tool and classes on the same files.

Prints tables and writes a JSON file per run. Each figure is the median of the warm runs, with the minimum and maximum.
docs/benchmarks.md explains what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.measure import ROOT, in_own_process
from tests.bench.figures import GROWING, growth, with_figures
from tests.bench.inputs import NAMES, OFFSETS, RANDOM, SERVER_LOG, SNAPSHOT, Input, Maker
from tests.bench.peers import PEERS, peer
from tests.bench.spark_run import whole
from tests.bench.stages import STAGES
from tests.bench.table import tables

_MAIN = "p100k"
_FRAMED = ("read", "sha256", "crc", "frame", "decode")
_REPLAYED = ("sha256", "decode", "sort", "state", "reduce", "detect")
# The stages that are measured on each input, in this order.
PLAN = {
    _MAIN: (*PEERS, *_FRAMED, "sort", "state", "reduce", "scalar", "detect", "parquet", "write"),
    "gb": _FRAMED,
    "long": (*PEERS, *_REPLAYED),
    SNAPSHOT: (*PEERS, *_FRAMED),
    OFFSETS: ("read", "sha256", "offsets"),
    SERVER_LOG: ("read", "sha256", "logs"),
    RANDOM: ("copy", "policies", "scalar-policies"),
    "p10k": _REPLAYED,
    "p1m": _REPLAYED,
}
_DEFAULT = tuple(name for name in PLAN if name not in ("p10k", "p1m"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the tables and write the JSON file."""
    parser = _parser()
    options = parser.parse_args(arguments)
    names, stages = _chosen(parser, options)
    options.work.mkdir(parents=True, exist_ok=True)
    maker = Maker(options.work, options.kafka, options.seed, options.scale)
    machine = facts(options.kafka)
    inputs: dict[str, Input] = {}
    results: list[dict[str, Any]] = []
    try:
        for result in _results(options, maker, names, stages, inputs):
            results.append(result)
    finally:  # also report the results before a failure
        _report(options, machine, results, inputs)
    return 0


def _report(
    options: argparse.Namespace, machine: dict[str, Any], results: list[dict[str, Any]], inputs: dict[str, Input]
) -> None:
    figures = with_figures(results, inputs)
    grown = growth(figures, inputs)
    print("\n".join(tables(figures, inputs, grown)))
    sizes = {n: {"bytes": i.size_bytes, "records": i.records} for n, i in inputs.items() if n != RANDOM}
    given = {n: str(v) if isinstance(v, Path) else v for n, v in vars(options).items()}
    report = {"machine": machine, "options": given, "inputs": sizes, "results": figures, "growth": grown}
    file = options.work / f"results-{machine['measured_at'].replace(':', '')}.json"
    file.write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(f"\n{file}", file=sys.stderr)


def _results(
    options: argparse.Namespace, maker: Maker, names: Sequence[str], stages: Sequence[str], inputs: dict[str, Input]
) -> Iterator[dict[str, Any]]:
    """The results, each with the name of its input. Inputs are made, and put into `inputs`, one at a time."""
    made_of = options.work / "made"
    shutil.rmtree(made_of, ignore_errors=True)  # files that older code made from the same inputs
    for name in names:
        print(f"bench: {name}", file=sys.stderr)
        made = inputs[name] = maker.make(name)
        for stage in (s for s in PLAN[name] if s in stages):
            print(f"bench: {name}: {stage}", file=sys.stderr)
            if stage in PEERS:
                found = peer(stage, made, maker, options.runs)
            else:
                found = in_own_process("tests.bench.stages", stage, made.path, options.runs, made_of / name)
            yield {"input": name, **found}
        shutil.rmtree(made_of / name, ignore_errors=True)
        if name in _runs_on(options):
            print(f"bench: {name}: run", file=sys.stderr)
            yield from ({"input": name, **found} for found in whole(made.path, options.work, options.run_runs))


def _runs_on(options: argparse.Namespace) -> list[str]:
    """The inputs on which the whole `run` is measured."""
    if not options.run or not options.run_runs:
        return []
    return [_MAIN, *(["p10k"] if options.growth else []), *(["p1m"] if options.run_1m else [])]


def _chosen(parser: argparse.ArgumentParser, options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The inputs and stages to measure."""
    names = options.inputs.split(",") if options.inputs else [*_DEFAULT, *(GROWING if options.growth else ())]
    stages = options.stages.split(",") if options.stages else [*PEERS, *STAGES]
    for word in [*(n for n in names if n not in NAMES), *(s for s in stages if s not in (*PEERS, *STAGES))]:
        parser.error(f"{word!r} is neither an input ({', '.join(NAMES)}) nor a stage ({', '.join((*PEERS, *STAGES))})")
    return list(dict.fromkeys(names)), stages


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--kafka", type=Path, help="folder of Kafka's jars and the compiled Oracle (set by make bench)")
    parser.add_argument("--work", type=Path, default=ROOT / ".bench", help="folder for inputs and results")
    parser.add_argument("--inputs", help=f"comma-separated, from {', '.join(PLAN)} (default: {', '.join(_DEFAULT)})")
    parser.add_argument("--stages", help=f"comma-separated, from {', '.join((*PEERS, *STAGES))} (default: all)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each stage, the first of them cold (default: 5)")
    parser.add_argument("--run", action=argparse.BooleanOptionalAction, default=True, help=f"the whole job on {_MAIN}")
    parser.add_argument("--run-runs", type=int, default=1, help="number of runs of the whole job (default: 1)")
    parser.add_argument(
        "--growth", action="store_true", help=f"also {', '.join(GROWING)}: how time grows; the whole job also on p10k"
    )
    parser.add_argument("--run-1m", action="store_true", help="the whole job also on p1m")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="size of each input, e.g. 0.01 to try things out (default: 1)"
    )
    return parser


_PACKAGES = ("numpy", "pyarrow", "numba", "pyspark", "delta-spark")


def facts(kafka: Path | None) -> dict[str, Any]:
    """The time, the machine and the versions in use, as JSON. kafka: the folder of Kafka's jars."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "java": _java(),
        "kafka": kafka_version(kafka),
    }


def _java() -> str:
    output = subprocess.run(["java", "-version"], check=True, stderr=subprocess.PIPE, text=True).stderr
    return output.splitlines()[0]


def kafka_version(kafka: Path | None) -> str | None:
    """Kafka's version, from the name of the jar; None without jars."""
    names = [] if kafka is None else sorted(jar.name for jar in kafka.glob("kafka-clients-*.jar"))
    match = re.fullmatch(r"kafka-clients-(.+)\.jar", names[0]) if names else None
    return match[1] if match else None


if __name__ == "__main__":
    sys.exit(main())
