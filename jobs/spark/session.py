"""The Spark session: local by default, Delta Lake on, UTC, ANSI SQL."""

from __future__ import annotations

import logging
import os
import sys

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from evidence.errors import KraftForensicsError
from jobs.config.settings import SparkSettings
from jobs.spark.kraft_source import KraftDataSource

# A short job ends before the second JIT compiler pays off; without it the JVM uses a third less CPU time.
_SMALL_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"
_DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"


class SessionError(KraftForensicsError):
    """The Spark session cannot be built with these settings."""


def _submitted() -> bool:
    """Whether spark-submit started this process (it puts the port of its JVM into the environment)."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def build_session(settings: SparkSettings, small: bool = False) -> SparkSession:
    """Build a session with Delta. small: with so little data, compiling queries costs more than it saves (ADR 0003).

    Under spark-submit the driver already runs: spark-submit sets its master, memory and addresses.

    Errors: SessionError if jars_mode is 'jars' and the folder has no jars.
    """
    builder = SparkSession.builder.appName("kraft-forensics")
    if not _submitted():
        # Workers must use the interpreter that has this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        java_options = f"{settings.driver_java_options} {_SMALL_JAVA_OPTIONS if small else ''}".rstrip()
        builder = (
            builder.master(settings.master)
            .config("spark.driver.memory", settings.driver_memory)
            .config("spark.driver.extraJavaOptions", java_options)
            .config("spark.driver.bindAddress", "127.0.0.1")
        )
    builder = (
        builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", settings.shuffle_partitions)
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
    )
    if small:
        builder = builder.config("spark.sql.codegen.wholeStage", "false").config(
            "spark.sql.codegen.factoryMode", "NO_CODEGEN"
        )
        builder = builder.config("spark.sql.adaptive.enabled", "false")
    for key, value in settings.conf.items():
        builder = builder.config(key, value)
    if settings.jars_mode == "packages":
        builder = builder.config("spark.jars.packages", _DELTA_PACKAGE)
    elif settings.jars_mode == "jars":
        folder = settings.jars_path()
        jars = sorted(str(j) for j in folder.glob("*.jar"))
        if not jars:
            raise SessionError(f"{folder}: no Delta jars in this folder. Run `make jars`, or set spark.jars_dir.")
        builder = builder.config("spark.jars", ",".join(jars))
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark writes each error to stderr as a line of JSON with all of Java's stack.
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    session = builder.getOrCreate()
    session.dataSource.register(KraftDataSource)
    return session
