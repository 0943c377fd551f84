"""`status`: what a lake holds, its last runs, the age of its evidence, what is out of date."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as families_of_text_format

from jobs.lake import integrity
from jobs.lake.lake import Lake
from jobs.queries.status import gravity, status_of
from tests.slow.lifecycle.test_maintain import maintained
from tests.slow.test_crashes import run
from tests.support.digests import digests
from tests.support.invoked import invoke


def only(lake: Lake, now_ms: int = 0) -> dict[str, Any]:
    """The only cluster of a lake."""
    (found,) = status_of(lake, now_ms)["clusters"]
    return dict(found)


def stale(lake: Lake) -> dict[str, str]:
    return {row["stage"]: row["because"] for row in only(lake)["out_of_date"]}


def test_a_lake_after_ingest_replay_and_detect(lake: Lake, cluster: str) -> None:
    found = only(lake)
    assert (found["cluster_id"], found["captures"], found["last_run"], found["valid"]) == (cluster, 2, None, None)
    assert stale(lake) == {"quality": "it has not run to its end"}
    assert sum(row["files"] for row in found["evidence"]) == lake.count("evidence_files", cluster)


def test_sizes_are_those_of_the_files(lake: Lake, cluster: str) -> None:
    found = status_of(lake, 0)
    for row in found["tables"]:
        files = [Path(lake.storage.url(row["table"])) / file.path for file in lake.files(row["table"], cluster)]
        assert (row["rows"], row["files"]) == (lake.count(row["table"], cluster), len(files))
        assert row["bytes"] == sum(file.stat().st_size for file in files)
    every = sum(file.stat().st_size for file in lake.root.rglob("*") if file.is_file())
    assert found["bytes"] + found["other_bytes"] == every


def test_the_age_of_evidence_is_that_of_the_newest_file_of_its_kind(lake: Lake, cluster: str) -> None:
    rows = lake.rows("evidence_files", cluster, ("kind", "captured_at_ms"))
    for each in only(lake, 1_800_000_000_000)["evidence"]:
        times = [r["captured_at_ms"] for r in rows if r["kind"] == each["kind"] and r["captured_at_ms"] is not None]
        assert each["newest_ms"] == max(times, default=None)
        assert each["age_ms"] == (1_800_000_000_000 - max(times) if times else None)


def test_clusters_are_sorted_by_gravity() -> None:
    def row(name: str, answer: str, lost: int = 0, is_open: int = 0) -> dict[str, Any]:
        return {"cluster_id": name, "found": {"answer": answer, "lost_records": lost, "open": is_open}}

    rows = [
        *(row("e", "nothing_lost"), row("d", "not_known"), row("c", "may_have_lost", 0, 2)),
        *(row("b", "lost", 1), row("a", "lost", 30, 1)),
    ]
    assert [each["cluster_id"] for each in sorted(rows, key=gravity)] == ["a", "b", "c", "d", "e"]


def test_the_age_of_the_log(lake: Lake, cluster: str) -> None:
    until_ms = max(row["max_timestamp_ms"] for row in lake.rows("log_batches", cluster, ("max_timestamp_ms",)))
    found = only(lake, until_ms + 90_000)
    assert (found["log_until_ms"], found["log_age_ms"]) == (until_ms, 90_000)


@pytest.mark.parametrize(("age", "code"), [("1s", 3), ("100000d", 0), ("26", 2), ("-1h", 2), ("soon", 2)])
def test_an_old_log_has_an_exit_code(lake: Lake, cluster: str, age: str, code: int) -> None:
    result = invoke(["status", str(lake.root), "--max-age", age])
    assert result.exit_code == code, result.output
    assert (f"cluster {cluster}: the newest record of the metadata log is" in result.stderr) == (code == 3)


def test_prometheus_reads_the_metrics(lake: Lake, cluster: str) -> None:
    text = invoke(["status", str(lake.root), "--format", "openmetrics"]).stdout
    assert text.endswith("# EOF\n")
    names = {"cluster_id": cluster, "lake": str(lake.root)}
    for parsed in (text_string_to_metric_families(text), families_of_text_format(text)):  # the second for node_exporter
        families = {family.name.removeprefix("kraft_forensics_"): family for family in parsed}
        assert {family.type for family in families.values()} == {"gauge"}
        values = {name: sample.value for name, family in families.items() for sample in family.samples}
        assert all(sample.labels == names for family in families.values() for sample in family.samples)
        found = only(lake)
        assert values["lost_records"] == found["found"]["lost_records"]
        assert (values["open_windows"], values["table_bytes"]) == (found["found"]["open"], found["bytes"])
        # No run was recorded here, and nothing was checked.
        assert not values.keys() & {"run_seconds", "quality_failed"}


def test_what_a_new_capture_puts_out_of_date(captures: tuple[Path, Path], tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    run(lake, captures[1])
    assert list(stale(lake)) == ["quality"]
    assert invoke(["ingest", str(captures[0]), "--lake", str(lake.root)]).exit_code == 0
    assert stale(lake) == {
        "replay": "log_batches has changed",
        "detect": "replay is out of date",
        "quality": "detect is out of date",
    }
    last = only(lake)["last_run"]
    assert (last["command"], last["outcome"], last["exit_code"]) == ("ingest", "done", 0)


def test_compacted_tables_put_nothing_out_of_date(lake: Lake) -> None:
    maintained(lake)
    assert list(stale(lake)) == ["quality"]


def test_tables_of_another_release_are_out_of_date(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = integrity.CODE_VERSION + 1
    monkeypatch.setattr("jobs.queries.status.CODE_VERSION", newer)
    assert stale(lake)["replay"] == f"its tables are of another release (code {newer - 1}, now {newer})"


def test_several_lakes(lake: Lake, tmp_path: Path) -> None:
    before, other = digests(lake), tmp_path / "other"
    shutil.copytree(lake.root, other)
    result = invoke(["status", str(lake.root), str(other), "--format", "json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["lakes"]
    assert [each["lake"] for each in found] == [str(lake.root), str(other)]
    assert found[0]["clusters"] == found[1]["clusters"]
    assert digests(lake) == before
    text = invoke(["status", str(lake.root)], env={"COLUMNS": "160"}).stdout
    assert "quality: it has not run to its end" in text
    assert "not known" in text  # no window, but a log that misses something
    assert "evidence" not in text
    more = invoke(["status", str(lake.root), "--evidence", "--tables"], env={"COLUMNS": "160"}).stdout
    assert "metadata_segment" in more
    assert "partition_history" in more
    shutil.rmtree(other / "runs")
    assert "the table runs is missing" in str(invoke(["status", str(other)]).exception)
    assert not (other / "runs").exists()


def test_runs_and_captures_are_listed_if_asked_for(captures: tuple[Path, Path], tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    for words in (["ingest", str(captures[1])], ["ingest", str(captures[0])], ["replay"]):
        assert invoke([*words, "--lake", str(lake.root)]).exit_code == 0
    plain = status_of(lake, 0)
    assert (plain["runs"], plain["captures"]) == ([], [])
    found = status_of(lake, 0, 2, with_captures=True)
    assert [row["command"] for row in found["runs"]] == ["replay", "ingest"]
    assert found["runs"][1]["captures"] == ["whole"]
    assert [row["capture"] for row in found["captures"]] == ["whole", "alone"]
    words = ["status", str(lake.root), "--runs", "3", "--captures"]
    text = invoke(words, env={"COLUMNS": "200"}).stdout
    assert "newest runs" in text
    assert "3000, 3001, 3002" in text
    assert "newest runs" not in invoke(words[:2]).stdout


def test_no_lake_is_an_error(tmp_path: Path) -> None:
    assert invoke(["status", str(tmp_path)]).exit_code == 1
