"""The Spark session and the judged captures of tests/spark, for tests that keep both cores busy, or
whose settings must be there before a JVM starts."""

from tests.spark.conftest import job as job
from tests.spark.conftest import spark as spark
