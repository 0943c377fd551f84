"""Public names of the data source `kraft`: users' Spark jobs import them from here."""

from jobs.spark.kraft_source import KraftDataSource, register

__all__ = ["KraftDataSource", "register"]
