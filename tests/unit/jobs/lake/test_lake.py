"""Tables read and written without Spark, and where they may be. tests/spark/test_lake.py: Spark reads them, too."""

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from evidence.capture.remote import Location, Remote, location
from evidence.errors import KraftForensicsError
from evidence.tables import EVIDENCE_FILES, LOG_BATCHES, QUARANTINE
from jobs.lake import data_files, marks
from jobs.lake.data_files import write_file
from jobs.lake.lake import Lake
from jobs.lake.marks import ChangedMeanwhileError, OpenedTable, OtherReleaseError
from jobs.lake.storage import LakeError, Storage, check_root, first_bytes, shown, within, write_whole
from jobs.lake.tables import LAYOUT, TABLES
from tests.support.invoked import invoke
from tests.support.paths import ROOT
from tests.support.report_rows import lake_of

PROGRAM = ROOT / "tests" / "cases" / "reads_a_table_and_ends" / "program.py"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """With an evidence_files of 20 files, each a commit of its own."""
    for number in range(20):
        rows = {"cluster_id": ["c"] * 1000, "capture": [f"capture-{number}"] * 1000, "size_bytes": [number] * 1000}
        write_deltalake(tmp_path / "evidence_files", pa.table(rows), mode="append", partition_by=["cluster_id"])
    return tmp_path


def test_a_table_is_as_another_process_left_it(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A lake that has opened a table notices whatever happens to its log."""
    files, older = Lake(lake), tmp_path_factory.mktemp("older")
    table, log = lake / "evidence_files", lake / "evidence_files" / "_delta_log"
    shutil.copytree(table, older / "evidence_files")
    rows = pa.table({"cluster_id": ["c"], "capture": ["another"], "size_bytes": [1]})
    for count in (20_001, 20_002):
        files.count("evidence_files", "c")
        write_deltalake(table, rows, mode="append", partition_by=["cluster_id"])
        assert files.count("evidence_files", "c") == count
    shutil.rmtree(table)
    with pytest.raises(LakeError, match="is missing"):
        files.count("evidence_files", "c")
    shutil.copytree(older / "evidence_files", table)
    assert files.count("evidence_files", "c") == 20_000
    sorted(log.glob("*.json"))[3].unlink()
    with pytest.raises(LakeError, match="cannot be read"):
        files.count("evidence_files", "c")


def test_a_process_that_has_read_ends_in_peace(lake: Path) -> None:
    """tests/cases/reads_a_table_and_ends: most of these processes were aborted."""
    done = subprocess.run([sys.executable, PROGRAM, lake], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_new_lake_may_be_created_by_several_at_once(tmp_path: Path) -> None:
    """Whoever came second was refused (`Protocol changed since last commit`), or created tables once more, and those
    had no checks."""
    begin = threading.Barrier(4)

    def create(_: int) -> None:
        begin.wait()
        Lake(tmp_path).create()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(4)))
    made = Lake(tmp_path)
    for name, table in TABLES.items():
        constraints = [x for x in made.delta(name).metadata().configuration if x.startswith("delta.constraints.")]
        assert (made.version(name), len(constraints)) == (bool(table.constraints), len(table.constraints)), name


def test_a_place_where_no_lake_can_be_is_named(tmp_path: Path) -> None:
    """Delta named one of its tables."""
    (tmp_path / "file").touch()
    with pytest.raises(LakeError, match=r"file/lake: no lake can be created here: .*Not a directory.* another folder"):
        Lake(tmp_path / "file" / "lake").create()


@pytest.fixture
def fresh(tmp_path: Path) -> Lake:
    return lake_of(tmp_path / "fresh", "c")


def damage(*positions: int | None) -> pa.Table:
    rows = [{"capture": "x", "path": "f", "sha256": "s", "position": p, "reason": "crc"} for p in positions]
    return pa.Table.from_pylist(rows, schema=QUARANTINE)


def positions(lake: Lake, cluster: str) -> list[int | None]:
    return sorted((r["position"] for r in lake.rows("quarantine", cluster)), key=lambda p: -1 if p is None else p)


@pytest.mark.parametrize("name", ["~", "a b#tag?x+é it's:;{a}\"`a`$x"])
def test_other_names_of_folders_are_just_names(tmp_path: Path, name: str) -> None:
    lake = Lake(tmp_path / name)
    lake.create()
    assert lake.append("quarantine", "c", damage(1)) == 1
    assert lake.count("quarantine", "c") == 1
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert list((tmp_path / name / "quarantine").glob("*.parquet"))


def test_what_is_there_is_not_appended_again(fresh: Lake) -> None:
    assert fresh.append("quarantine", "c", damage(1, 2, 2, None)) == 3
    assert fresh.append("quarantine", "c", damage(None, 2, 3)) == 1
    assert positions(fresh, "c") == [None, 1, 2, 3]
    before = fresh.version("quarantine")
    assert fresh.append("quarantine", "c", damage(1, 2, 3)) == 0
    assert fresh.version("quarantine") == before


def batches(*offsets: int) -> pa.Table:
    schema = pa.schema([f for f in TABLES["log_batches"].schema if f.name != "cluster_id"])
    assert set(LOG_BATCHES.names) <= set(schema.names)
    return pa.Table.from_pylist([{"epoch": 1, "base_offset": o, "crc": 7, "nodes": [1, 2]} for o in offsets], schema)


@pytest.mark.parametrize("cluster", ["c", "d's", "x' or 'x' = 'x", "back\\slash"])
def test_put_replaces_one_clusters_rows(fresh: Lake, cluster: str) -> None:
    fresh.put("log_batches", "other", batches(1, 2))
    fresh.put("log_batches", cluster, batches(3))
    assert fresh.put("log_batches", cluster, batches(4, 5)) == 2
    assert sorted(r["base_offset"] for r in fresh.rows("log_batches", cluster)) == [4, 5]
    assert fresh.count("log_batches", "other") == 2
    assert fresh.rows("log_batches", cluster)[0]["nodes"] == [1, 2]


def test_a_table_that_has_its_columns_keeps_its_metadata(fresh: Lake) -> None:
    """With the comments of its columns."""
    before = fresh.delta("log_batches").schema().to_json()
    fresh.put("log_batches", "c", batches(1))
    assert fresh.delta("log_batches").schema().to_json() == before


def test_rows_that_a_constraint_forbids_are_not_written(fresh: Lake) -> None:
    names = ("size_bytes", "parsed_bytes", "quarantined_bytes", "trailing_bytes")
    row = {"capture": "x", "path": "f", "sha256": "s", **dict.fromkeys(names, 1)}
    with pytest.raises(LakeError, match="every_byte"):
        fresh.append("evidence_files", "c", pa.Table.from_pylist([row], schema=EVIDENCE_FILES))
    assert fresh.clusters() == []


def test_a_large_table_is_written_step_by_step(fresh: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "_STEP_ROWS", 7)
    before = fresh.version("quarantine")
    assert fresh.append("quarantine", "c", damage(*range(30))) == 30
    assert positions(fresh, "c") == list(range(30))
    assert fresh.version("quarantine") == before + 1


@pytest.mark.parametrize("table", ["evidence_files", "runs"])
def test_a_lake_of_another_layout_is_refused(fresh: Lake, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every command, with the exit code of the error (`main`), before anything is changed."""
    monkeypatch.setattr(marks, "LAYOUT", "2-0123abcd")
    fresh.commit(table, "c", [])
    monkeypatch.undo()
    versions = [fresh.version(name) for name in TABLES]
    for words in (["status"], ["detect"], ["windows"], ["maintain"], ["verify"], ["ingest", str(fresh.root)]):
        error = invoke([*words, "--lake", str(fresh.root)]).exception
        assert isinstance(error, OtherReleaseError), words
        assert error.exit_code == 5
        assert f"the layout 2-0123abcd, those of this program {LAYOUT}. Make a new lake and ingest" in str(error)
    assert [fresh.version(name) for name in TABLES] == versions


def test_a_lake_that_exists_has_every_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it was being created when the process was killed: until its last table there is no lake."""
    lake, real, was_there = Lake(tmp_path), DeltaTable.create, list[bool]()

    def create(*of: Any, **options: Any) -> DeltaTable:
        was_there.append(lake.exists())
        return real(*of, **options)

    monkeypatch.setattr(DeltaTable, "create", create)
    lake.create()
    assert (lake.exists(), was_there) == (True, [False] * len(TABLES))


def test_a_file_that_two_writers_replace_is_replaced_once(fresh: Lake) -> None:
    """The second writer read a version in which the file still was: its commit is refused."""
    fresh.put("log_batches", "c", batches(1))
    before = fresh.cluster_version("log_batches", "c")
    fresh.put("log_batches", "c", batches(2))
    with pytest.raises(ChangedMeanwhileError, match="another run"):
        fresh.put("log_batches", "c", batches(3), since=before)
    assert [r["base_offset"] for r in fresh.rows("log_batches", "c")] == [2]


class OvertakenLake(Lake):
    """Another writer adds rows of the cluster after each time that this one has read."""

    def read(self, *args: Any, **options: Any) -> pa.Table:
        found = super().read(*args, **options)
        Lake(self.root).append("quarantine", "c", damage(7, 8))
        return found


def test_two_writers_of_one_cluster_do_not_add_the_same_rows(fresh: Lake) -> None:
    """Two runs at once on the same capture: the second one compares its rows again."""
    assert OvertakenLake(fresh.root).append("quarantine", "c", damage(7, 8, 9)) == 1
    assert positions(fresh, "c") == [7, 8, 9]


class LateLake(Lake):
    """Another writer adds rows of the cluster after this one has opened a table, before it looks at the commits."""

    def opened(self, name: str) -> OpenedTable:
        table = super().opened(name)
        Lake(self.root).append("quarantine", "c", damage(table.delta.version() + 10))
        return table


def test_a_commit_after_the_table_was_opened_is_no_change_by_another_program(fresh: Lake) -> None:
    fresh.append("quarantine", "c", damage(7))
    assert LateLake(fresh.root).head("quarantine", "c").problem is None
    assert len(positions(fresh, "c")) == 2


def test_a_commit_of_another_cluster_in_between_is_no_conflict(fresh: Lake) -> None:
    """Also where it removes files: the commit is tried again on the newest version."""
    for cluster in ("c", "d"):
        fresh.put("log_batches", cluster, batches(1))
    since, old = fresh.cluster_version("log_batches", "c"), fresh.files("log_batches", "c")
    fresh.put("log_batches", "d", batches(2))
    fresh.commit("log_batches", "c", [write_file(fresh.storage, "log_batches", batches(3))], old, since=since)
    assert [r["base_offset"] for r in fresh.rows("log_batches", "c")] == [3]
    assert [r["base_offset"] for r in fresh.rows("log_batches", "d")] == [2]


def test_rows_are_counted_by_cluster_also_in_a_file_whose_rows_the_log_does_not_say(fresh: Lake) -> None:
    fresh.append("quarantine", "a", damage(1, 2))
    fresh.append("quarantine", "b", damage(3))
    assert [fresh.count("quarantine", cluster) for cluster in ("a", "b", "c")] == [2, 1, 0]
    assert fresh.count("quarantine", "a", pc.field("position") == 2) == 1
    file = write_file(fresh.storage, "quarantine", damage(4, 5, 6))
    table = fresh.delta("quarantine")
    actions = [AddAction(file.name, file.size_bytes, {"cluster_id": "b"}, 0, True, "{}")]
    table.create_write_transaction(actions, "append", table.schema(), "cluster_id")
    assert [fresh.count("quarantine", cluster) for cluster in ("a", "b", "c")] == [2, 4, 0]


@pytest.fixture(params=["path", "url"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    return tmp_path if request.param == "path" else Remote(tmp_path.as_uri())


@pytest.mark.parametrize("url", ["s3://b/lake", "s3a://b/lake", "gs://b/lake", "abfs://c@a.host/lake", "abfss://c@a/x"])
def test_a_lake_may_be_in_these_stores(url: str) -> None:
    check_root(location(url))


@pytest.mark.parametrize("scheme", ["http", "https", "ftp", "hdfs", "file", "memory"])
def test_a_lake_cannot_be_elsewhere_and_the_message_shows_no_secret(scheme: str) -> None:
    with pytest.raises(LakeError) as error:
        check_root(location(f"{scheme}://user:pass%5Bword@host/lake?token=secret"))
    assert str(error.value).startswith(f"{scheme}://host/lake")
    assert "s3, gs, abfs, abfss" in str(error.value)
    assert not [word for word in ("user", "pass", "secret") if word in str(error.value)]


@pytest.mark.parametrize("character", "%[]\\^|\t\n\x00\x1f\x7f")
def test_a_path_that_would_be_misread_is_refused_wherever_the_character_is(tmp_path: Path, character: str) -> None:
    if character == "\x00":
        with pytest.raises((LakeError, ValueError)):
            check_root(tmp_path / "a\x00b")
        return
    for path in (tmp_path / f"a{character}b", tmp_path / f"{character}a" / "lake"):
        with pytest.raises(LakeError, match=r"must not contain .* Choose another --lake"):
            Lake(path)
    (tmp_path / f"x{character}").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / f"x{character}")
    with pytest.raises(LakeError, match="must not contain"):
        check_root(tmp_path / "link" / "lake")


def test_within_a_folder_or_a_url() -> None:
    assert within(Path("lake"), "_data_docs/index.html") == Path("lake/_data_docs/index.html")
    for url in ("s3://bucket/lake", "s3://bucket/lake/", "s3://bucket/lake//"):
        assert within(Remote(url), "report.html") == Remote("s3://bucket/lake/report.html")


def test_files_are_written_read_and_deleted(root: Location, tmp_path: Path) -> None:
    storage = Storage(root)
    if isinstance(root, Remote):
        (tmp_path / "table").mkdir()  # a store has no folders
    with storage.new("table/a b") as file:
        file.write(b"rows")
    assert (tmp_path / "table" / "a b").read_bytes() == b"rows"
    with storage.open("table/a b") as file:
        assert file.read() == b"rows"
    storage.delete("table/a b")
    assert list((tmp_path / "table").iterdir()) == []
    storage.delete("table/a b")  # gone already
    with pytest.raises(OSError, match="a b"):
        storage.open("table/a b")


def test_plain_http_is_allowed_only_where_the_endpoint_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for endpoint, expected in (("http://127.0.0.1:1", {"allow_http": "true"}), ("https://host", None), ("", None)):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert Storage(Remote("s3://b/lake")).delta_options == expected
        assert Storage(Path("lake")).delta_options is None


def test_a_page_is_written_and_its_beginning_is_read(root: Location) -> None:
    page = within(root, "page.html")
    assert first_bytes(page, 10) == b""
    write_whole(page, "größer\n")
    assert first_bytes(page, 3) == b"gr\xc3"
    assert first_bytes(page, 1000) == "größer\n".encode()
    write_whole(page, "new")
    assert first_bytes(page, 1000) == b"new"


def test_the_beginning_of_what_is_no_file_is_nothing(tmp_path: Path) -> None:
    assert first_bytes(tmp_path, 10) == b""
    assert first_bytes(Remote(tmp_path.as_uri()), 10) == b""
    assert first_bytes(tmp_path / "missing" / "page", 10) == b""


def test_what_is_shown_has_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(Path("lake")) == str(tmp_path / "lake")
    assert shown(location("s3a://key:secret@bucket/lake")) == "s3://bucket/lake"


@pytest.mark.parametrize(("error", "raised"), [(OSError, KraftForensicsError), (ValueError, ValueError)])
def test_what_fails_leaves_the_older_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], raised: type[Exception]
) -> None:
    file = tmp_path / "page.html"
    write_whole(file, "old")

    def half(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text.encode(encoding)[:2])
        raise error

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(raised):
        write_whole(file, "new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_no_regular_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text, encoding="utf-8")
        write_whole(pipe, "all of it")
        assert read.result() == "all of it"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
