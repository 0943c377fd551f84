"""The data source `kraft` under its public name: Spark jobs of users import it from here."""

from jobs.spark.kraft_source import KraftDataSource

__all__ = ["KraftDataSource"]
