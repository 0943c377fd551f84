"""Compute figures from results: medians of warm runs, rates, ratios to the floor and to the peers, growth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median

from bench.measure import Result, figures, warm
from tests.bench.inputs import Input
from tests.bench.peers import PEERS
from tests.bench.stages import STAGES

GROWING = ("p10k", "p100k", "p1m")


def with_figures(results: Sequence[Result], inputs: Mapping[str, Input]) -> list[Result]:
    """The results (each with its `input`) and their figures; null if there is nothing to compare with.

    of_floor: time as a multiple of the floor's, warm. of_peers: the share of each peer's time.
    """
    by_place = {(result["input"], result["stage"]): result for result in results}
    return [{**result, **_figures(result, by_place, inputs[result["input"]])} for result in results]


def _figures(result: Result, by_place: Mapping[tuple[str, str], Result], made: Input) -> Result:
    of_input, name = result["input"], result["stage"]
    stage = STAGES.get(name)
    floor = by_place.get((of_input, (stage and stage.floor) or ""))
    reads_bytes = made.records is not None and (name in PEERS or (stage is not None and not stage.replays))
    found = figures(result, floor, made.size_bytes if reads_bytes else None)
    peers = {p: median(warm(by_place[of_input, p])) for p in PEERS if (of_input, p) in by_place and p != name}
    return found | {"of_peers": {p: found["median_s"] / seconds for p, seconds in peers.items()}}


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
