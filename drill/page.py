"""Pages about drills: one of each drill (drill.md.j2), and the tables of all releases for docs/drill.md, each of them a
SQL file in drill/tables/."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import duckdb
from jinja2 import Environment

from drill.errors import DrillError
from drill.scenario import Scenario
from drill.score import DECIDED

Results = Sequence[Mapping[str, Any]]
_HERE = Path(__file__).parent
# The tables in their order, and the heading of each.
_HEADINGS = {
    "releases": "",
    "evidence": "",
    "scenarios": "",
    "quiet": "",
    "commits": "",
    "plans": "### Plans followed\n\n",
    "ahead": "### Steps predicted with `ahead`\n\n",
    "watch": "### Drills under `watch`\n\n",
    "salvage": "### Records got back\n\n",
}
_NAMES_ZEROS = ("releases", "scenarios", "plans")  # those that say below which of their columns are 0 in every row
_BEGIN, _END = "<!-- drills: made by `kraft-forensics drill --page`", "<!-- end of drills -->"


def page(result: Mapping[str, Any], scenario: Scenario) -> str:
    """One drill as Markdown. result: what drill.run.play_and_score returns."""
    environment = Environment(trim_blocks=True, keep_trailing_newline=True, finalize=lambda v: "" if v is None else v)
    environment.filters["clock"] = lambda at_ms: f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"
    environment.filters["counts"] = lambda counts: ", ".join(f"{name}: {count}" for name, count in counts.items())
    environment.filters["decided"] = _decided
    template = environment.from_string((_HERE / "drill.md.j2").read_text(encoding="utf-8"))
    return template.render(result=result, scenario=scenario)


def _decided(verdicts: Mapping[str, int]) -> str:
    whole = sum(verdicts.values())
    return f"{100 * sum(verdicts.get(name, 0) for name in DECIDED) / whole:.0f} %" if whole else "-"


def tables(results: Results) -> dict[str, str]:
    """The tables as Markdown, by the names of their files; those without a row are left out. results: as
    drill.score.read_scores returns them."""
    with NamedTemporaryFile("w", encoding="utf-8", suffix=".jsonl") as scores, duckdb.connect() as connection:
        scores.writelines(json.dumps(result) + "\n" for result in results)
        scores.flush()
        connection.execute("set variable scores = $1", [scores.name])
        connection.execute((_HERE / "tables" / "drills.sql").read_text(encoding="utf-8"))
        made = {name: _table(connection, name) for name in _HEADINGS}
    return {name: _HEADINGS[name] + text for name, text in made.items() if text}


def _table(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    found = connection.execute((_HERE / "tables" / f"{name}.sql").read_text(encoding="utf-8"))
    names = [column[0] for column in found.description or ()]
    rows = [[str(value) for value in row] for row in found.fetchall()]
    if names == ["text"] or not rows:
        return "".join(row[0] for row in rows)
    zeros = [at for at in range(len(names)) if name in _NAMES_ZEROS and {row[at] for row in rows} == {"0"}]
    shown = [[cell for at, cell in enumerate(row) if at not in zeros] for row in (names, *rows)]
    lines = [f"| {' | '.join(row)} |" for row in shown]
    below = f"\n\n0 in every row: {', '.join(names[at] for at in zeros)}." if zeros else ""
    return "\n".join([lines[0], f"|{'---|' * len(shown[0])}", *lines[1:]]) + below


def renew(file: Path, results: Results) -> None:
    """Replace the tables between the markers of a page. Errors: DrillError if it has none."""
    text = file.read_text(encoding="utf-8")
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise DrillError(f"{file}: the lines {_BEGIN!r} and {_END!r}, between which the tables go, are missing")
    made = "\n\n".join(tables(results).values())
    file.write_text(f"{head}{begin} -->\n\n{made}\n\n{end}{tail}", encoding="utf-8")
