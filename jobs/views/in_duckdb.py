"""The tables and views of lakes in DuckDB, which reads them through Arrow; the queries of rooms. Needs no Spark."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset, dataset

from jobs.lake.lake import Lake, Row
from jobs.lake.row_keys import registered
from jobs.lake.tables import TABLES
from jobs.views.catalogue import READ, views

# What Spark calls otherwise than DuckDB.
_MACROS = ("array_size(list) as len(list)", "explode(list) as unnest(list)")
_TIMESTAMP = "make_timestamptz({ms} * 1000)"


def connect(lakes: Sequence[Lake], cluster: str | None = None) -> duckdb.DuckDBPyConnection:
    """A connection to an in-memory database with the tables and views of some lakes, as of now; times are shown in UTC.

    lakes: that are there (`Lake.require`). cluster: with the rows of that one alone.
    """
    connection = duckdb.connect()
    connection.execute("set TimeZone = 'UTC'")
    for macro in _MACROS:
        connection.execute(f"create macro {macro}")
    for table in TABLES.values():
        rows = dataset([lake.dataset(table.name) for lake in lakes], schema=table.schema)
        connection.register(table.name, rows if cluster is None else rows.filter(pc.field("cluster_id") == cluster))
    for view in views().values():
        connection.execute(f"create temporary view {view.name} as\n{view.query(_TIMESTAMP)}")
        connection.execute(f"comment on view {view.name} is {_literal(view.comment)}")
        for column, text in view.columns.items():
            connection.execute(f"comment on column {view.name}.{column} is {_literal(text)}")
    return connection


def ask(
    query: str, of: tuple[Lake, str] | None = None, values: Mapping[str, Any] | None = None, **given: pa.Table | Dataset
) -> list[Row]:
    """The rows of a query. Sums of integers never overflow.

    query: `incident/terms` is jobs/incident/terms.sql. of: a lake and a cluster, whose tables it reads. values: of its
    parameters, `$name`. given: further tables, by the names that the query has for them.
    """
    text = _text(query)
    if of is not None:
        lake, cluster = of
        names = set(READ.findall(text)) & TABLES.keys() - given.keys()
        given |= {name: lake.dataset(name, as_codes=True).filter(pc.field("cluster_id") == cluster) for name in names}
    return rows_of(text, values, given)


def rows_of(text: str, values: Mapping[str, Any] | None, given: Mapping[str, pa.Table | Dataset]) -> list[Row]:
    """As `ask`, of a query that is in no file."""
    with registered(**given) as connection:
        found = connection.execute(text, values)
        names = [column[0] for column in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def ask_table(query: str, values: Mapping[str, Any] | None = None, **given: pa.Table) -> pa.Table:
    """As `ask`, for many rows."""
    with registered(**given) as connection:
        return connection.sql(_text(query), params=values).to_arrow_table()


def _text(query: str) -> str:
    return files("jobs").joinpath(f"{query}.sql").read_text("utf-8")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
