"""The Spark session and the judged captures of tests/spark, for tests that need the machine or their process alone."""

from tests.spark.conftest import job as job
from tests.spark.conftest import spark as spark
