"""Format results as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.bench.inputs import RANDOM, Input
from tests.bench.peers import PEERS

Result = dict[str, Any]


def tables(figures: Sequence[Result], inputs: Mapping[str, Input], grown: Sequence[Result]) -> list[str]:
    """All printed tables: inputs, stages, growth."""
    lines = [*_inputs(inputs.values()), "", *_stages(figures)]
    return [*lines, "", *_growth(grown)] if grown else lines


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


def _growth(grown: Iterable[Result]) -> list[str]:
    columns = ("stage", "from", "to", "exponent of time by records", "peak MiB from", "to")
    return markdown(columns, ((g["stage"], g["from"], g["to"], g["exponent"], *g["peak_mib"]) for g in grown))
