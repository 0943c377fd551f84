"""`make bench`: the pipeline's stages on one large log, beside Kafka's own tool on the same file in the same minutes.

Prints a table and writes JSON. Every figure is the median of the runs, with the smallest and largest beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.stages import STAGES

ROOT = Path(__file__).resolve().parents[1]
# Each stage's floor: a simpler thing that has to be done at least, measured in the same run.
FLOORS = {"frame": "sha256", "decode": "sha256", "reduce": "sort", "write": "parquet", "policies": "copy"}
# Stages that do not work on the log: no share of Kafka's tool's time.
OFF_THE_LOG = ("policies", "copy", "scalar-policies")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    log = options.log or _made(options)
    results = [_peer(options, log)] if options.kafka else []
    results += [_stage(name, log, options) for name in options.stages.split(",")]
    if options.run:
        results += _whole(log, options)
    lines = _table(results, log)
    print("\n".join(lines))
    report = {"log": {"bytes": log.stat().st_size, "name": log.name}, "cpus": os.cpu_count(), "results": results}
    (options.work / "results.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(f"\n{options.work / 'results.json'}", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--kafka", type=Path, help="folder of Kafka's jars and the compiled Oracle (make kafka)")
    parser.add_argument("--log", type=Path, help="a metadata segment; made by Oracle big where it is not given")
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5, help="runs of each stage, the first of them cold")
    parser.add_argument("--stages", default=",".join(STAGES), help="comma-separated")
    parser.add_argument("--run", action=argparse.BooleanOptionalAction, default=True, help="also the whole `run`")
    parser.add_argument("--work", type=Path, default=ROOT / ".bench")
    return parser


def _java(options: argparse.Namespace, *arguments: str) -> list[str]:
    path = f"{options.kafka}{os.pathsep}{options.kafka}/*{os.pathsep}{options.kafka}/libs/*"
    return ["java", "-Xmx2g", "-cp", path, *arguments]


def _made(options: argparse.Namespace) -> Path:
    """The log that Kafka's classes write for these numbers; made once."""
    shape = f"{options.partitions}-{options.changes}-{options.seed}"
    log: Path = options.work / f"big-{shape}.log"
    if not log.exists():
        made = log.with_suffix(".part")
        numbers = shape.split("-")
        subprocess.run(_java(options, "Oracle", "big", str(made), *numbers), check=True, stdout=sys.stderr)
        made.rename(log)
    return log


def _timed(command: Sequence[str], **more: Any) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, **more)
    return time.perf_counter() - begin


def _peer(options: argparse.Namespace, log: Path) -> dict[str, Any]:
    """kafka-dump-log printing the log to a file; it has to be named like a segment."""
    segment = options.work / "segment" / "00000000000000000000.log"
    segment.parent.mkdir(exist_ok=True)
    if not segment.exists() or not segment.samefile(log):
        segment.unlink(missing_ok=True)
        os.link(log, segment)
    tool = ("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(segment))
    seconds = []
    for _ in range(options.runs):
        with (options.work / "dump.txt").open("w") as out:
            seconds.append(_timed(_java(options, *tool), stdout=out, stderr=subprocess.DEVNULL))
    with (options.work / "dump.txt").open("rb") as text:
        rows = sum(line.startswith(b"| offset") for line in text)
    return {"stage": "kafka-dump-log", "seconds": seconds, "rows": rows, "peak_mib": None}


def _stage(name: str, log: Path, options: argparse.Namespace) -> dict[str, Any]:
    print(f"bench: {name}", file=sys.stderr)
    command = [sys.executable, "-m", "bench.stages", name, str(log), str(options.runs), str(options.work)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def _whole(log: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The main job on the log as a user starts it, and the same again."""
    print("bench: run", file=sys.stderr)
    lake = options.work / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    command = [str(Path(sys.executable).with_name("kraft-forensics")), "run", str(log), "--lake", str(lake)]
    found = []
    for name in ("run", "run again"):
        seconds = [_timed(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        found.append({"stage": name, "seconds": seconds, "rows": 0, "peak_mib": None})
    return found


def _table(results: list[dict[str, Any]], log: Path) -> list[str]:
    """Markdown: a row a stage."""
    by_name = {r["stage"]: r for r in results}
    peer = by_name.get("kafka-dump-log")
    lines = [
        f"{log.name}: {log.stat().st_size / 1e6:.1f} MB, {os.cpu_count()} CPUs",
        "",
        "| stage | cold s | warm s: median (min to max) | rows/s warm | peak MiB | of its floor | of kafka-dump-log |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        seconds = result["seconds"]
        warm = seconds[1:] or seconds
        rate = f"{result['rows'] / median(warm):,.0f}" if result["rows"] else ""
        floor = by_name.get(FLOORS.get(result["stage"], ""))
        of_floor = f"{median(warm) / median(floor['seconds'][1:]):.1f}x {floor['stage']}" if floor else ""
        of_peer = ""
        if peer and peer is not result and result["stage"] not in OFF_THE_LOG:
            share = median(warm) / median(peer["seconds"])
            of_peer = f"{share:.2f}x its time" if share > 0.1 else f"1/{1 / share:.0f} of its time"
        spread = f"{median(warm):.3f} ({min(warm):.3f} to {max(warm):.3f})"
        cells = (result["stage"], f"{seconds[0]:.3f}", spread, rate, result["peak_mib"] or "", of_floor, of_peer)
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
