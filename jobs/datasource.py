"""Public name of the data source `kraft`: users' Spark jobs import it from here."""

from jobs.spark.kraft_source import KraftDataSource

__all__ = ["KraftDataSource"]
