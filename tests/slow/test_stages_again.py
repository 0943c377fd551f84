"""Stages that are asked again: after nothing was written, and after tables were deleted."""

import shutil
from pathlib import Path

import pytest

from jobs.config.settings import load_settings
from jobs.detect.stage import run_detect
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.replay.stage import replay
from tests.slow.test_crashes import run
from tests.support import writer
from tests.support.paths import capture


@pytest.mark.parametrize("begins", ["with no leader change", "with a leader change"])
def test_a_stage_that_had_nothing_to_write_is_done_all_the_same(tmp_path: Path, begins: str) -> None:
    """What the stages were made from is known all the same. A log without a leader change gives no quorum history, and
    one finding: no leader opened its epoch. One with it gives a quorum history and no finding."""
    opened = begins == "with a leader change"
    control = writer.control_batch(2, writer.leader_change()) if opened else b""
    base = 1 if opened else 0
    begun = control + writer.batch([writer.topic("orders"), writer.no_op()], base_offset=base)
    lake, settings = Lake(tmp_path / "lake"), load_settings()
    cluster = ingest(lake, _capture(tmp_path / "begun", 0, begun), settings, lambda _: None).cluster_id
    for topic in ("first", "second"):
        found = [replay(lake, cluster, settings, lambda _: None).up_to_date for _ in range(2)]
        assert found == [False, True], topic
        judged = [run_detect(lake, cluster, settings, lambda _: None).up_to_date for _ in range(2)]
        assert judged == [False, True], topic
        rules = [row["rule"] for row in lake.rows("findings", cluster, ["rule"])]
        assert rules == ([] if opened else ["epoch_begins_with_leader_change"]), topic
        assert lake.count("quorum_history", cluster) == (1 if opened else 0), topic
        # Another file of the same log: the stages have to look again.
        offset = base + (2 if topic == "first" else 3)
        further = _capture(tmp_path / topic, offset, writer.batch([writer.no_op()], base_offset=offset))
        assert ingest(lake, further, settings, lambda _: None).cluster_id == cluster


def _capture(folder: Path, offset: int, data: bytes) -> Path:
    """A capture of one segment of a controller of the cluster `again`."""
    log = folder / "__cluster_metadata-0"
    log.mkdir(parents=True)
    (folder / "meta.properties").write_text("version=1\ncluster.id=again\nnode.id=3000\n", encoding="utf-8")
    (log / f"{offset:020d}.log").write_bytes(data)
    return folder


def test_tables_that_were_deleted_are_made_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    cluster = run(lake, capture("elr"))
    for name in ("rule_differences", "invariant_violations", "findings"):
        shutil.rmtree(tmp_path / "lake" / name)
    found = run_detect(lake, cluster, load_settings(), lambda _: None)
    assert (found.predicted, found.differences, found.violations) == (96, {}, {})
    assert all(field.metadata.get("comment") for field in lake.delta("rule_differences").schema().fields)
