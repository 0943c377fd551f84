"""Spark, local by default: a context, which runs tasks, and a session with Delta Lake, UTC and ANSI SQL."""

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from evidence.capture.remote import Location, Remote
from evidence.errors import KraftForensicsError
from jobs.config.doctor import java
from jobs.config.settings import SparkSettings, is_remote
from jobs.console.run_log import append, run_log
from jobs.spark.kraft_source import register
from jobs.spark.processes import MEMORY

_starting = Lock()
_ENDING_S = 1.0
_ANSWERS_S = 10.0
_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_HADOOP_FS = "spark.hadoop.fs"
_WITHOUT = "`run` and each stage need no Spark with `--engine local`."
_DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"


class SessionError(KraftForensicsError):
    """Spark cannot be started with these settings."""


def _remote_session() -> Any:
    """A session of the Spark Connect server of SPARK_REMOTE. Errors: SessionError if it cannot be reached, or the
    packages for it are missing."""
    address = os.environ["SPARK_REMOTE"]
    try:
        from pyspark.sql.connect.client.core import DefaultChannelBuilder
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        channel = DefaultChannelBuilder(address)
    except PySparkException as error:
        raise SessionError(
            f"SPARK_REMOTE: {str(error).splitlines()[0]} Spark Connect needs an address as sc://HOST:PORT and the "
            f"packages of `pip install 'kraft-forensics[connect]'`. {_WITHOUT}"
        ) from error
    host, port = channel.endpoint.rsplit(":", 1)
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWERS_S).close()
    except OSError as error:
        text = f"SPARK_REMOTE: nobody answers at {channel.endpoint} ({error.strerror})"
        raise SessionError(f"{text}. {_WITHOUT}") from error
    return RemoteSession.builder.remote(address).getOrCreate()


def _submitted() -> bool:
    """Whether spark-submit started this process (it puts the port of its JVM into the environment)."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _configuration(settings: SparkSettings) -> SparkConf:
    submitted = _submitted()
    if submitted:
        SparkContext._ensure_initialized()  # only then spark-submit's settings are known
    conf = SparkConf()
    if not submitted:
        os.environ.pop("SPARK_REMOTE", None)  # it is empty (`is_remote`), and Java takes it for an address all the same
        # Workers must use the interpreter that has this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Of the JVM that only puts the command of Spark's own together.
        os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
        conf.setMaster(settings.master)
        conf.set("spark.driver.memory", settings.driver_memory)
        classes = settings.classes_path()  # another Java, or other jars of Spark, ignore it
        shared = f' "-XX:SharedArchiveFile={classes}"' if classes.is_file() else ""
        conf.set("spark.driver.extraJavaOptions", settings.driver_java_options + shared)
        conf.set("spark.driver.bindAddress", "127.0.0.1")
        conf.set("spark.python.daemon.module", "jobs.worker_daemon")
        # Spark makes this folder as soon as its catalog is used. Nothing is written to it.
        conf.set("spark.sql.warehouse.dir", Path(tempfile.gettempdir()).as_uri())
    own = {
        "spark.app.name": "kraft-forensics",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        **{f"spark.executorEnv.{name}": value for name, value in MEMORY.items()},
    }
    for key, value in own.items():
        conf.setIfMissing(key, value)
    extensions = [name for name in conf.get("spark.sql.extensions", "").split(",") if name not in ("", _EXTENSION)]
    conf.set("spark.sql.extensions", ",".join([*extensions, _EXTENSION]))
    for key, value in settings.conf.items():
        conf.set(key, value)
    if settings.jars_mode == "packages":
        conf.set("spark.jars.packages", _DELTA_PACKAGE)
    elif settings.jars_mode == "jars":
        folder = settings.jars_path()
        jars = sorted(str(j) for j in folder.resolve().glob("*.jar"))
        if not jars:
            raise SessionError(
                f"{folder}: no Delta jars here. Run `kraft-forensics setup`, or set spark.jars_dir. {_WITHOUT}"
            )
        # Where one JVM is all of Spark, they are on its class path: spark.jars copies each at the start.
        in_one = not submitted and conf.get("spark.master", "").partition("[")[0] == "local"
        key, between = ("spark.driver.extraClassPath", os.pathsep) if in_one else ("spark.jars", ",")
        conf.set(key, between.join([*jars, *filter(None, [conf.get(key, "")])]))
    return conf


def keep_classes(settings: SparkSettings) -> None:
    """Keep what Java makes of the classes that a session with a query loads (class data sharing), so that later JVMs
    start with half the work. Ends this process's Spark; does nothing without Java. Errors: SessionError."""
    if java() is None:
        return
    classes = settings.classes_path()
    classes.unlink(missing_ok=True)
    made = classes.with_suffix(".new")
    options = f'{settings.driver_java_options} "-XX:ArchiveClassesAtExit={made}"'
    session = build_session(settings.model_copy(update={"driver_java_options": options}))
    session.range(2).count()
    gateway: Any = SparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    # Not if Spark's own folder of settings stands in the class path, nor if the disk is full.
    if gateway.proc.wait() == 0 and made.exists():
        made.replace(classes)


def with_store(settings: SparkSettings, root: Location) -> SparkSettings:
    """The settings with which Spark's SQL reads a lake there: of S3 with jars, which Spark copies at its start, and by
    the same variables of the environment as the rest of the program. Errors: SessionError."""
    if not (isinstance(root, Remote) and root.scheme == "s3" and settings.jars_mode == "jars"):
        return settings
    if not (jars := ",".join(str(jar) for jar in sorted(settings.s3_jars_path().glob("*.jar")))):
        raise SessionError(f"{root}: to read S3, Spark needs more jars (18 MB). Run `kraft-forensics setup --s3`.")
    # Not on the class path: they have classes that Spark has as well, in other releases.
    options = {"spark.jars": jars, f"{_HADOOP_FS}.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    if region := os.environ.get("AWS_DEFAULT_REGION"):
        options[f"{_HADOOP_FS}.s3a.endpoint.region"] = region
    if endpoint := os.environ.get("AWS_ENDPOINT_URL"):
        options |= {f"{_HADOOP_FS}.s3a.endpoint": endpoint, f"{_HADOOP_FS}.s3a.path.style.access": "true"}
        options[f"{_HADOOP_FS}.s3a.connection.ssl.enabled"] = str(not endpoint.startswith("http://")).lower()
    return settings.model_copy(update={"conf": options | settings.conf})


def build_context(settings: SparkSettings) -> SparkContext:
    """The context of this process; it is started when it is needed for the first time. It starts in half the time that
    a session takes.

    Under spark-submit the driver already runs: spark-submit sets its master, memory and addresses.

    Errors: SessionError if jars_mode is 'jars' and the folder has no jars, or if there is no Java.
    """
    if not _submitted() and java() is None:
        raise SessionError(f"Spark needs Java 17 or newer: set JAVA_HOME or PATH. {_WITHOUT}")
    conf, handler = _configuration(settings), signal.getsignal(signal.SIGINT)
    with _starting:
        if SparkContext._gateway is None and not _submitted():
            # What Java prints (log4j, native libraries, incubating modules) goes to the run's log file.
            with run_log().open("ab") as file:
                gateway = launch_gateway(conf, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
            # py4j writes each connection that a dead JVM leaves, with a trace, to the root logger: it prints to stderr.
            if not logging.getLogger().handlers:
                logging.getLogger().addHandler(_ToRunLog())
        context = SparkContext.getOrCreate(conf)
        context._accumulatorServer.handle_error = _log_error  # type: ignore[assignment, method-assign]
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)  # Spark's own handler would only cancel its jobs
    return context


class _ToRunLog(logging.Handler):
    """Writes to the run's log file."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            append(self.format(record) + "\n")


def _log_error(*_: object) -> None:
    """What the server does that gets the tasks' accumulators when the JVM has died; its own way is stderr."""
    with suppress(OSError):
        append(traceback.format_exc())


def has_died() -> bool:
    """Whether the JVM that this process started has ended."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        with suppress(subprocess.TimeoutExpired):  # its connections may end before it does
            process.wait(_ENDING_S)
    return process is not None and process.poll() is not None


def build_session(settings: SparkSettings) -> SparkSession:
    """A session with Delta on the context of this process, or of a Spark Connect server, which then has to have Delta
    (`is_remote`). Errors: SessionError."""
    session = _remote_session() if is_remote() else SparkSession(build_context(settings))
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # PySpark writes each error to stderr as a line of JSON with all of Java's stack.
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    with _starting:  # Spark looks whether the name is taken, then registers: of two threads at once it refuses one
        register(session)
    return session
