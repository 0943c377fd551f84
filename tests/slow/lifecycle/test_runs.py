"""The table `runs`: what commands record, however they end."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from jobs.cli.lakes import recorded
from jobs.console import signals
from jobs.console.signals import StoppedError
from jobs.custody.tables import check_tables
from jobs.lake.integrity import CODE_VERSION, made_from
from jobs.lake.lake import Lake
from tests.slow.lifecycle.conftest import command
from tests.support.invoked import invoke
from tests.support.small_captures import diverged

Row = dict[str, Any]


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return diverged(tmp_path_factory.mktemp("diverged"))[1]


@pytest.fixture(scope="module")
def lake(capture: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """After an ingest, a detect without a replay's findings to fail on, a detect that fails on them, and two errors."""
    made = Lake(tmp_path_factory.mktemp("runs") / "lake")
    assert command(made, "ingest", str(capture)).exit_code == 0
    assert command(made, "replay").exit_code == 0
    assert command(made, "detect", "--fail-on", "info").exit_code == 3
    assert command(made, "ingest", str(capture / "none")).exit_code == 1
    return made


def runs(lake: Lake) -> list[Row]:
    return sorted(lake.read("runs", None).to_pylist(), key=lambda row: row["started_ms"])


def test_every_run_has_a_row(lake: Lake) -> None:
    found = runs(lake)
    assert [(row["command"], row["outcome"], row["exit_code"]) for row in found] == [
        ("ingest", "done", 0),
        ("replay", "done", 0),
        ("detect", "done", 3),
        ("ingest", "failed", 1),
    ]
    cluster = lake.clusters()[0]
    assert [row["cluster_id"] for row in found] == [cluster, cluster, cluster, "unknown"]
    assert len({row["run_id"] for row in found}) == 4
    assert all(row["started_ms"] <= row["ended_ms"] and row["code_version"] == CODE_VERSION for row in found)


def test_a_row_says_what_went_in_and_what_came_out(lake: Lake, capture: Path) -> None:
    ingested, replayed, detected, failed = runs(lake)
    cluster = lake.clusters()[0]
    assert ingested["captures"] == [capture.name]
    assert (
        dict(zip(ingested["captures"], ingested["capture_digests"], strict=True))
        == (made_from(lake, cluster)["captures"])
    )
    assert json.loads(ingested["counts"])["evidence_files"] == lake.count("evidence_files", cluster)
    assert json.loads(replayed["counts"]) == {"partition_history": lake.count("partition_history", cluster)}
    assert json.loads(detected["counts"]) == {"findings": lake.count("findings", cluster)}
    assert [set(json.loads(row["durations_ms"])) for row in (ingested, replayed, detected)] == (
        [{"ingest"}, {"replay"}, {"detect"}]
    )
    jobs = [json.loads(row["tasks"]) for row in (ingested, replayed, detected)]
    assert [{name.partition(":")[0] for name in of_run} for of_run in jobs] == [{"ingest"}, {"replay"}, {"detect"}]
    (replaying,) = jobs[1].values()
    assert (
        {"rows", "bytes", "seconds", "peak_memory_bytes"} == replaying["slowest"].keys() == replaying["largest"].keys()
    )
    assert [row["valid"] is None for row in (ingested, replayed, detected)] == [True, True, False]
    assert {row["evidence"] for row in (ingested, replayed, detected)} == {lake.head("evidence_files", cluster).id}
    assert failed["error"].startswith(f"{capture / 'none'}: no such file or folder")
    assert (failed["captures"], failed["evidence"]) == (["none"], None)


def test_the_chain_of_runs_is_whole(lake: Lake) -> None:
    assert list(check_tables(lake, lake.clusters()[0])) == []


@pytest.mark.parametrize("error", [StoppedError(signal.SIGTERM), RuntimeError("Query interrupted")])
def test_a_run_that_a_signal_stops_is_recorded(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """DuckDB raises its own error after one."""
    monkeypatch.setattr(signals._watch, "received", signal.SIGTERM)
    cluster = type(error).__name__

    def stopped() -> None:
        with recorded("replay", lake.root) as record:
            record.of(cluster)
            raise error

    with pytest.raises(type(error)):
        stopped()
    (row,) = [row for row in runs(lake) if row["cluster_id"] == cluster]
    assert (row["outcome"], row["exit_code"], row["error"]) == ("stopped", 143, None)


def test_nothing_is_recorded_where_no_lake_is(tmp_path: Path) -> None:
    assert command(Lake(tmp_path / "none"), "replay").exit_code == 1
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_recorded_is_a_warning(capture: Path, tmp_path: Path) -> None:
    """Another program has changed the table: the run ends as it would."""
    lake = Lake(tmp_path / "lake")
    assert command(lake, "ingest", str(capture)).exit_code == 0
    row = {**runs(lake)[0], "run_id": "planted"}
    write_deltalake(lake.storage.url("runs"), lake.read("runs", None).from_pylist([row]), mode="append")
    result = invoke(["ingest", str(capture), "--lake", str(lake.root)])
    assert result.exit_code == 0
    assert "the run is not recorded in the table runs: " in result.stderr


def test_runs_are_recorded_at_the_same_time(lake: Lake) -> None:
    code = (
        "import sys; from pathlib import Path; from jobs.cli.lakes import recorded\n"
        "for _ in range(5):\n"
        "    with recorded('quality', Path(sys.argv[1])) as record:\n"
        "        record.of('both')\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(lake.root)]) for _ in range(2)]
    assert [process.wait(600) for process in started] == [0, 0]
    assert len([row for row in runs(lake) if row["cluster_id"] == "both"]) == 10
