"""New segments extend the histories without replaying from 0, and the tables end up the same; so they do from the
newest snapshot on."""

from pathlib import Path

import pyarrow.compute as pc
import pytest

from evidence.errors import Damage
from evidence.wire.batches import read_head
from jobs.config.settings import load_settings
from jobs.detect.stage import run_detect
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.replay.cluster_state import NEWEST_CHECKPOINT
from jobs.replay.stage import Replayed, replay
from tests.support.facts import facts
from tests.support.paths import controllers

_HISTORIES = [f"{of}_history" for of in ("partition", "broker", "feature", "config", "quorum")] + ["cluster_metrics"]
LOG = "00000000000000000000.log"


def cut(name: str, folder: Path, end_offset: int) -> Path:
    """The controllers' folders of a capture as they were when the log ended at an offset."""
    target = controllers(name, folder)
    for segment in target.rglob(LOG):
        data, position = segment.read_bytes(), 0
        while position < len(data):
            head = read_head(data, position)
            assert not isinstance(head, Damage)
            if head.base_offset >= end_offset:
                break
            position = head.end
        segment.write_bytes(data[:position])
        for file in segment.parent.glob("*.checkpoint"):
            if int(file.name[:20]) > end_offset:
                file.unlink()
        for later in ("leader-epoch-checkpoint", "quorum-state"):
            (segment.parent / later).unlink()
    return target


def replayed(lake: Lake, capture: Path, start: str = "earliest") -> Replayed:
    ingested = ingest(lake, capture, load_settings(), lambda _: None)
    return replay(lake, ingested.cluster_id, load_settings(), lambda _: None, start)


@pytest.mark.parametrize(("name", "steps"), [("unclean", (120, 200)), ("churn", (300, 500, 600)), ("elr", (150,))])
def test_segments_that_come_later_extend_the_histories(tmp_path: Path, name: str, steps: tuple[int, ...]) -> None:
    lake, whole = Lake(tmp_path / "lake"), Lake(tmp_path / "whole")
    parts = [*(cut(name, tmp_path / str(step), step) for step in steps), controllers(name, tmp_path / "all")]
    first, *later = [replayed(lake, part) for part in parts]
    assert first.resumed_at is None
    resumed = [r.resumed_at for r in later]
    assert all(at is not None for at in resumed), resumed
    assert resumed == sorted(resumed)
    assert all(r.rows for r in later)
    assert first.rows + sum(r.rows for r in later) == replayed(whole, parts[-1]).rows
    for table in _HISTORIES:
        assert facts(lake, table) == facts(whole, table), table
    assert replay(lake, lake.clusters()[0], load_settings(), lambda _: None).up_to_date


def test_what_changes_the_past_makes_the_history_anew(tmp_path: Path) -> None:
    """A static file that was not there when the log was replayed: every effective config may be another."""
    lake, whole = Lake(tmp_path / "lake"), controllers("unclean", tmp_path / "whole")
    bare = cut("unclean", tmp_path / "bare", 200)
    for file in bare.rglob("server.properties"):
        file.unlink()
    replayed(lake, bare)
    again = replayed(lake, whole)
    assert again.resumed_at is None
    assert again.rows == replayed(Lake(tmp_path / "new"), whole).rows


def test_from_the_newest_snapshot_on_the_states_are_those_of_the_whole_log(tmp_path: Path) -> None:
    lake, whole = Lake(tmp_path / "lake"), Lake(tmp_path / "earliest")
    result = replayed(lake, controllers("unclean", tmp_path), NEWEST_CHECKPOINT)
    replayed(whole, tmp_path / "unclean")
    (cluster,) = lake.clusters()
    end = pc.max(lake.read("snapshot_records", cluster, ["snapshot_end_offset"])["snapshot_end_offset"])
    behind = pc.field("offset") >= end
    names = [n for n in TABLES["partition_history"].schema.names if n not in ("capture", "path", "sha256")]
    tail, expected = (sorted(map(str, of.rows("partition_history", cluster, names, behind))) for of in (lake, whole))
    assert tail == expected != []
    at_start = lake.rows("partition_history", cluster, ["origin"], pc.field("offset") < end)
    assert {row["origin"] for row in at_start} == {"checkpoint"}
    assert len(at_start) + len(tail) == result.rows
    found = run_detect(lake, cluster, load_settings(), lambda _: None)
    assert found.compared > 0
    assert found.mismatches == 0
