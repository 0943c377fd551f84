"""The cookbook's pages: their questions, and the results written anew by `python -m tests.support.cookbook`."""

import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd

import kraft_forensics
from tests.support.judged import judged_lake
from tests.support.paths import ROOT, capture

COOKBOOK, ENGINES = (ROOT / "docs" / name for name in ("cookbook.md", "cookbook-engines.md"))
# A block of code and the result after it, if it has one.
_ASKED = re.compile(r"(```sql\n(?P<code>.*?)\n```\n)(\n```text\n(?P<result>.*?)```\n)?", re.DOTALL)
_HEADING = re.compile(r"^## (?P<title>.+)$", re.MULTILINE)
_PYTHON = re.compile(r"```python\n# (?P<engine>[^\n]+)\n(?P<code>.*?)\n```\n", re.DOTALL)
_SETUP = re.compile(r"```python\n(?P<code>import .*?)\n```\n", re.DOTALL)
_RESULT = re.compile(r"```text\n(?P<result>.*?)```\n", re.DOTALL)

Run = Callable[[str], tuple[Sequence[str], Sequence[Sequence[Any]]]]


@dataclass(frozen=True)
class Engines:
    """A question of docs/cookbook-engines.md. code: by engine; result: as the page has it."""

    title: str
    code: dict[str, str]
    result: str


def lake_of_the_example(folder: Path) -> Path:
    """The lake of the bundled capture, with all tables but quality_results."""
    judged_lake(folder / "lake", capture("unclean"))
    return folder / "lake"


def questions(page: str) -> list[tuple[str, str]]:
    """The statements of docs/cookbook.md and their results."""
    return [(found["code"], found["result"] or "") for found in _ASKED.finditer(page)]


def engines(page: str) -> list[Engines]:
    """The questions of docs/cookbook-engines.md."""
    parts = _HEADING.split(page)[1:]
    found = []
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        code = {block["engine"]: block["code"] for block in _PYTHON.finditer(text)}
        result = _RESULT.search(text)
        if code:
            found.append(Engines(title, code, result["result"] if result else ""))
    return found


def answered(page: str, run: Run) -> str:
    """docs/cookbook.md with the results of its statements."""

    def block(found: re.Match[str]) -> str:
        return f"{found[1]}\n```text\n{as_text(*run(found['code']))}```\n"

    return _ASKED.sub(block, page)


def names_of(page: str, lake: Path) -> dict[str, Any]:
    """The names that every block of docs/cookbook-engines.md has, by the page's first block."""
    found = _SETUP.search(page)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found["code"].replace('"demo/lake"', repr(str(lake))), names)
    return names


def answer_of(code: str, names: dict[str, Any]) -> str:
    """What the Python code of a block leaves in `rows`, as text."""
    scope = dict(names)
    exec(code, scope)
    return "".join(" | ".join(map(cell, row)) + "\n" for row in scope["rows"])


def as_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table of text, as the command line prints it."""
    cells = [list(columns), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in cells]
    lines.insert(1, "─" * (sum(widths) + 2 * len(widths) - 2))
    if not rows:
        lines.append("(no rows)")
    return "\n".join(lines) + "\n"


def cell(value: Any) -> str:
    """A value as every engine's test prints it."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value):
        return "null"
    if isinstance(value, datetime):
        # Spark's rows have local times without a zone.
        aware = value if value.tzinfo else value.astimezone()
        return aware.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal | float):
        return f"{float(value):.1f}".removesuffix(".0")
    return json.dumps(list(value)) if isinstance(value, list | tuple) else str(value)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = lake_of_the_example(Path(folder))
        with kraft_forensics.duckdb(lake) as connection:

            def run(statement: str) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
                found = connection.sql(statement)
                return found.columns, found.fetchall()

            COOKBOOK.write_text(answered(COOKBOOK.read_text("utf-8"), run), "utf-8")
        page = ENGINES.read_text("utf-8")
        names = names_of(page, lake)
        for asked in engines(page):
            new = answer_of(asked.code["DuckDB"], names)
            head, _, rest = page.partition(f"## {asked.title}\n")
            page = f"{head}## {asked.title}\n" + _RESULT.sub(lambda _, new=new: f"```text\n{new}```\n", rest, count=1)
        ENGINES.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
