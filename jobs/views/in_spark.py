"""The lake's tables and views under their names in a Spark session."""

from __future__ import annotations

import re
from collections.abc import Collection

from pyspark.sql import SparkSession

from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.spark.tables import table_query
from jobs.spark.types import spark_schema
from jobs.views.catalogue import views

_TIMESTAMP = "timestamp_millis({ms})"


def define_views(
    spark: SparkSession,
    lake: Lake,
    names: Collection[str] | None = None,
    database: str | None = None,
    cluster: str | None = None,
) -> None:
    """Give the lake's tables and views their names in a session.

    names: which (default: all; other names are ignored); what a view reads must have its name, too. database: None:
    temporary views, which end with the session and have comments of columns only; a name: views in that database of the
    session's catalog, made if it is missing, with comments (`describe table extended`). They read the newest version of
    a table. cluster: with the rows of that one alone.
    """
    wanted = TABLES.keys() | views().keys() if names is None else set(names)
    kind = "temporary view" if database is None else "view"
    where = "" if cluster is None else f" where cluster_id = {literal(cluster)}"
    before = spark.catalog.currentDatabase()
    if database is not None:
        if not spark.catalog.databaseExists(database):
            spark.sql(f"create database {quoted(database)}")
        spark.catalog.setCurrentDatabase(database)
    try:
        for table in TABLES.values():
            if table.name in wanted:
                comments = {field.name: field.metadata["comment"] for field in spark_schema(table.schema)}
                query = table_query(lake, table.name) + where
                spark.sql(_definition(kind, table.name, table.comment, comments, query))
        for view in views().values():
            if view.name in wanted:
                query = view.query(_TIMESTAMP)
                query = query if database is None else _in_database(query, database)
                spark.sql(_definition(kind, view.name, view.comment, view.columns, query))
    finally:
        spark.catalog.setCurrentDatabase(before)


def _in_database(query: str, database: str) -> str:
    """A view's query with its tables and views named in full: a temporary view of the session comes before one of the
    database, and a view that stays may not read one."""
    names = "|".join([*TABLES, *views()])
    return re.sub(rf"\b(from|join)\s+({names})\b", lambda found: f"{found[1]} {quoted(database)}.{found[2]}", query)


def _definition(kind: str, name: str, comment: str, columns: dict[str, str], query: str) -> str:
    listed = ", ".join(f"{quoted(column)} comment {literal(text)}" for column, text in columns.items())
    return f"create or replace {kind} {quoted(name)} ({listed}) comment {literal(comment)} as\n{query}"


def quoted(name: str) -> str:
    """A name of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
