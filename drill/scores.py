"""Files of scores: a line for each drill, so that the drills of many nights are summed up in one table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
Key = tuple[str, str, int]  # scenario, release, seed
RESULTS = "results.jsonl"
# What a drill's own folder has, and the table does not need.
_LONG = ("journal", "windows")


def append(scores: Path, result: Mapping[str, Any]) -> None:
    """Add a drill's line. result: what drill.run.play_and_score returns."""
    kept = {name: value for name, value in result.items() if name not in _LONG}
    if "watch" in kept:
        kept["watch"] = {name: value for name, value in kept["watch"].items() if name != "told"}
    with scores.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(kept) + "\n")


def read_scores(scores: Path) -> Sequence[Row]:
    """The lines of such a file; none if it is missing. Of a scenario, release and seed the last one counts."""
    if not scores.exists():
        return []
    rows = [json.loads(line) for line in scores.read_text(encoding="utf-8").splitlines() if line.strip()]
    return list({key_of(row): row for row in rows}.values())


def key_of(row: Mapping[str, Any]) -> Key:
    return row["scenario"], row["release"], row["seed"]
