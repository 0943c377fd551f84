"""The public face: a lake's tables and views under their names, in Spark and in DuckDB.

    import kraft_forensics

    kraft_forensics.open(spark, "demo/lake")     # or ["lake/a", "lake/b"]; then: spark.sql("select * from windows")
    connection = kraft_forensics.duckdb("demo/lake")
    connection.sql("select * from windows").pl()    # or .df(), .arrow(), .fetchall()

docs/tables.md has the tables, docs/views.md the views, docs/cookbook.md questions with their SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

    from jobs.lake.lake import Lake

__all__ = ["duckdb", "open"]


def open(
    spark: SparkSession,
    lake: str | Path | Sequence[str | Path],
    database: str | None = None,
    cluster: str | None = None,
    external_tables: bool = False,
) -> None:
    """Give a lake's tables and views their names in a Spark session that has Delta (docs/cluster.md).

    lake: its folder or URL; or several, whose rows each table and view has together. database: None: temporary views,
    which end with the session; a name: views in that database of the session's catalog, made if it is missing. Only
    there has Spark a place for what a table is (`describe table extended`); columns have their comments in both. Views
    of the same names are replaced. Always read is the newest version of the tables. cluster: its id, if they are to
    have its rows alone; None: those of every cluster.
    external_tables: the tables are Delta tables of `database` at the lake's places, for catalogs that other programs
    read, with the views on them. `kraft-forensics sql --ddl DATABASE` prints the same.

    Errors: LakeError (evidence.errors.KraftForensicsError) if there is no lake, no such cluster, or a cluster in two of
    them; ExternalTableError if a table of that name is at another place; ValueError for external tables without a
    database, of one cluster, or of several lakes.
    """
    lakes = _lakes(lake, cluster)
    if external_tables and (database is None or cluster is not None or len(lakes) > 1):
        raise ValueError("external tables need a database, and have the rows of every cluster of one lake")
    from jobs.views.in_spark import define, definitions, require_locations

    define(spark, definitions(lakes, None, database, cluster, external_tables), database)
    if external_tables:
        require_locations(spark, lakes[0], database)


def duckdb(lake: str | Path | Sequence[str | Path], cluster: str | None = None) -> DuckDBPyConnection:
    """A connection to DuckDB, in memory, with a lake's tables and views; starts no JVM.

    lake: its folder or URL; or several, whose rows each table and view has together. The tables are those of now:
    connect again to see later ones. Times have the zone UTC. cluster: its id, if they are to have its rows alone; None:
    those of every cluster.

    Errors: LakeError (evidence.errors.KraftForensicsError) if there is no lake, no such cluster, or a cluster in two of
    them.
    """
    from jobs.views.in_duckdb import connect

    return connect(_lakes(lake, cluster), cluster)


def _lakes(roots: str | Path | Sequence[str | Path], cluster: str | None) -> list[Lake]:
    from evidence.capture.remote import location
    from jobs.lake.lake import Lake
    from jobs.lake.storage import LakeError

    found = [Lake(location(str(root))) for root in ([roots] if isinstance(roots, str | Path) else roots)]
    if not found:
        raise LakeError("no lake is named")
    for lake in found:
        lake.require()
    of_cluster = found[0]
    if len(found) > 1:
        places: dict[str, Lake] = {}
        for name, lake in [(name, each) for each in found for name in each.clusters()]:
            if name in places:
                both = f"{places[name].root} and in {lake.root}"
                raise LakeError(f"cluster {name} is in {both}: its rows would count twice.")
            places[name] = lake
        of_cluster = places.get(cluster or "", found[0])
    if cluster is not None:
        of_cluster.one_cluster(cluster)
    return found
