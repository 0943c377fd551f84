"""Captures and lakes in S3: the tables are those of the same captures and lakes on disk."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kraft_forensics
from evidence import kinds
from evidence.capture.files import open_capture
from evidence.capture.remote import location
from evidence.errors import CaptureError
from evidence.metadata_log.rows import work_of
from evidence.metadata_log.scan import scan_files
from evidence.tables import QUARANTINE
from jobs.config.settings import load_settings
from jobs.custody.tables import check_tables
from jobs.ingest.records import DecodingTask
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.pipeline import Pipeline
from jobs.spark.tasks import run_tasks
from tests.support import s3
from tests.support.digests import digests
from tests.support.invoked import invoke
from tests.support.paths import ROOT, capture, controllers, unpacked
from tests.support.small_captures import diverged
from tests.support.spark_lake import SparkLake
from tests.support.writer import flip, log

NAME, OTHER = "jbod-4.1.1", "jbod-4.0.2"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.Store]:
    folder = tmp_path_factory.mktemp("moto")
    with s3.moto(folder / "log") as running, pytest.MonkeyPatch.context() as patch:
        s3.use(patch, running.endpoint, folder)
        yield running


def ingested(root: Path, *captures: Path | str) -> SparkLake:
    pipeline = Pipeline(root, captures)
    pipeline.ingest()
    return pipeline.lake


def test_the_tables_are_those_of_the_captures_on_disk(store: s3.Store, tmp_path: Path) -> None:
    """A folder, an archive and a single file."""
    folder = unpacked(NAME, tmp_path)
    places = [folder, capture(OTHER), next(folder.rglob("*.log"))]
    store.bucket("captures", {})
    keys = [f"{place.parent.name}/{place.name}" for place in places]
    for place, key in zip(places, keys, strict=True):
        store.upload(place, "captures", key)
    expected = digests(ingested(tmp_path / "disk", *places))
    assert (expected["evidence_files"][0], expected["metadata_records"][0] > 0) == (11, True)
    assert digests(ingested(tmp_path / "s3", *(f"s3a://captures/{key}" for key in keys))) == expected


def test_spark_tasks_read_ranges_of_segments_where_they_are(store: s3.Store, tmp_path: Path) -> None:
    """Also of a damaged one. No segment or snapshot is copied."""
    folder = controllers("unclean", tmp_path)
    damaged = max(folder.rglob("__cluster_metadata-0/*.log"), key=lambda path: path.stat().st_size)
    damaged.write_bytes(flip(damaged.read_bytes(), damaged.stat().st_size // 2))
    store.bucket("ranges", {})
    store.upload(folder, "ranges", folder.name)
    assert copied(f"s3://ranges/{folder.name}") == set() < copied(folder)
    expected = digests(ingested(tmp_path / "disk", folder))
    assert min(expected[name][0] for name in ("quarantine", "metadata_records")) > 0
    pipeline = Pipeline(tmp_path / "s3", [f"s3://ranges/{folder.name}"])
    spark = pipeline.settings.spark.model_copy(update={"from_rows": 0})
    pipeline.settings = pipeline.settings.model_copy(update={"spark": spark})
    pipeline.ingest()
    assert digests(pipeline.lake) == expected


_RAW = """
import sys
from jobs.config.settings import load_settings
from jobs.spark.session import build_session
session = build_session(load_settings().spark)
for place in sys.argv[1:]:
    rows = session.read.format("kraft").load(place.split()).where("offset >= 50")
    print(sorted((row.offset, row.type, row.payload) for row in rows.collect()), flush=True)
"""


def test_spark_reads_raw_logs_where_they_are(store: s3.Store, tmp_path: Path) -> None:
    folder = controllers("unclean", tmp_path)
    store.bucket("raw", {})
    store.upload(folder, "raw", "tuesday")
    logs = [file.relative_to(folder) for file in folder.rglob("__cluster_metadata-0/0*.log")]
    listed = [" ".join(f"{place}/{log}" for log in logs) for place in (folder, "s3a://raw/tuesday")]
    # In a process of its own: Spark's workers have the environment in which it was started.
    (script := tmp_path / "raw.py").write_text(_RAW)
    command = [sys.executable, str(script), str(folder), "s3://raw/tuesday", *listed, "s3://raw/none"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert "s3://raw/none: no such object or folder" in done.stderr
    on_disk, in_store, of_logs, of_stored_logs = done.stdout.splitlines()
    assert (on_disk, of_logs) == (in_store, of_stored_logs)
    assert on_disk.count("PARTITION_CHANGE_RECORD") >= of_logs.count("PARTITION_CHANGE_RECORD") > 100


def copied(place: Path | str) -> set[str]:
    """Segments and snapshots of the metadata log that are on this machine while the capture is open."""
    with open_capture(location(place)) as found:
        log = [f for f in found.files if f.kind in (kinds.METADATA_SEGMENT, kinds.METADATA_CHECKPOINT)]
        assert log
        return {f.path for f in log if isinstance(f.source, Path)}


def test_an_object_replaced_between_framing_and_decoding_is_named(store: s3.Store, tmp_path: Path) -> None:
    """In a task of Spark: the command ends with the object's name, and not with a trace."""
    name = f"__cluster_metadata-0/{0:020d}.log"
    store.bucket("replaced", {name: b"".join(log(2000))})
    with open_capture(location("s3://replaced")) as found:
        work = work_of(scan_files(found.files), 64 << 10)
        store.put("replaced", name, b"".join(log(1999)))
        task = DecodingTask(Lake(tmp_path / "lake").storage, "metadata_records", "replaced", 1)
        with pytest.raises(CaptureError, match=f"^s3://replaced/{name}: the object changed after it was framed"):
            run_tasks(task, [[each] for each in work], 1, load_settings("spark"), "decode")


def test_what_was_ingested_from_disk_is_not_added_from_the_store(store: s3.Store, tmp_path: Path) -> None:
    store.bucket("known", {f"{NAME}.tar.xz": capture(NAME).read_bytes()})
    lake = ingested(tmp_path / "lake", capture(NAME))
    versions = {name: lake.version(name) for name in TABLES}
    assert versions["evidence_files"] > 0
    ingested(tmp_path / "lake", f"s3://known/{NAME}.tar.xz")
    assert {name: lake.version(name) for name in TABLES} == versions


def test_explain_shows_bytes_out_of_the_store(without_spark: Path, store: s3.Store) -> None:
    store.bucket("shown", {"unclean.tar.xz": capture("unclean").read_bytes()})
    words = ["explain", "ac1562", "--lake", str(without_spark), "--format", "json", "--capture"]
    places = ("s3://shown/unclean.tar.xz", str(capture("unclean")))
    shown = [invoke([*words, place]).stdout for place in places]
    assert shown[0] == shown[1]
    assert any(piece["bytes"]["text"] for piece in json.loads(shown[0])[0]["evidence"])


def test_a_capture_that_is_gone_when_it_is_its_turn(store: s3.Store, tmp_path: Path) -> None:
    store.bucket("gone", {"a.tar.xz": capture(NAME).read_bytes()})
    pipeline = Pipeline(tmp_path / "lake", ["s3://gone/a.tar.xz"])
    store.client.delete_object(Bucket="gone", Key="a.tar.xz")
    with pytest.raises(CaptureError, match=r"^s3://gone/a\.tar\.xz: no such object or folder"):
        pipeline.ingest()


# Lakes in a store

JSON = ["--format", "json"]


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "jobs.cli", *words]


def started(lake: str, *captures: str, stage: str = "run") -> subprocess.Popen[str]:
    """Without Spark: what it does with a store is tested above."""
    words = command(stage, *captures, "--lake", lake, "--engine", "local")
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def in_store(lake: str) -> dict[str, tuple[int, str]]:
    return digests(Lake(location(lake)))


@pytest.fixture(scope="module")
def runs(store: s3.Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, list[str]]:
    """(a lake on disk, a lake in the store, where the captures are in the store): two clusters, one as a folder and
    one as an archive."""
    folder = tmp_path_factory.mktemp("runs")
    places = [controllers("unclean", folder / "captures"), capture(NAME)]
    store.bucket("evidence", {})
    store.bucket("lakes", {})
    for place in places:
        store.upload(place, "evidence", place.name)
    urls = [f"s3://evidence/{place.name}" for place in places]
    Pipeline(folder / "lake", places).run()
    Pipeline("s3://lakes/one", urls).run()
    return folder / "lake", "s3://lakes/one", urls


def test_a_run_gives_the_tables_and_pages_of_a_lake_on_disk(runs: tuple[Path, str, list[str]], store: s3.Store) -> None:
    disk, url, _ = runs
    expected = digests(Lake(disk))
    assert min(expected[n][0] for n in ("metadata_records", "partition_history", "findings", "quality_results")) > 0
    assert in_store(url) == expected
    listed = store.client.get_paginator("list_objects_v2").paginate(Bucket="lakes", Prefix="one/")
    names = {entry["Key"].removeprefix("one/") for page in listed for entry in page["Contents"]}
    pages = {str(f.relative_to(disk)) for f in disk.rglob("*") if f.suffix in (".html", ".json", ".css", ".png")}
    pages = {name for name in pages if "_delta_log" not in name}
    assert len([name for name in pages if "index.html" in name]) >= 2
    assert not [name for name in names if name.startswith("_scratch") and not name.endswith("/")]
    # Great Expectations names pages after the time of the run.
    assert {n for n in pages if "validations" not in n} <= names
    for name in (n for n in pages if n.startswith("verdict")):
        body = store.client.get_object(Bucket="lakes", Key=f"one/{name}")["Body"].read()
        assert said(body) == said((disk / name).read_bytes())


def said(document: bytes) -> Any:
    """A verdict document or their index, without where the report is and which commits it was made from."""
    names = ("report", "made_from")
    return json.loads(document, object_hook=lambda found: {n: v for n, v in found.items() if n not in names})


def test_a_run_again_changes_nothing(runs: tuple[Path, str, list[str]], store: s3.Store) -> None:
    """And asks little: a commit is read when its table is opened and when its cluster's chain is looked at, by the
    command and by the lakes that it opens anew."""
    _, url, captures = runs
    before = store.reads()
    lake = Lake(location(url))
    versions = {name: lake.version(name) for name in TABLES}
    Pipeline(url, captures).run()
    assert {name: lake.version(name) for name in TABLES} == versions
    asked = store.reads() - before
    assert asked.total() < 1_500
    assert max(times for path, times in asked.items() if "/_delta_log/" in path) <= 10


def test_questions_have_the_answers_of_a_lake_on_disk(runs: tuple[Path, str, list[str]], tmp_path: Path) -> None:
    disk, url, _ = runs
    lake = Lake(disk)
    rows = lake.read("findings", None, ["finding_id", "cluster_id", "kind"]).to_pylist()
    window = next(row for row in rows if row["kind"] == "hwm_regression")
    cluster = ["--cluster", window["cluster_id"]]
    questions = [
        ["windows", "--all", *JSON],
        ["findings", "--limit", "5", *JSON],
        ["describe", "--at-offset", "200", *cluster],
        ["explain", window["finding_id"], *JSON],
        ["verdict", *cluster],
        ["whatif", "--strategy", "balanced", *cluster, *JSON],
    ]
    for words in questions:
        answers = [invoke([*words, "--lake", str(place)]) for place in (disk, url)]
        assert [answer.exit_code for answer in answers] == [0, 0], words
        assert answers[0].stdout.replace(str(disk), url) == answers[1].stdout != "", words
    page = tmp_path / "page.html"
    done = invoke(["report", "--lake", url, "--output", str(page)])
    assert done.exit_code == 0
    assert len(list(tmp_path.glob("page-*.html"))) == 2


def test_sql_reads_a_lake_in_the_store(runs: tuple[Path, str, list[str]]) -> None:
    disk, url, _ = runs
    query = "select cluster_id, kind, count(*) as n, min(finding_id) as id from findings group by all order by all"
    words = command("sql", query, "--lake", url, *JSON)
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1), done.stderr  # it names the clusters
    with kraft_forensics.duckdb(disk) as connection:
        assert json.loads(done.stdout) == connection.sql(query).to_arrow_table().to_pylist() != []


def test_sql_without_the_jars_for_the_store(
    runs: tuple[Path, str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so before Spark starts."""
    monkeypatch.setenv("KRAFT_FORENSICS_SPARK__JARS_DIR", str(tmp_path / "jars"))
    done = invoke(["sql", "select 1", "--lake", runs[1]])
    assert (done.exit_code, "Run `kraft-forensics setup --s3`" in str(done.exception)) == (1, True)


def test_a_lake_that_is_not_there(store: s3.Store) -> None:
    done = subprocess.run(
        command("windows", "--lake", "s3://no-such-bucket/lake"), cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, "NoSuchBucket" in done.stderr) == (1, True)
    assert (len(done.stderr.splitlines()), s3.SECRET in done.stderr, done.stdout) == (1, False, "")


def test_two_runs_at_once(runs: tuple[Path, str, list[str]], tmp_path: Path) -> None:
    """With two captures of one cluster: both end well, and the tables are those of one run after the other. On disk:
    tests/slow/test_races.py, also of one capture, and three at once in tests/alone/test_faults.py; commits of two
    clusters: tests/unit/jobs/lake/test_lake.py."""
    (whole, alone, _), expected = diverged(tmp_path / "diverged"), []
    for number, order in enumerate(([whole, alone], [alone, whole])):
        Pipeline(tmp_path / f"order-{number}", order).run()
        expected.append(digests(Lake(tmp_path / f"order-{number}")))
    lake = f"s3://lakes/{tmp_path.name}"
    processes = [started(lake, str(each)) for each in (whole, alone)]
    texts = [process.communicate(timeout=300)[1] for process in processes]
    for process, text in zip(processes, texts, strict=True):
        assert process.returncode in (0, 4), text  # 4: an expectation was not met
    for table, found in in_store(lake).items():
        # A batch of which both had records to write may be listed from one capture and stored from the other.
        assert found in [each[table] for each in expected] or table == "log_batches", table


def test_a_killed_run_and_a_repeat(runs: tuple[Path, str, list[str]], store: s3.Store) -> None:
    """Of the first cluster alone."""
    disk, _, captures = runs
    (cluster,) = (c for c in Lake(disk).clusters() if "unclean" in Lake(disk).captures(c))
    expected = digests(Lake(disk), cluster)
    process = started("s3://lakes/killed", captures[0])
    committed = "killed/partition_history/_delta_log/00000000000000000001.json"
    while process.poll() is None:
        if store.client.list_objects_v2(Bucket="lakes", Prefix=committed)["KeyCount"]:
            process.kill()
            break
        time.sleep(0.02)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert in_store("s3://lakes/killed") != expected
    Pipeline("s3://lakes/killed", captures[:1]).run()
    assert in_store("s3://lakes/killed") == expected


def test_a_table_in_the_store_that_another_hand_changed_is_named(store: s3.Store) -> None:
    store.bucket("custody", {})
    lake = Lake(location("s3://custody/lake"))
    lake.create()
    row = {"capture": "x", "path": "f", "sha256": "s", "position": 1, "reason": "crc"}
    lake.append("quarantine", "c", pa.Table.from_pylist([row], schema=QUARANTINE))
    assert list(check_tables(lake, "c")) == []
    (file,) = lake.files("quarantine", "c")
    key = f"lake/quarantine/{file.path}"
    data = bytearray(store.client.get_object(Bucket="custody", Key=key)["Body"].read())
    data[len(data) // 2] ^= 1
    store.put("custody", key, bytes(data))
    (found,) = check_tables(lake, "c")
    assert (found.table, found.what, found.file) == ("quarantine", "file_changed", file.path)
