"""The same wheel on a Spark standalone cluster: the tables are those of a local run, whatever happens on the way."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.config.settings import load_settings
from jobs.lake.lake import Lake
from jobs.pipeline import Pipeline
from tests.support.digests import digests
from tests.support.paths import ROOT, capture
from tests.support.standalone import QUICK, SPARK_HOME, Cluster, environment, standalone

# Many small buckets, so that every executor gets some; one topic alone fills several times the limit (a skewed bucket).
SETTINGS = {
    "KRAFT_FORENSICS_REPLAY__ROWS_PER_BUCKET": "60",
    "KRAFT_FORENSICS_REPLAY__PARTITIONS_PER_BUCKET": "8",
    "KRAFT_FORENSICS_SPARK__FROM_ROWS": "0",
}
# Tasks begin when both executors are there, however long that takes.
CONF = ("spark.executorEnv.PYTHONPATH=kf", "spark.driver.host=127.0.0.1")
CONF += (f"spark.executor.extraJavaOptions={QUICK}",)
CONF += ("spark.scheduler.minRegisteredResourcesRatio=1.0", "spark.scheduler.maxRegisteredResourcesWaitingTime=300s")
DRIVER = "from jobs.cli import main; main()"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as an archive that Spark unpacks for executors (it knows .zip, not .whl)."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    skipped = {"tests", "build", "demo", "lake", "examples"}

    def ignored(inside: str, names: list[str]) -> list[str]:
        at_top = Path(inside) == ROOT
        return [n for n in names if n.startswith(".") or n.endswith(".egg-info") or (at_top and n in skipped)]

    shutil.copytree(ROOT, source, ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(source)], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    shutil.unpack_archive(built, folder / "driver", "zip")
    return built.rename(folder / "kraft_forensics.zip")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def submitted(cluster: Cluster, wheel: Path, folder: Path, *conf: str) -> subprocess.Popen[bytes]:
    """`run` on the cluster by spark-submit. Executors get the wheel's archive and no path of the checkout."""
    folder.mkdir(parents=True)
    (folder / "driver.py").write_text(DRIVER)
    jars = ",".join(str(jar) for jar in sorted(load_settings().spark.jars_path().glob("*.jar")))
    set_ = [f"--conf={c}" for c in (*CONF, *conf)]
    caches = f"spark.executorEnv.NUMBA_CACHE_DIR={folder.parent / 'numba'}"
    where = ["--master", cluster.url, "--executor-memory", "1g", "--driver-memory", "2g"]
    files = ["--jars", jars, "--archives", f"{wheel}#kf"]
    command = [str(SPARK_HOME / "bin" / "spark-submit"), *where, *files, *set_, f"--conf={caches}"]
    command += [str(folder / "driver.py"), "run", str(unpacked(folder.parent)), "--lake", str(folder / "lake")]
    driver = {"PYTHONPATH": str(wheel.parent / "driver"), "KRAFT_FORENSICS_SPARK__JARS_MODE": "provided"}
    own = environment(**SETTINGS, **driver)
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=own, cwd=folder, stdout=log, stderr=subprocess.STDOUT)


def unpacked(folder: Path) -> Path:
    """The capture as a folder on storage that every node sees."""
    target = folder / "captures"
    if not target.exists():
        shutil.unpack_archive(capture("unclean"), target)
    return target / "unclean"


def test_a_cluster_gives_the_same_tables_and_its_executors_run_the_wheel(
    cluster: Cluster, wheel: Path, tmp_path: Path
) -> None:
    """With speculative tasks, and an executor that is killed."""
    (events := tmp_path / "events").mkdir()
    logged = ("spark.eventLog.enabled=true", "spark.eventLog.compress=false", f"spark.eventLog.dir={events.as_uri()}")
    speculation = ("spark.speculation=true", "spark.speculation.multiplier=1.1", "spark.speculation.quantile=0.1")
    process = submitted(cluster, wheel, tmp_path / "run", *logged, *speculation)
    lake, places, victims = Lake(tmp_path / "run" / "lake"), set(), list[int]()
    history = tmp_path / "run" / "lake" / "metadata_records" / "_delta_log"
    while process.poll() is None:
        places |= set(cluster.work.glob("*/app-*/*/kf/jobs/ingest/records.py"))
        if not victims and list(history.glob("*1.json")):
            victims = cluster.executors()
            assert victims, said(tmp_path / "run")
            os.kill(victims[0], signal.SIGKILL)
        time.sleep(0.2)
    assert process.wait() == 0, said(tmp_path / "run")
    assert victims
    whole = digests(lake)
    assert whole["partition_history"][0] == 148
    alone = Pipeline(tmp_path / "alone", [unpacked(tmp_path)])
    alone.run()
    assert whole == digests(alone.lake)
    # One executor on each worker unpacked the wheel.
    assert len({place.relative_to(cluster.work).parts[0] for place in places}) == 2
    # Spark knows each job by what it does, and by the run.
    (run,) = lake.read("runs", None).to_pylist()
    names, jobs = {f"{run['run_id']} {name}" for name in json.loads(run["tasks"])}, set(_jobs_in(events))
    assert len(names) >= 5
    assert names <= jobs


def said(folder: Path) -> str:
    return (folder / "log").read_text(errors="replace")[-3000:]


def _jobs_in(events: Path) -> Iterator[str]:
    """The group and the description of each job of an event log."""
    for file in (file for file in events.rglob("*") if file.is_file()):
        for line in file.read_text().splitlines():
            if '"SparkListenerJobStart"' in line:
                properties = json.loads(line)["Properties"]
                yield f"{properties['spark.jobGroup.id']} {properties['spark.job.description']}"
