"""A lake whose tables tests read as DataFrames."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evidence.capture.remote import Location
from jobs.lake.lake import Lake
from jobs.lake.tables import CLUSTER_ID
from jobs.views.in_spark import table_query


class SparkLake(Lake):
    """A lake, and a session to read it with."""

    def __init__(self, spark: SparkSession, root: Location) -> None:
        super().__init__(root)
        self.spark = spark

    def table(self, name: str, cluster_id: str | None = None) -> DataFrame:
        """A table, or one cluster's rows of it."""
        frame = self.spark.sql(table_query(self, name))
        return frame if cluster_id is None else frame.where(F.col(CLUSTER_ID) == cluster_id)
