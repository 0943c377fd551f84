"""`forget --older-than`: what old captures brought is gone, what is younger stays, and the lake goes on."""

import json
import shutil
import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from typer.testing import Result

from jobs.config.settings import load_settings
from jobs.custody.forget import remove, retention_of
from jobs.custody.tables import check_tables
from jobs.lake.integrity import receipts
from jobs.lake.lake import Lake
from jobs.lake.tables import INGESTED, KEPT_FINDINGS
from jobs.queries.status import status_of
from tests.bench.nights import Cluster, kept_files, write_capture
from tests.slow.lifecycle.conftest import command
from tests.slow.test_crashes import DiedError, DyingLake
from tests.support import writer
from tests.support.digests import digests
from tests.support.invoked import invoke

NIGHTS, DAY_MS = 10, 86_400_000
Row = dict[str, Any]


def done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A capture for each night, and one more. On the first and on the ninth day somebody led whom Kafka's rules would
    not have chosen."""
    folder, files = tmp_path_factory.mktemp("nights"), list[tuple[str, bytes]]()
    start = datetime.now(UTC) - timedelta(days=NIGHTS)
    cluster = Cluster.of(0, brokers=4, partitions=8, idle_ms=DAY_MS // 3, start=start)
    for night in range(NIGHTS + 1):
        segment, snapshot, names = cluster.night(night)
        if night in (0, 8):
            odd = cluster.partitions[3]
            odd.leader = next(each for each in odd.isr if each not in (odd.leader, odd.replicas[0]))
            odd.leader_epoch, odd.partition_epoch = odd.leader_epoch + 1, odd.partition_epoch + 1
            fields = {1: struct.pack(">i", odd.leader)}
            value = writer.partition_change(odd.number, fields, cluster.topic_id(odd.topic))
            at_ms = round(start.timestamp() * 1000) + night * DAY_MS + DAY_MS - 1
            segment += cluster.batch([value], at_ms)
        files = kept_files(files, names, segment, snapshot)
        write_capture(folder / f"night-{night:02d}", cluster, files, night)
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def whole(nights: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = Lake(tmp_path_factory.mktemp("whole") / "lake")
    done(command(lake, "run", *map(str, nights[:NIGHTS])))
    return Path(lake.root)


@pytest.fixture
def lake(whole: Path, tmp_path: Path) -> Lake:
    shutil.copytree(whole, tmp_path / "lake")
    return Lake(tmp_path / "lake")


def states(lake: Lake, since: int) -> list[Row]:
    """What the history says of changes from an offset on."""
    columns = ("topic", "partition", "offset", "leader", "leader_epoch", "partition_epoch", "isr", "sha256", "position")
    rows = lake.read("partition_history", lake.clusters()[0], columns, pc.field("offset") >= since)
    return sorted(rows.to_pylist(), key=lambda row: (row["topic"], row["partition"], row["offset"]))


def odd_leaders(lake: Lake, table: str = "findings") -> set[str]:
    return {row["finding_id"] for row in lake.rows(table, lake.clusters()[0]) if row["kind"] == "rule_mismatch"}


def test_by_default_nothing_changes(lake: Lake) -> None:
    before = digests(lake)
    assert "nothing was changed" in done(command(lake, "forget", "--older-than", "3d"))
    assert digests(lake) == before
    assert "nothing is old enough" in done(command(lake, "forget", "--older-than", "30d", "--yes"))
    assert digests(lake) == before


def test_what_is_old_is_gone_and_what_is_younger_stays(lake: Lake, nights: list[Path]) -> None:
    cluster, early, now_ms = lake.clusters()[0], odd_leaders(lake), round(datetime.now(UTC).timestamp() * 1000)
    every = {row["finding_id"] for row in lake.rows("findings", cluster)}
    plan = retention_of(lake, cluster, now_ms - 3 * DAY_MS)
    assert plan.captures == [night.name for night in nights[: NIGHTS - 3]]
    # That of the second night: the eighth night's capture has the log since then.
    assert plan.from_offset in {end for end, _ in snapshots(lake)} - {0}
    history = states(lake, plan.from_offset)
    answer = status_of(lake, now_ms)["clusters"][0]["found"]["answer"]
    done(command(lake, "acknowledge", "--all", "--note", "baseline"))
    done(command(lake, "forget", "--older-than", "3d", "--keep-findings", "--yes"))
    assert states(lake, plan.from_offset) == history
    offsets = {row["offset"] for row in states(lake, 0)} - {row["offset"] for row in history}
    assert offsets == {plan.from_offset - 1}  # the snapshot's states
    for name, column in (("log_batches", "base_offset"), ("metadata_records", "offset")):
        assert pc.min(lake.read(name, cluster, (column,))[column]).as_py() == plan.from_offset
    times = lake.read("log_end_offsets", cluster, ("captured_at_ms",))["captured_at_ms"]
    assert pc.min(times).as_py() >= plan.before_ms
    # The leader of the first day is no longer found, but known; that of the ninth is found.
    assert len(early) == 2
    assert len(odd_leaders(lake)) == len(odd_leaders(lake, KEPT_FINDINGS)) == 1
    assert odd_leaders(lake) | odd_leaders(lake, KEPT_FINDINGS) == early
    assert {row["finding_id"] for row in lake.rows("acknowledgements", cluster)} >= early
    gone = every - {row["finding_id"] for row in lake.rows("findings", cluster)}
    assert gone == {row["finding_id"] for row in lake.rows(KEPT_FINDINGS, cluster)}
    (found,) = status_of(lake, now_ms)["clusters"]
    # That the log begins late is no gap.
    assert (found["found"]["answer"], found["found"]["kept"], found["out_of_date"]) == (answer, len(gone), [])
    assert f"before: {len(gone)} kept" in invoke(["status", str(lake.root)]).stdout


def snapshots(lake: Lake) -> set[tuple[int, int]]:
    rows = lake.rows("snapshot_records", lake.clusters()[0], ("snapshot_end_offset", "snapshot_epoch"))
    return {(row["snapshot_end_offset"], row["snapshot_epoch"]) for row in rows}


def unmet(lake: Lake) -> set[str]:
    """The expectations that the last check did not meet."""
    rows = lake.rows("quality_results", lake.clusters()[0], ("expectation", "success", "run_id", "run_at_ms"))
    newest = max(rows, key=lambda row: row["run_at_ms"])["run_id"]
    return {row["expectation"] for row in rows if row["run_id"] == newest and not row["success"]}


def test_the_lake_is_sound_and_goes_on(lake: Lake, nights: list[Path]) -> None:
    cluster, before = lake.clusters()[0], unmet(lake)
    done(command(lake, "forget", "--older-than", "3d", "--yes"))
    assert not odd_leaders(lake, KEPT_FINDINGS)
    done(command(lake, "verify", "--all"))
    assert unmet(lake) <= before
    names = {row["capture"] for row in lake.rows("captures", cluster)}
    assert names == set(lake.captures(cluster))
    assert {receipt["capture"] for receipt in receipts(lake, cluster)} == {n.name for n in nights[NIGHTS - 3 : NIGHTS]}
    done(command(lake, "run", str(nights[NIGHTS])))
    done(command(lake, "verify", "--all", "--capture", str(nights[NIGHTS])))
    done(command(lake, "maintain"))
    assert not [each for each in check_tables(lake, cluster) if not each.is_note]


def test_the_newest_capture_is_never_forgotten(lake: Lake, nights: list[Path]) -> None:
    done(command(lake, "forget", "--older-than", "1s", "--yes"))
    assert nights[NIGHTS - 1].name in lake.captures(lake.clusters()[0])
    done(command(lake, "verify", "--all"))


@pytest.mark.parametrize("at", [0, 2, 4])
def test_one_that_died_goes_on(lake: Lake, whole: Path, tmp_path: Path, at: int) -> None:
    shutil.copytree(whole, tmp_path / "other")
    other, before_ms = Lake(tmp_path / "other"), round(datetime.now(UTC).timestamp() * 1000) - 3 * DAY_MS
    cluster = lake.clusters()[0]
    remove(other, retention_of(other, cluster, before_ms), load_settings())
    with pytest.raises(DiedError):
        remove(DyingLake(lake.root, at, written=at == 2), retention_of(lake, cluster, before_ms), load_settings())
    remove(lake, retention_of(lake, cluster, before_ms), load_settings())
    for name in INGESTED:
        rows = [sorted(map(repr, each.rows(name, cluster))) for each in (lake, other)]
        assert rows[0] == rows[1], name


@pytest.mark.parametrize(
    "words",
    [(), ("night-01", "--older-than", "3d"), ("night-01", "--keep-findings"), ("--older-than", "3d", "--capture", "x")],
)
def test_options_that_contradict_each_other(lake: Lake, words: tuple[str, ...]) -> None:
    assert command(lake, "forget", *words).exit_code == 2


def test_a_json_line_says_which_stage_of_which_run_took_how_long(lake: Lake, nights: list[Path]) -> None:
    result = command(lake, "run", str(nights[NIGHTS]), "--log-format", "json")
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stderr.splitlines()]
    took = {row["stage"]: row for row in rows if "seconds" in row}
    assert took.keys() == {"ingest", "replay", "detect", "quality", "report"}
    (run_id,) = {row["run_id"] for row in rows if "run_id" in row}
    assert run_id in {row["run_id"] for row in lake.rows("runs", lake.clusters()[0], ("run_id",))}
    assert {row["cluster"] for row in took.values()} == set(lake.clusters())
    assert all(row["seconds"] >= 0 for row in took.values())
