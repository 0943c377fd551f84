"""Run checks over tables: over all rows of a cluster, or over parts of them, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa

from quality.check import Check, Limits, Outcome, Scope
from quality.columns import Rows, Tables, encoded
from quality.digests import DIGESTS

Needs = Mapping[str, tuple[str, ...]]
Outcomes = dict[str, Outcome]


class Part(Protocol):
    """Some rows of a cluster, and the checks that they are for."""

    @property
    def checks(self) -> Sequence[str]:
        """Full names."""
        ...

    def read(self, needs: Needs) -> Iterator[Tables]:
        """The rows, once or piece by piece; each piece is all that a check of these must see at once. Columns of
        strings are dictionary-encoded."""
        ...


class Source(Protocol):
    """Where tables are read from."""

    def each(self, checks: Sequence[Check], function: Callable[[Part], Outcomes]) -> Iterable[Outcomes]:
        """What a function, which can be pickled, returns for each part. All parts together are every row that each
        check must see."""
        ...


class InMemory:
    """Tables that are small enough to be held: one part, for all checks."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._rows = {name: Rows(with_codes(table)) for name, table in tables.items()}
        for name, digest in DIGESTS.items():
            if digest.table in tables and {*digest.columns} <= {*tables[digest.table].column_names}:
                self._rows[name] = Rows(digest.of(self._rows[digest.table].table.select(digest.columns)))

    def each(self, checks: Sequence[Check], function: Callable[[Part], Outcomes]) -> Iterable[Outcomes]:
        return [function(_Held([check.full_name for check in checks], self._rows))]


@dataclass(frozen=True)
class _Held:
    checks: Sequence[str]
    rows: Tables

    def read(self, needs: Needs) -> Iterator[Tables]:
        yield {name: self.rows[name] for name in needs}


def with_codes(table: pa.Table) -> pa.Table:
    """The table with columns of strings dictionary-encoded, which takes less memory."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(number, field.name, encoded(table[field.name]))
    return table


def all_columns(checks: Iterable[Check]) -> dict[str, tuple[str, ...]]:
    """The columns that checks read, by table or digest."""
    found: dict[str, dict[str, None]] = {}
    for check in checks:
        for table, columns in check.needs.items():
            found.setdefault(table, {}).update(dict.fromkeys(columns))
    return {table: tuple(columns) for table, columns in found.items()}


def top_level(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns that dotted paths of fields are in."""
    return tuple(dict.fromkeys(name.partition(".")[0] for name in columns))


def names_by_table(checks: Iterable[Check], scope: Scope) -> dict[str, list[str]]:
    """The full names of the checks with this scope, by table."""
    found: dict[str, list[str]] = {}
    for check in checks:
        if check.scope is scope:
            found.setdefault(check.table, []).append(check.full_name)
    return found


def run(checks: Sequence[Check], source: Source, limits: Limits) -> Outcomes:
    """How often each check is broken, by its full name."""
    found = {check.full_name: Outcome() for check in checks}
    for outcomes in source.each(checks, partial(_check, checks, limits)):
        for name, outcome in outcomes.items():
            found[name].merge(outcome, limits.sample_rows)
    return found


def _check(checks: Sequence[Check], limits: Limits, part: Part) -> Outcomes:
    names = frozenset(part.checks)
    mine = [check for check in checks if check.full_name in names]
    found = {check.full_name: Outcome() for check in mine}
    for tables in part.read(all_columns(mine)):
        for check in mine:
            rows = {name: tables[name].only(top_level((*columns, *check.key))) for name, columns in check.needs.items()}
            found[check.full_name].add(check, check.find(rows, limits), limits.sample_rows)
    return found
