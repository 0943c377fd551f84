"""Spark of the pip package on loopback, as processes of its own: a standalone cluster with a master and workers, and a
Spark Connect server."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from drill.network import free_ports

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 300
# Options of a JVM that runs for seconds: more compilation than this takes longer than it saves.
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@dataclass
class Cluster:
    """url: of the master. logs: of every process; work: folder of the workers, with what executors print."""

    url: str
    logs: Path
    work: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def executors(self) -> list[int]:
        """Process ids of the executors that run now: an executor's folder is below its worker's."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(self.work):
                    words = (entry / "cmdline").read_bytes()
                    found += [int(entry.name)] if b"CoarseGrainedExecutorBackend" in words else []
            except OSError:
                continue  # it has ended meanwhile, or is somebody else's
        return found


def environment(**more: str) -> dict[str, str]:
    """Of Spark's processes: the interpreter of the tests, nothing of the checkout on its path."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME", "PYSPARK_GATEWAY_PORT")}
    own = {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_SUBMIT_OPTS": QUICK,
    }
    return {**kept, **own, **more}


def _start(name: str, logs: Path, *words: str, program: str = "spark-class", **more: str) -> subprocess.Popen[bytes]:
    with (logs / f"{name}.log").open("wb") as log:
        command = [str(SPARK_HOME / "bin" / program), *words]
        return subprocess.Popen(
            command, env=environment(**more), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def _wait_for(log: Path, text: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while text not in log.read_text(errors="replace"):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{log}: no {text!r} within {START_SECONDS} s:\n{log.read_text(errors='replace')[-2000:]}"
            )
        time.sleep(0.2)


@contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A cluster whose workers have one core and one GiB each; every process it started is ended."""
    logs, work, (port,) = folder / "logs", folder / "work", free_ports(1)
    logs.mkdir(parents=True)
    cluster = Cluster(f"spark://127.0.0.1:{port}", logs, work)
    with ExitStack() as stack:
        address = ("--host", "127.0.0.1", "--webui-port", "0")
        master = _start("master", logs, "org.apache.spark.deploy.master.Master", *address, "--port", str(port))
        stack.callback(_end, master)
        _wait_for(logs / "master.log", "New state: ALIVE")
        for number in range(workers):
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(work / str(number)))
            name = "org.apache.spark.deploy.worker.Worker"
            worker = _start(f"worker-{number}", logs, name, *address, *limits, cluster.url)
            stack.callback(_end, worker)
            cluster.workers.append(worker)
            _wait_for(logs / f"worker-{number}.log", "Successfully registered with master")
        yield cluster


@contextmanager
def connect_server(folder: Path, python_path: Path, jars: Path) -> Iterator[str]:
    """A Spark Connect server with two cores and Delta; gives its address. python_path: what its workers import."""
    (port,), extension = free_ports(1), "io.delta.sql.DeltaSparkSessionExtension"
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.extensions": extension,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    words = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"]
    words += ["--jars", ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))]
    words += [f"--conf={name}={value}" for name, value in conf.items()]
    server = _start("connect", folder, *words, "spark-internal", program="spark-submit", PYTHONPATH=str(python_path))
    try:
        _wait_for(folder / "connect.log", "Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"
    finally:
        _end(server)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process and what it started."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)
    except ProcessLookupError:
        return
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)
