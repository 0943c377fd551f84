"""`python -m docs_site.growth docs/growth.csv docs/growth.svg`: curves of what `python -m tests.bench.nights` printed.
Runs in the environment of the documentation."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import matplotlib
from matplotlib import pyplot

_PANELS = (
    ("rows of all tables, in thousands", "rows", 1_000, None),
    ("bytes of all tables, in MB", "bytes", 1_000_000, None),
    ("memory of a run, in MiB", "mib", 1, "run"),
    ("a run of all stages, in s", "seconds", 1, "run"),
)


def draw(source: Path, target: Path) -> None:
    """source: lines as tests.bench.nights prints them; target: an SVG."""
    with source.open(encoding="utf-8") as lines:
        nights = list(csv.DictReader(lines))
    matplotlib.rcParams["svg.hashsalt"] = source.name  # the same bytes each time
    figure, places = pyplot.subplots(2, 2, figsize=(9, 5), sharex=True, layout="constrained")
    for place, (title, name, unit, command) in zip(places.flat, _PANELS, strict=True):
        shown = [night for night in nights if command in (None, night["command"])]
        values = [float(night[name]) / unit for night in shown]
        place.plot([int(night["night"]) for night in shown], values, color="#2b6cb0", linewidth=1.2)
        place.set_title(title, fontsize=10)
        place.set_ylim(bottom=0)
        place.grid(alpha=0.3)
    for place in places[-1]:
        place.set_xlabel("night")
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
