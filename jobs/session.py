"""The Spark session: local by default, Delta Lake on, UTC, ANSI SQL."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from evidence.errors import KraftForensicsError
from jobs.settings import SparkSettings

_DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"


class SessionError(KraftForensicsError):
    """The Spark session cannot be made as set."""


def build_session(settings: SparkSettings, app: str = "kraft-forensics") -> SparkSession:
    """A session with Delta. Errors: SessionError when jars_mode is 'jars' and the folder holds none."""
    # Workers must run the interpreter that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = (
        SparkSession.builder.appName(app)
        .master(settings.master)
        .config("spark.driver.memory", settings.driver_memory)
        .config("spark.driver.extraJavaOptions", settings.driver_java_options)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", settings.shuffle_partitions)
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        # Small tables: a log of 50 commits is cheap, many small files of state are not.
        .config("spark.databricks.delta.snapshotPartitions", 2)
    )
    if settings.jars_mode == "packages":
        builder = builder.config("spark.jars.packages", _DELTA_PACKAGE)
    elif settings.jars_mode == "jars":
        folder = settings.jars_path()
        jars = sorted(str(j) for j in folder.glob("*.jar"))
        if not jars:
            raise SessionError(f"{folder}: no Delta jars in this folder. Run `make jars`, or set spark.jars_dir.")
        builder = builder.config("spark.jars", ",".join(jars))
    return builder.getOrCreate()
