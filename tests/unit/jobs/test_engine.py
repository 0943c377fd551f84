"""What runs the tasks, and what stages refuse: the setting `engine`, and --engine; limits, by topic, figure and the
setting's name. While Spark starts: tests/spark/conftest.py.
"""

import os
import sys
import tarfile
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import pytest

from evidence.errors import KraftForensicsError
from evidence.limits import DEFAULT_LIMITS, Limits
from jobs.config.settings import Settings, SettingsError, default_values, load_settings
from jobs.detect.stage import run_detect
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.lake.runs import Run, Size
from jobs.replay.stage import replay
from jobs.spark.session import SessionError, _configuration
from jobs.spark.tasks import engine, is_local, run_tasks
from tests.faults.sizes import write_windows
from tests.support import writer
from tests.support.invoked import invoke
from tests.support.small_captures import SEGMENT, write_files


def test_by_default_spark_runs_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KRAFT_FORENSICS_ENGINE")
    assert (default_values()["engine"], load_settings().engine) == ("spark", "spark")
    assert not is_local(1, load_settings())


@pytest.mark.parametrize(
    ("name", "rows", "here"),
    [("spark", 0, False), ("local", 10**12, True), ("auto", 99_999, True), ("auto", 100_000, False)],
)
def test_where_tasks_run(name: str, rows: int, here: bool) -> None:
    assert is_local(rows, load_settings(name)) == here


def test_an_option_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRAFT_FORENSICS_ENGINE", "local")
    assert (load_settings().engine, load_settings("auto").engine) == ("local", "auto")
    monkeypatch.setenv("KRAFT_FORENSICS_ENGINE", "dask")
    with pytest.raises(SettingsError, match=r"setting engine: .*'spark', 'local' or 'auto'"):
        load_settings()


def test_without_tasks_spark_does_not_start() -> None:
    assert run_tasks(str, [], 0, load_settings("spark"), "nothing") == []
    assert engine(load_settings("spark")) is None
    assert engine(load_settings("local")) == "local"


_MIB = 1 << 20


def took(mib: int) -> int:
    return len(bytearray(b"x" * (mib * _MIB)))


def test_a_run_knows_the_slowest_and_the_largest_task_of_each_job() -> None:
    run = Run("take")
    with run.measured():
        found = run_tasks(took, [1, 200, 3], 3, load_settings("local"), "take", lambda mib: Size(10 * mib, mib))
        run_tasks(took, [1], 1, load_settings("local"), "take again")
    assert found == [_MIB, 200 * _MIB, 3 * _MIB]
    taken, again = run.taken()["take"], run.taken()
    assert (taken["tasks"], taken["largest"]["rows"], taken["largest"]["bytes"]) == (3, 2000, 200)
    assert taken["slowest"]["seconds"] >= 0
    # Of its own: what the process took before does not count.
    assert 200 * _MIB < taken["peak_memory_bytes"] == taken["largest"]["peak_memory_bytes"]
    assert again == {}
    run_tasks(took, [1], 1, load_settings("local"), "take")
    assert run.taken() == {}


def test_the_largest_task_begins_first(tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def noted(number: int) -> int:
        with begun.open("a") as file:
            file.write(f"{number} ")
        return number

    given = [3, 1, 9, 2]
    assert run_tasks(noted, given, 4, load_settings("local"), "note", lambda n: Size(None, n)) == given
    assert begun.read_text().split() == ["9", "3", "2", "1"]


@pytest.mark.parametrize(
    ("error", "fails", "tries"), [(OSError, 2, 3), (OSError, 3, 3), (FileNotFoundError, 1, 1), (ValueError, 1, 1)]
)
def test_a_task_begins_again_if_the_storage_fails(
    tmp_path: Path, error: type[Exception], fails: int, tries: int
) -> None:
    """Twice, and not for a file that is missing."""
    tried = tmp_path / "tried"

    def read(number: int) -> int:
        with tried.open("a") as file:
            file.write(".")
        if len(tried.read_text()) <= fails:
            raise error("no answer")
        return number

    with nullcontext() if fails < tries else pytest.raises(error, match="no answer"):
        assert run_tasks(read, [7], 1, load_settings("local"), "read") == [7]
    assert len(tried.read_text()) == tries


@pytest.mark.parametrize("name", ["pyspark", "pyspark.sql.connect.session"])
def test_the_engine_while_another_thread_imports_spark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # as it is before its first line has run
    assert engine(load_settings("spark")) is None


def test_without_java_one_line_names_the_other_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    given = write_files(tmp_path / "capture", {SEGMENT: b"".join(writer.log())})
    words = ["run", str(given), "--lake", str(tmp_path / "lake"), "--engine", "spark"]
    done = invoke(words)
    text = "Java 17 or newer: set JAVA_HOME or PATH. `run` and each stage need no Spark with `--engine local`."
    assert (type(done.exception), str(done.exception)) == (SessionError, f"Spark needs {text}")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("sc://127.0.0.1:1", "SPARK_REMOTE: nobody answers at 127.0.0.1:1 (Connection refused)."),
        ("spark://127.0.0.1:1", "SPARK_REMOTE: [INVALID_CONNECT_URL]"),
    ],
)
def test_a_connect_server_that_cannot_be_had_is_one_line(
    address: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", address)
    with pytest.raises(SessionError) as refused:
        run_tasks(str, [1], 1, load_settings("spark"), "nothing")
    assert str(refused.value).startswith(text)
    assert str(refused.value).endswith("`run` and each stage need no Spark with `--engine local`.")


def test_an_empty_address_is_none_for_java_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`SPARK_REMOTE= kraft-forensics sql`: spark-submit refuses a master beside it, whatever it is."""
    for name in ("SPARK_REMOTE", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
    assert str(_configuration(load_settings("spark").spark).get("spark.master")).startswith("local[")
    assert "SPARK_REMOTE" not in os.environ


CHANGES = 40


def settings(**limits: int) -> Settings:
    found = load_settings()
    return found.model_copy(update={"limits": replace(found.limits, **limits)})


# A value of each limit that the capture of the test below is beyond.
TOO_SMALL = {
    "capture_files": 3,
    "capture_bytes": 1000,
    "compression_ratio": 2,
    "text_file_bytes": 150,
    "text_file_lines": 40,
    "partition_lines": 10,
    "damaged_lines": 10,
    "topic_rows": CHANGES,
    "topic_windows": CHANGES // 2 - 1,
    "findings": CHANGES - 1,
}
SAID = {
    "topic_rows": "topic orders: 41 partition records, limits.topic_rows = 40 allows fewer",
    "topic_windows": "topic orders: 20 windows to judge, limits.topic_windows = 19 allows fewer",
    "findings": "findings, limits.findings = 39 allows fewer",
}


def test_every_limit_has_a_value_here() -> None:
    assert set(TOO_SMALL) == set(asdict(Limits()))


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture that no stage refuses by itself."""
    folder = tmp_path_factory.mktemp("every-limit")
    write_windows(folder / "capture", CHANGES // 2)
    data = folder / "capture" / "snapshots" / "1795000000000" / "broker-1"
    (data / "orders-0").mkdir(parents=True)
    (data / "zeros").write_bytes(bytes(4 << 20))
    epochs = "".join(f"{epoch} {3 * epoch}\n" for epoch in range(20))
    (data / "orders-0" / "leader-epoch-checkpoint").write_text(f"0\n20\n{epochs}")
    marks = "".join(f"orders {partition} 9\n" for partition in range(50))
    (data / "replication-offset-checkpoint").write_text(f"0\n50\n{marks}")
    (data / "recovery-point-offset-checkpoint").write_text("0\n20\n" + "x\n" * 20)
    with tarfile.open(folder / "capture.tar.gz", "w:gz") as tar:
        tar.add(folder / "capture", "capture")
    return folder / "capture.tar.gz"


def all_stages(root: Path, archive: Path, given: Settings) -> str:
    """What is said about limits when a capture goes through all stages."""
    lake = Lake(root)
    try:
        ingested = ingest(lake, archive, given, lambda _: None)
        replay(lake, "sizes", given, lambda _: None)
        run_detect(lake, "sizes", given, lambda _: None)
    except KraftForensicsError as error:
        return str(error)
    return "\n".join(message for message in ingested.quarantined if "limits." in message)


@pytest.mark.parametrize("name", sorted(TOO_SMALL))
def test_what_is_beyond_a_limit_is_refused_by_its_name(name: str, archive: Path, tmp_path: Path) -> None:
    said = all_stages(tmp_path, archive, settings(**{name: TOO_SMALL[name]}))
    assert f"limits.{name} = {TOO_SMALL[name]} " in said
    assert SAID.get(name, "") in said
    # What is refused leaves no rows.
    assert name not in SAID or not len(Lake(tmp_path).read("findings", "sizes"))


def test_the_capture_of_that_test_is_within_the_limits(archive: Path, tmp_path: Path) -> None:
    """Also where they allow just what it has."""
    allowed = settings(topic_rows=CHANGES + 1, topic_windows=CHANGES // 2)
    assert all_stages(tmp_path, archive, allowed) == ""


def test_the_settings_are_those_of_the_readers() -> None:
    assert load_settings().limits == DEFAULT_LIMITS == Limits()
