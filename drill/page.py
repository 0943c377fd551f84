"""The page of a drill: drill.md.j2."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment

from drill.scenario import DrillScenario
from drill.score import DECIDED

_TEMPLATE = Path(__file__).with_name("drill.md.j2")


def page(result: Mapping[str, Any], scenario: DrillScenario) -> str:
    """One drill as Markdown. result: what drill.run.play_and_score returns."""
    environment = Environment(trim_blocks=True, keep_trailing_newline=True, finalize=lambda v: "" if v is None else v)
    environment.filters["clock"] = lambda at_ms: f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"
    environment.filters["counts"] = lambda counts: ", ".join(f"{name}: {count}" for name, count in counts.items())
    environment.filters["decided"] = _decided
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(result=result, scenario=scenario)


def _decided(verdicts: Mapping[str, int]) -> str:
    whole = sum(verdicts.values())
    return f"{100 * sum(verdicts.get(name, 0) for name in DECIDED) / whole:.0f} %" if whole else "-"
