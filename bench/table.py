"""Format results as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.inputs import RANDOM, Input
from bench.peers import PEERS

Result = dict[str, Any]
_MIN_LISTED_S = 0.05  # faster messages are left out of the table; the JSON has them


def tables(figures: Sequence[Result], inputs: Mapping[str, Input], grown: Sequence[Result]) -> list[str]:
    """All printed tables: inputs, stages, the messages and memory of `run`, growth."""
    lines = [*_inputs(inputs.values()), "", *_stages(figures)]
    for result in (r for r in figures if "runs" in r):
        lines += ["", f"{result['input']}: `{result['stage']}`, its last time", "", *_run(result["runs"][-1])]
    if grown:
        lines += ["", *_growth(grown)]
    return lines


def markdown(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A table; None gives an empty cell."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join("" if c is None else str(c) for c in row) + " |" for row in rows]


def _inputs(inputs: Iterable[Input]) -> list[str]:
    made = [each for each in inputs if each.name != RANDOM]
    rows = ((i.name, f"{i.size_bytes / 1e6:,.1f}", "?" if i.records is None else f"{i.records:,}") for i in made)
    return markdown(("input", "MB", "records or values"), rows)


def _stages(figures: Iterable[Result]) -> list[str]:
    columns = ("input", "stage", "cold s", "warm s: median (min to max)", "rows/s", "MB/s", "peak MiB", "of its floor")
    return markdown((*columns, *(f"of {peer}" for peer in PEERS)), map(_stage, figures))


def _stage(result: Result) -> list[Any]:
    spread = f"{result['median_s']:.3f} ({result['min_s']:.3f} to {result['max_s']:.3f})"
    rate = None if result["rows_per_s"] is None else f"{result['rows_per_s']:,}"
    floor = None if result["of_floor"] is None else f"{result['of_floor']:.1f}x {result['floor']}"
    row = [result["input"], result["stage"], f"{result['cold_s']:.3f}", spread, rate, result["mb_per_s"]]
    return [*row, result["peak_mib"], floor, *(_share(result["of_peers"].get(peer)) for peer in PEERS)]


def _share(share: float | None) -> str | None:
    if share is None:
        return None
    return f"{share:.2f}x its time" if share > 0.1 else f"1/{1 / share:.0f} of its time"


def _run(run: Result) -> list[str]:
    messages = [(m["message"], f"{m['seconds']:.1f}") for m in run["messages"] if m["seconds"] >= _MIN_LISTED_S]
    roles = {"driver": "driver (Python)", "jvm": "JVM", "worker": "largest Python worker", "workers": "all workers"}
    peaks = [(name, run["peak_mib"][role]) for role, name in {**roles, "all": "everything at once"}.items()]
    return [
        *markdown(("message", "s until the next"), messages),
        "",
        *markdown(("peak memory", f"{run['memory']} MiB"), peaks),
    ]


def _growth(grown: Iterable[Result]) -> list[str]:
    columns = ("stage", "from", "to", "exponent of time by records", "peak MiB from", "to")
    return markdown(columns, ((g["stage"], g["from"], g["to"], g["exponent"], *g["peak_mib"]) for g in grown))
