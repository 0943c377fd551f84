"""Quality of a lake: runs are kept, severities, the page with the trend, and a large lake read by bucket."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.config.settings import Settings, SettingsError, load_settings
from jobs.lake.lake import Lake
from jobs.pipeline import Pipeline
from jobs.quality.source import LakeSource
from jobs.quality.stage import QualityResult, run_quality
from jobs.report.load import load_report
from quality.catalogue import CHECKS
from quality.check import Limits
from quality.run import run
from tests.support.paths import capture

FRESH = "log_end_offsets.fresh"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("quality") / "lake"
    pipeline = Pipeline(root, [capture("unclean")])
    pipeline.ingest()
    pipeline.replay()
    pipeline.detect()
    return root


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Lake:
    shutil.copytree(made, tmp_path / "lake")
    return Lake(tmp_path / "lake")


def with_quality(**values: object) -> Settings:
    settings = load_settings()
    return settings.model_copy(update={"quality": settings.quality.model_copy(update=values)})


def checked(lake: Lake, settings: Settings | None = None) -> QualityResult:
    (cluster,) = lake.clusters()
    return run_quality(lake, cluster, settings or load_settings(), lambda _: None)


def break_history(lake: Lake) -> None:
    (cluster,) = lake.clusters()
    rows = lake.read("partition_history", cluster)
    isr = rows["isr"].to_pylist()
    isr[0] = [*isr[0], 99]
    at = rows.schema.get_field_index("isr")
    lake.put(
        "partition_history", cluster, rows.set_column(at, rows.schema.field("isr"), pa.array(isr, pa.list_(pa.int32())))
    )


def test_every_run_is_kept_and_a_failing_one_names_rows_and_what_to_do(lake: Lake) -> None:
    (cluster,) = lake.clusters()
    first, again = checked(lake), checked(lake)
    assert (first.failed, first.warned, first.up_to_date) == ([], [], False)
    assert again.up_to_date
    assert again.expectations == first.expectations == len(CHECKS)
    break_history(lake)
    broken = checked(lake)
    assert [line.partition(":")[0] for line in broken.failed] == [
        "cluster_metrics.electable_reproduced",
        "partition_history.isr_within_replicas",
    ]
    line = broken.failed[-1]
    assert ": 1 of 148 rows (topic_id=" in line
    assert "99]" in line
    assert line.endswith("See docs/invariants.md for what a violation means.")
    results = lake.rows("quality_results", cluster)
    runs = {row["run_id"]: row["run_at_ms"] for row in results}
    assert len(runs) == 2
    assert len(results) == 2 * len(CHECKS)
    (_, failed) = sorted((row for row in results if not row["success"]), key=lambda row: row["table"])
    assert failed["unexpected_count"] == len(failed["sample"]) == 1
    trend = (Path(lake.storage.root) / "_data_docs" / cluster / "trend.html").read_text(encoding="utf-8")
    assert all(run_id in trend for run_id in runs)
    assert "partition_history.isr_within_replicas" in trend
    assert "http" not in trend


def test_the_report_has_the_newest_runs(lake: Lake) -> None:
    (cluster,) = lake.clusters()
    assert load_report(lake, cluster).quality_runs == []
    first = checked(lake)
    break_history(lake)
    failed, warned = len(checked(lake).failed), len(first.warned)
    newest, oldest = load_report(lake, cluster).quality_runs
    assert newest["run_at_ms"] >= oldest["run_at_ms"]
    counts = {"expectations": len(CHECKS), "warned": warned}
    assert newest == {**counts, "failed": failed, "run_at_ms": newest["run_at_ms"]}
    assert oldest == {**counts, "failed": 0, "run_at_ms": oldest["run_at_ms"]}
    assert failed > 0


def test_a_warning_does_not_fail_a_run(lake: Lake) -> None:
    (cluster,) = lake.clusters()
    stopped = {"reading_age_ms": 0}
    warned = checked(lake, with_quality(**stopped))
    assert (warned.failed, len(warned.warned)) == ([], 1)
    assert warned.warned[0].startswith(f"{FRESH}: ")
    failed = checked(lake, with_quality(**stopped, severity={FRESH: "error"}))
    assert not failed.up_to_date
    assert [line.partition(":")[0] for line in failed.failed] == [FRESH]
    assert {row["severity"] for row in lake.rows("quality_results", cluster) if row["expectation"] == "fresh"} == {
        "warn",
        "error",
    }


def test_a_severity_of_no_expectation_is_refused(lake: Lake) -> None:
    with pytest.raises(SettingsError, match=r"no expectation has the name findings\.nonsense"):
        checked(lake, with_quality(severity={"findings.nonsense": "warn"}))


def test_results_of_an_earlier_release_are_replaced(lake: Lake) -> None:
    (cluster,) = lake.clusters()
    schema = lake.dataset("quality_results").schema
    old = {"suite": "partition_history", "table": "partition_history", "expectation": "x", "success": True}
    lake.put("quality_results", cluster, pa.Table.from_pylist([old], schema=schema))
    assert checked(lake).failed == []
    assert all(row["run_id"] for row in lake.rows("quality_results", cluster))


@pytest.mark.parametrize("broken", [False, True], ids=["as it is", "broken"])
def test_reading_by_bucket_finds_the_same(lake: Lake, broken: bool) -> None:
    (cluster,) = lake.clusters()
    if broken:
        break_history(lake)
        lake.put("elections", cluster, lake.read("elections", cluster).slice(3))
        lake.put("metadata_records", cluster, lake.read("metadata_records", cluster).slice(0, 300))
    settings = load_settings()
    by_rows = [
        settings.model_copy(update={"replay": settings.replay.model_copy(update={"rows_per_bucket": most})})
        for most in (1_000_000, 60)
    ]
    whole, parts = (run(CHECKS, LakeSource(lake, cluster, each), Limits()) for each in by_rows)
    assert {name: found.broken for name, found in whole.items()} == {
        name: found.broken for name, found in parts.items()
    }
    assert {name for name, found in whole.items() if found.broken} == (
        {
            "partition_history.isr_within_replicas",
            "elections.changes_listed",
            "log_batches.records_decoded",
            "partition_history.record_exists",
            "cluster_metrics.electable_reproduced",
            "cluster_metrics.record_exists",
        }
        if broken
        else set()
    )
