"""The views: one SQL file each, with its documentation in the comment at its head. Needs neither Spark nor DuckDB.

The files are written in the SQL that Spark and DuckDB share, and one function of their own: `utc(ms)`, a time in ms
since the Unix epoch as a timestamp. `View.query` puts an engine's expression in its place.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from evidence.limits import MAX_TIME_MS, YEAR_1_MS

# `-- name: meaning` of a column; a line that is indented goes on with the meaning before it.
_COLUMN = re.compile(r"(?P<name>\w+): (?P<text>.+)")
_UTC = re.compile(r"\butc\(([\w.]+)\)")
READ = re.compile(r"\b(?:from|join) (\w+)")


@dataclass(frozen=True)
class View:
    """A view. comment: what a row is, in one line; details: more of it, may be empty; columns: name and meaning of
    each, in order; sql: its query; reads: names of the tables and views that it reads (and of its own parts)."""

    name: str
    comment: str
    details: str
    columns: dict[str, str]
    sql: str
    reads: frozenset[str]

    def query(self, timestamp: str) -> str:
        """The query in an engine's SQL. timestamp: its expression for a timestamp with a time zone, with `{ms}`."""

        def expression(found: re.Match[str]) -> str:
            # Damaged files have times beyond the years 1 to 9999, which no engine can show: null.
            at = timestamp.format(ms=found[1])
            return f"case when {found[1]} between {YEAR_1_MS} and {MAX_TIME_MS} then {at} end"

        return _UTC.sub(expression, self.sql)


@cache
def views() -> dict[str, View]:
    """Every view by its name. A view comes after those that it reads."""
    texts = [file for file in files(__package__).iterdir() if file.name.endswith(".sql")]
    found = [_parsed(file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in texts]
    by_name = {view.name: view for view in sorted(found, key=lambda view: view.name)}
    ordered: dict[str, View] = {}

    def add(view: View) -> None:
        for name in sorted(view.reads & by_name.keys()):
            add(by_name[name])
        ordered.setdefault(view.name, view)

    for view in by_name.values():
        add(view)
    return ordered


def needed(names: set[str]) -> set[str]:
    """The names, and those of all tables and views that the views among them read."""
    found = set(names)
    for view in reversed(views().values()):
        if view.name in found:
            found |= view.reads
    return found


def quoted(name: str) -> str:
    """A name of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _parsed(name: str, text: str) -> View:
    lines = text.splitlines()
    head = [line.removeprefix("--").removeprefix(" ") for line in lines if line.startswith("--")]
    blank = head.index("")
    columns: dict[str, str] = {}
    for line in head[blank + 1 :]:
        if found := _COLUMN.fullmatch(line):
            columns[found["name"]] = found["text"]
        else:
            columns[next(reversed(columns))] += " " + line.strip()
    sql = "\n".join(lines[len(head) :])
    return View(name, head[0].rstrip("."), " ".join(head[1:blank]), columns, sql, frozenset(READ.findall(sql)))
