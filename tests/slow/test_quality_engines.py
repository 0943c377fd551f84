"""Great Expectations reads violations with pandas or with Spark: the results are the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.config.settings import load_settings
from jobs.lake.lake import Lake
from jobs.quality.stage import run_quality
from tests.spark.conftest import Job

Row = dict[str, Any]
OF_RUN = ("run_id", "run_at_ms")


def results(root: Path, cluster: str, spark_from_rows: int, name: str) -> list[Row]:
    """The rows of quality_results of a new run, without its id and time."""
    shutil.copytree(root, root.parent / name)
    lake = Lake(root.parent / name)
    settings = load_settings()
    quality = settings.quality.model_copy(update={"spark_from_rows": spark_from_rows})
    before = {row["run_id"] for row in lake.rows("quality_results", cluster)}
    checked = run_quality(lake, cluster, settings.model_copy(update={"quality": quality}), lambda _: None)
    assert not checked.up_to_date
    rows = [row for row in lake.rows("quality_results", cluster) if row["run_id"] not in before]
    assert checked.expectations == len(rows) > 100
    assert (root.parent / name / "_data_docs" / cluster / "index.html").is_file()
    return sorted(({n: v for n, v in row.items() if n not in OF_RUN} for row in rows), key=str)


@pytest.mark.parametrize("broken", [False, True], ids=["as it is", "broken"])
def test_both_engines_give_the_same_results(job: Job, tmp_path: Path, broken: bool) -> None:
    """Of a real capture; and of one with invariants broken, a row that is there twice and nulls."""
    cluster = job.clusters["elr"]
    root = tmp_path / "lake"
    shutil.copytree(job.pipeline.root, root)
    lake = Lake(root)
    rows = lake.rows("partition_history", cluster)
    if broken:
        live = [row for row in rows if not row["removed"]]
        live[0]["isr"], live[1]["leader"], live[2]["leader_epoch"] = [99], None, -5
        live[3]["leader_recovery_state"] = "UNKNOWN"
        rows.append(live[4])
    lake.put("partition_history", cluster, pa.Table.from_pylist(rows, schema=lake.dataset("partition_history").schema))
    own, spark = (results(root, cluster, least, name) for least, name in ((10**9, "pandas"), (0, "spark")))
    assert own == spark
    assert sum(not row["success"] for row in own) >= (6 if broken else 0)
    assert broken or all(row["success"] for row in own)
