"""Stages that are asked again: after nothing was written, and on a lake that an earlier release made."""

from __future__ import annotations

import shutil
from pathlib import Path

from jobs.detect import run_detect
from jobs.ingest import ingest
from jobs.lake import Lake
from jobs.replay import replay
from jobs.settings import load_settings
from tests.spark.conftest import Job
from tests.support import writer


def test_a_stage_that_had_nothing_to_write_is_done_all_the_same(job: Job, tmp_path: Path) -> None:
    """No leader change in the log, no finding about it: what the stages were made from is known all the same."""
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(writer.batch([writer.topic("orders"), writer.no_op()]))
    lake, settings = Lake(job.lake.spark, tmp_path / "lake"), load_settings()
    cluster = ingest(lake, segment, settings, lambda _: None).cluster_id
    for topic in ("first", "second"):
        found = [replay(lake, cluster, settings, lambda _: None).up_to_date for _ in range(2)]
        assert found == [False, True], topic
        judged = [run_detect(lake, cluster, settings, lambda _: None).up_to_date for _ in range(2)]
        assert judged == [False, True], topic
        assert lake.table("quorum_history").count() == lake.table("findings").count() == 0
        # Another file of the same log: the stages have to look again.
        further = tmp_path / topic / f"{2:020d}.log"
        further.parent.mkdir()
        further.write_bytes(writer.batch([writer.no_op()], base_offset=2 if topic == "first" else 3))
        ingest(lake, further, settings, lambda _: None)


def test_a_lake_of_an_earlier_release_gets_the_tables_that_it_lacks(job: Job, tmp_path: Path) -> None:
    shutil.copytree(job.pipeline.root, tmp_path / "lake")
    lake = Lake(job.lake.spark, tmp_path / "lake")
    for name in ("rule_differences", "invariant_violations", "findings"):
        shutil.rmtree(lake.root / name)
    found = run_detect(lake, job.clusters["elr"], load_settings(), lambda _: None)
    assert (found.predicted, found.differences, found.violations) == (96, {}, {})
    comments = {field.name: field.metadata.get("comment") for field in lake.table("rule_differences").schema}
    assert all(comments.values())
