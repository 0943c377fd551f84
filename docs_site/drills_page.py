"""Write the tables of all drills into docs/drill.md, from the scores that are kept: `python -m docs_site.drills_page`.
Each table is a SQL file of docs_site/drills/."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import duckdb

from drill.score import read_scores

Results = Sequence[Mapping[str, Any]]
_ROOT = Path(__file__).parents[1]
_TABLES = Path(__file__).with_name("drills")
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
_BEGIN, _END = "<!-- drills: made by `python -m docs_site.drills_page`", "<!-- end of drills -->"


def tables(results: Results) -> dict[str, str]:
    """The tables as Markdown, by the names of their files; those without a row are left out. results: as
    drill.score.read_scores returns them."""
    with NamedTemporaryFile("w", encoding="utf-8", suffix=".jsonl") as scores, duckdb.connect() as connection:
        scores.writelines(json.dumps(result) + "\n" for result in results)
        scores.flush()
        connection.execute("set variable scores = $1", [scores.name])
        connection.execute((_TABLES / "drills.sql").read_text(encoding="utf-8"))
        made = {name: _table(connection, name) for name in _HEADINGS}
    return {name: _HEADINGS[name] + text for name, text in made.items() if text}


def _table(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    found = connection.execute((_TABLES / f"{name}.sql").read_text(encoding="utf-8"))
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
    """Replace the tables between the markers of a page. Errors: SystemExit if it has none."""
    text = file.read_text(encoding="utf-8")
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"{file}: the lines {_BEGIN!r} and {_END!r}, between which the tables go, are missing")
    made = "\n\n".join(tables(results).values())
    file.write_text(f"{head}{begin} -->\n\n{made}\n\n{end}{tail}", encoding="utf-8")


if __name__ == "__main__":
    page, scores = sys.argv[1:] or (_ROOT / "docs" / "drill.md", _ROOT / "drill" / "scores.jsonl")
    renew(Path(page), read_scores(Path(scores)))
