"""The public face: a lake's tables and views under their names, in Spark and in DuckDB.

    import kraft_forensics

    kraft_forensics.open(spark, "demo/lake")     # then: spark.sql("select * from windows")
    connection = kraft_forensics.duckdb("demo/lake")
    connection.sql("select * from windows").pl()    # or .df(), .arrow(), .fetchall()

docs/tables.md has the tables, docs/views.md the views, docs/cookbook.md questions with their SQL.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

    from jobs.lake.lake import Lake

__all__ = ["duckdb", "open"]


def open(
    spark: SparkSession,
    lake: str | Path,
    database: str | None = None,
    cluster: str | None = None,
    external_tables: bool = False,
) -> None:
    """Give a lake's tables and views their names in a Spark session that has Delta (docs/cluster.md).

    lake: its folder or URL. database: None: temporary views, which end with the session; a name: views in that database
    of the session's catalog, made if it is missing. Only there has Spark a place for what a table is (`describe table
    extended`); columns have their comments in both. Views of the same names are replaced. Always read is the newest
    version of the tables. cluster: its id, if they are to have its rows alone; None: those of every cluster.
    external_tables: the tables are Delta tables of `database` at the lake's places, for catalogs that other programs
    read, with the views on them. `kraft-forensics sql --ddl DATABASE` prints the same.

    Errors: LakeError (evidence.errors.KraftForensicsError) if there is no lake, or no such cluster in it;
    ExternalTableError if a table of that name is at another place; ValueError for external tables without a database,
    or of one cluster.
    """
    if external_tables and (database is None or cluster is not None):
        raise ValueError("external tables need a database, and have the rows of every cluster")
    from jobs.views.in_spark import define_views

    define_views(spark, _lake(lake, cluster), database=database, cluster=cluster, external_tables=external_tables)


def duckdb(lake: str | Path, cluster: str | None = None) -> DuckDBPyConnection:
    """A connection to DuckDB, in memory, with a lake's tables and views; starts no JVM. Needs the extra `duckdb`.

    lake: its folder or URL. The tables are those of now: connect again to see later ones. Times have the zone UTC.
    cluster: its id, if they are to have its rows alone; None: those of every cluster.

    Errors: LakeError (evidence.errors.KraftForensicsError) if there is no lake, or no such cluster in it.
    """
    from jobs.views.in_duckdb import connect

    return connect(_lake(lake, cluster), cluster)


def _lake(root: str | Path, cluster: str | None) -> Lake:
    from evidence.capture.remote import location
    from jobs.lake.lake import Lake

    found = Lake(location(str(root)))
    found.require()
    if cluster is not None:
        found.one_cluster(cluster)
    return found
