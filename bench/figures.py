"""Compute figures from results: medians of warm runs, rates, ratios to the floor and to the peers, growth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Any

from bench.inputs import Input
from bench.peers import PEERS
from bench.stages import STAGES

Result = dict[str, Any]
GROWING = ("p10k", "p100k", "p1m")


def warm(result: Mapping[str, Any]) -> list[float]:
    """The seconds of all runs but the first; of the first if there is no other."""
    seconds: list[float] = result["seconds"]
    return seconds[1:] or seconds


def with_figures(results: Sequence[Result], inputs: Mapping[str, Input]) -> list[Result]:
    """The results (each with its `input`) and their figures; null if there is nothing to compare with.

    of_floor: time as a multiple of the floor's, warm. of_peers: the share of each peer's time.
    """
    by_place = {(result["input"], result["stage"]): result for result in results}
    return [{**result, **_figures(result, by_place, inputs[result["input"]])} for result in results]


def _figures(result: Result, by_place: Mapping[tuple[str, str], Result], made: Input) -> Result:
    times, of_input, stage = warm(result), result["input"], result["stage"]
    middle = median(times)
    name = STAGES[stage].floor if stage in STAGES else None
    floor = by_place.get((of_input, name or ""))
    reads_bytes = made.records is not None and (stage in PEERS or (stage in STAGES and not STAGES[stage].replays))
    peers = {p: median(warm(by_place[of_input, p])) for p in PEERS if (of_input, p) in by_place and p != stage}
    return {
        "cold_s": result["seconds"][0],
        "median_s": middle,
        "min_s": min(times),
        "max_s": max(times),
        "rows_per_s": round(result["rows"] / middle) if result["rows"] and middle else None,
        "mb_per_s": round(made.size_bytes / 1e6 / middle, 1) if reads_bytes and middle else None,
        "floor": floor["stage"] if floor else None,
        "of_floor": round(middle / median(warm(floor)), 2) if floor and median(warm(floor)) else None,
        "of_peers": {p: middle / seconds for p, seconds in peers.items()},
    }


def growth(figures: Sequence[Result], inputs: Mapping[str, Input]) -> list[Result]:
    """For each stage and pair of sizes it was measured on: the exponent by which its time grows with the number of
    records."""
    found = []
    for stage in dict.fromkeys(result["stage"] for result in figures):
        sizes = {r["input"]: r for r in figures if r["stage"] == stage and r["input"] in GROWING}
        for small, large in combinations([name for name in GROWING if name in sizes], 2):
            records = inputs[large].records or 0, inputs[small].records or 0
            times = sizes[large]["median_s"], sizes[small]["median_s"]
            exponent = math.log(times[0] / times[1]) / math.log(records[0] / records[1])
            peaks = {"peak_mib": [sizes[small]["peak_mib"], sizes[large]["peak_mib"]]}
            found.append({"stage": stage, "from": small, "to": large, "exponent": round(exponent, 2), **peaks})
    return found
