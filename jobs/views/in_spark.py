"""The lake's tables and views under their names in a Spark session."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from pyspark.sql import SparkSession

from evidence.errors import KraftForensicsError
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.spark.kraft_source import spark_schema
from jobs.views.catalogue import literal, quoted, views

_TIMESTAMP = "timestamp_millis({ms})"


class ExternalTableError(KraftForensicsError):
    """A table of the catalog is not the lake's."""


def define(spark: SparkSession, statements: Iterable[str], database: str | None = None) -> None:
    """Run `definitions` in a session. database: the same; it is made if it is missing."""
    before = spark.catalog.currentDatabase()
    if database is not None:
        if not spark.catalog.databaseExists(database):
            spark.sql(f"create database {quoted(database)}")
        spark.catalog.setCurrentDatabase(database)
    try:
        for statement in statements:
            spark.sql(statement)
    finally:
        if before:  # a catalog that is not Spark's own may have none, and an empty name is an error
            spark.catalog.setCurrentDatabase(before)


def definitions(
    lakes: Sequence[Lake],
    names: Collection[str] | None = None,
    database: str | None = None,
    cluster: str | None = None,
    external_tables: bool = False,
) -> Iterator[str]:
    """Statements of Spark SQL, in order, that give tables and views with the rows of some lakes their names; they need
    Delta.

    names: which (default: all; other names are ignored); what a view reads must have its name, too. database: None:
    temporary views, which end with the session and have comments of columns only; a name: views of that database, which
    is the current one, with comments (`describe table extended`). They read the newest version of a table. cluster:
    with the rows of that one alone. external_tables: tables are no views but Delta tables at the lake's places, which
    need no more than Delta to be read; one that is there already stays as it is. Then there is one lake, cluster is
    None, and database a name.
    """
    wanted = TABLES.keys() | views().keys() if names is None else set(names)
    kind = "temporary view" if database is None else "view"
    where = "" if cluster is None else f" where cluster_id = {literal(cluster)}"
    for table in TABLES.values():
        if table.name in wanted and external_tables:
            place = f"using delta location {literal(lakes[0].storage.url(table.name))}"
            yield f"create table if not exists {_full(table.name, database)} {place}"
        elif table.name in wanted:
            comments = {field.name: field.metadata["comment"] for field in spark_schema(table.schema)}
            query = " union all ".join(table_query(lake, table.name) + where for lake in lakes)
            yield _definition(kind, quoted(table.name), table.comment, comments, query)
    for view in views().values():
        if view.name in wanted:
            query = view.query(_TIMESTAMP)
            query = query if database is None else _in_database(query, database)
            name = _full(view.name, database if external_tables else None)
            yield _definition(kind, name, view.comment, view.columns, query)


def require_locations(spark: SparkSession, lake: Lake, database: str | None) -> None:
    """Check that the database's tables are this lake's. Errors: ExternalTableError."""
    for name in TABLES:
        rows = spark.sql(f"describe detail {_full(name, database)}").select("location").collect()
        found, wanted = rows[0][0].rstrip("/"), lake.storage.url(name).rstrip("/")
        if found.removeprefix("file:") != wanted.removeprefix("file://").removeprefix("file:"):
            raise ExternalTableError(
                f"{name}: the database has a table of this name, at {found}. Choose another database."
            )


def _full(name: str, database: str | None) -> str:
    return quoted(name) if database is None else f"{quoted(database)}.{quoted(name)}"


def _in_database(query: str, database: str) -> str:
    """A view's query with its tables and views named in full: a temporary view of the session comes before one of the
    database, and a view that stays may not read one."""
    names = "|".join([*TABLES, *views()])
    return re.sub(rf"\b(from|join)\s+({names})\b", lambda found: f"{found[1]} {quoted(database)}.{found[2]}", query)


def _definition(kind: str, name: str, comment: str, columns: dict[str, str], query: str) -> str:
    listed = ", ".join(f"{quoted(column)} comment {literal(text)}" for column, text in columns.items())
    return f"create or replace {kind} {name} ({listed}) comment {literal(comment)} as\n{query}"


def table_query(lake: Lake, name: str) -> str:
    """A table as a query in SQL."""
    url = lake.storage.url(name).replace("`", "``")
    columns = ", ".join(f"`{column}`" for column in TABLES[name].schema.names)
    return f"select {columns} from spark_catalog.delta.`{url}`"
