"""Run checks over tables: from a source that reads them whole, in parts, or topic by topic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from quality.check import Check, Limits, Outcome, Scope
from quality.columns import Rows, Tables, encoded

Needs = Mapping[str, tuple[str, ...]]
# The records that begin, end or abort transactions: metadata_records without those of topics.
TRANSACTIONS = "transaction_records"
_MARKERS = pa.array([f"{verb}_TRANSACTION_RECORD" for verb in ("BEGIN", "END", "ABORT")])


class Source(Protocol):
    """Where tables are read from. Columns of strings are dictionary-encoded."""

    def whole(self, needs: Needs) -> Tables:
        """All rows of some tables."""
        ...

    def parts(self, table: str, columns: Sequence[str]) -> Iterator[Rows]:
        """All rows of a table, part by part; at least one part."""
        ...

    def topics(self, needs: Needs) -> Iterator[Tables]:
        """The rows of some topics, then of others; tables without topics are whole every time."""
        ...


class InMemory:
    """Tables that are small enough to be held. A table of some topics is whole."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._rows = {name: Rows(with_codes(table)) for name, table in tables.items()}
        if "metadata_records" in self._rows and "type" in tables["metadata_records"].column_names:
            self._rows[TRANSACTIONS] = Rows(transactions(self._rows["metadata_records"].table))

    def whole(self, needs: Needs) -> Tables:
        return {name: self._rows[name] for name in needs}

    def parts(self, table: str, columns: Sequence[str]) -> Iterator[Rows]:
        yield self._rows[table]

    def topics(self, needs: Needs) -> Iterator[Tables]:
        yield self.whole(needs)


def with_codes(table: pa.Table) -> pa.Table:
    """The table with columns of strings dictionary-encoded, which takes less memory."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(number, field.name, encoded(table[field.name]))
    return table


def transactions(records: pa.Table) -> pa.Table:
    kinds = records["type"].cast(pa.string()) if pa.types.is_dictionary(records["type"].type) else records["type"]
    return records.filter(pc.is_in(kinds, _MARKERS))


def all_columns(checks: Iterable[Check]) -> dict[str, tuple[str, ...]]:
    """The columns that checks read, by table."""
    found: dict[str, dict[str, None]] = {}
    for check in checks:
        for table, columns in check.needs.items():
            found.setdefault(table, {}).update(dict.fromkeys(columns))
    return {table: tuple(columns) for table, columns in found.items()}


def run(checks: Sequence[Check], source: Source, limits: Limits) -> dict[str, Outcome]:
    """How often each check is broken, by its full name."""
    found = {check.full_name: Outcome() for check in checks}

    def apply(check: Check, tables: Tables) -> None:
        found[check.full_name].add(check, check.find(tables, limits), limits.sample_rows)

    of_rows = [check for check in checks if check.scope is Scope.ROWS]
    for table, columns in all_columns(of_rows).items():
        for rows in source.parts(table, columns):
            for check in of_rows:
                if check.table == table:
                    apply(check, {table: rows})
    of_topics = [check for check in checks if check.scope is Scope.TOPIC]
    if of_topics:
        for tables in source.topics(all_columns(of_topics)):
            for check in of_topics:
                apply(check, tables)
    for check in checks:
        if check.scope is Scope.CLUSTER:
            apply(check, source.whole(check.needs))
    return found
