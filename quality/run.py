"""Run checks in DuckDB: over all rows of a cluster, or over parts of them, in one process or in several."""

import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import duckdb
import pyarrow as pa

from quality import main_file  # noqa: F401
from quality.check import (
    OF_OWN_ROWS,
    Check,
    Outcome,
    Scope,
    columns_read,
    digests_of,
    needs_of,
    ordered_for,
    reads_no_topic,
    values,
)
from quality.steps import with_steps

# What needs more memory is written to the temporary folder. Names in SQL are those of registered tables alone.
# One thread reads rows in their order.
_CONFIG: dict[str, Any] = {"threads": 1, "memory_limit": "400MB", "python_enable_replacements": False}
_PARAMETER = re.compile(r"\$(\w+)")
Outcomes = dict[str, Outcome]


class Stream:
    """Rows of a table that are read again, piece by piece, whenever DuckDB asks for them. rows: how many. error: why
    reading them failed."""

    def __init__(self, rows: int, schema: pa.Schema, pieces: Callable[[], Iterable[pa.Table]]) -> None:
        self.rows = rows
        self.error: Exception | None = None
        self._schema = schema
        self._pieces = pieces

    def __len__(self) -> int:
        return self.rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for piece in self._pieces():
                yield from piece.cast(self._schema).to_batches()
        except Exception as error:
            self.error = error
            raise


Rows: TypeAlias = pa.Table | Stream
Limits = Mapping[str, Any]  # the settings of [quality] (conf/defaults.toml), `$name` in SQL
Needs = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a cluster, and the checks that they are for. schemas: of every table. read: the rows, once or piece
    by piece; each piece is all that a check of these must see at once. whole: all rows of a table, for a digest; those
    without a topic are enough for one that reads no others, which is the last argument."""

    checks: Sequence[Check]
    schemas: Mapping[str, pa.Schema]
    read: Callable[[Needs], Iterable[Mapping[str, Rows]]]
    whole: Callable[[str, Sequence[str], bool], Rows]


class Source(Protocol):
    """Where tables are read from."""

    def each(self, checks: Sequence[Check], function: Callable[[Sequence[Part]], Outcomes]) -> Iterable[Outcomes]:
        """What a function, which can be pickled, returns for the parts of each task. All parts together are every row
        that each check must see."""
        ...


class InMemory:
    """Tables that are small enough to be held: one part, for all checks."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = tables

    def each(self, checks: Sequence[Check], function: Callable[[Sequence[Part]], Outcomes]) -> Iterable[Outcomes]:
        schemas = {name: table.schema for name, table in self._tables.items()}
        return [function([Part(checks, schemas, self._read, lambda name, *_: self._tables[name])])]

    def _read(self, needs: Needs) -> Iterable[Mapping[str, Rows]]:
        return [{name: self._tables[name] for name in needs}]


def run(checks: Sequence[Check], source: Source, limits: Limits) -> Outcomes:
    """How often each check is broken, by its full name."""
    found = {check.full_name: Outcome() for check in checks}
    for outcomes in source.each(checks, partial(_check, limits)):
        for name, outcome in outcomes.items():
            found[name].merge(outcome, limits["sample_rows"])
    return found


def _check(limits: Limits, parts: Sequence[Part]) -> Outcomes:
    found: Outcomes = {}
    config = {**_CONFIG, "temp_directory": tempfile.gettempdir()}
    with duckdb.connect(config=config) as connection:
        task = _Task(connection, limits)
        for part in parts:
            task.make_digests(part)
            for tables in part.read(needs_of(part.checks, part.schemas)):
                with task.registered(tables, ordered_for(part.checks)):
                    for check in part.checks:
                        outcome = task.outcome(check, tables[check.table])
                        found.setdefault(check.full_name, Outcome()).merge(outcome, limits["sample_rows"])
                del tables  # before the next ones are read
    return found


class _Task:
    """A connection to DuckDB, and the tables that are registered with it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, limits: Limits) -> None:
        self._connection = connection
        self._limits = limits
        self._made: set[str] = set()

    @contextmanager
    def registered(self, tables: Mapping[str, Rows], ordered: Collection[str] = ()) -> Iterator[None]:
        """Tables under their names in SQL. ordered: those whose rows are to be in order, with their steps
        (quality/steps.py); replay writes them in order. Errors: what reading them raised."""
        for name, rows in tables.items():
            self._connection.register(name, rows)
            if name in ordered:
                assert isinstance(rows, pa.Table)
                key = values()[name].key
                if (stepped := with_steps(rows, key)) is None:
                    in_order = self._connection.sql(values()[name].in_sql("from {table} order by {key}", name))
                    stepped = with_steps(in_order.to_arrow_table(), key)
                self._connection.register(name, stepped)
        try:
            yield
        except duckdb.Error:
            for rows in tables.values():
                if isinstance(rows, Stream) and rows.error is not None:
                    raise rows.error from None
            raise
        for name in tables:
            self._connection.unregister(name)

    def make_digests(self, part: Part) -> None:
        """Make the digests that the part's checks read, unless an earlier part of the task had them made."""
        for name, sql in digests_of(part.checks).items():
            if name not in self._made:
                needs = columns_read([sql], part.schemas)
                no_topic = reads_no_topic(name)
                with self.registered({table: part.whole(table, columns, no_topic) for table, columns in needs.items()}):
                    self._ask(f"create temp table {name} as {sql}")
                self._made.add(name)

    def outcome(self, check: Check, rows: Rows) -> Outcome:
        if not len(rows) and (check.scope is Scope.ROW or check.kind in OF_OWN_ROWS):
            return Outcome()
        # Columns that a violation does not name would be carried through joins and sorts.
        named = ", ".join(f"'{column}'" for column in (*check.key, "why"))
        query = f"select columns(lambda c: c in ({named})) from ({check.statements[0]})"
        most = self._limits["sample_rows"]
        found = self._ask(f"{query} limit {most}")
        names, violations = [column[0] for column in found.description or ()], found.fetchall()
        broken = len(violations)
        if broken == most:
            ((broken,),) = self._ask(f"select count(*) from ({query})").fetchall()
        measured = {name: value for query in check.statements[1:] for name, value in self._ask(query).fetchall()}
        sample = [_named(check, dict(zip(names, row, strict=True))) for row in violations]
        return Outcome(len(rows), broken, sample, measured)

    def _ask(self, sql: str) -> duckdb.DuckDBPyConnection:
        return self._connection.execute(sql, {name: self._limits[name] for name in _PARAMETER.findall(sql)})


def _named(check: Check, row: Mapping[str, Any]) -> str:
    """A violation as text: its key, and more about it."""
    parts = [f"{name}={_short(row[name])}" for name in check.key if row.get(name) is not None]
    return ", ".join([*parts, *([row["why"]] if row.get("why") else [])])


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "..."
