"""The Spark session and the judged captures of tests/spark."""

from tests.spark.conftest import job as job
from tests.spark.conftest import spark as spark
