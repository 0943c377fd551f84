"""Evidence that contradicts itself or that nobody can read: told, and never blended into a history."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evidence.batches import scan_batches
from jobs.cluster_state import LogConflictError
from jobs.detect import Found, run_detect
from jobs.lake import Lake
from jobs.replay import replay
from jobs.settings import load_settings
from tests.spark.conftest import Job
from tests.spark.test_damage import SEGMENT, load
from tests.support import writer
from tests.support.paths import unpacked


def judged(job: Job, root: Path, change: Callable[[Path], None], node: str = "*") -> tuple[Lake, str, Found]:
    """The controllers of the bundled capture and what kafka-topics printed, changed, ingested, replayed and judged."""
    whole = unpacked("unclean", root / "unclean")
    folder = root / "capture"
    shutil.copytree(whole / "cli", folder / "cli")
    for controller in (whole / "controllers").glob(node):
        shutil.copytree(controller, folder / "controllers" / controller.name)
    change(folder)
    lake, result = load(job, root / "lake", folder)
    settings = load_settings()
    replay(lake, result.cluster_id, settings, lambda _: None)
    return lake, result.cluster_id, run_detect(lake, result.cluster_id, settings, lambda _: None)


def findings(lake: Lake, cluster: str, kind: str) -> list[dict[str, Any]]:
    return lake.rows("findings", cluster, where=f"kind = '{kind}'")


def test_a_printed_state_that_never_was_is_a_finding_and_the_others_agree(job: Job, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        (file,) = (folder / "cli").glob("*kafka-topics-final.txt")
        text = file.read_text()
        line = next(x for x in text.splitlines() if "\tTopic: ledger\tPartition: 1\t" in x)
        file.write_text(text.replace(line, line.replace("Leader: 2", "Leader: 3")))

    lake, cluster, found = judged(job, tmp_path, change)
    assert (found.described, found.contradicted) == (84, 1)
    (row,) = findings(lake, cluster, "describe_mismatch")
    assert (row["topic"], row["partition"], row["verdict"], row["severity"]) == ("ledger", 1, "proven", "high")
    assert "printed leader 3" in row["explanation"]
    assert row["evidence"][0]["path"].endswith("kafka-topics-final.txt")
    assert row["evidence"][1]["source"] == "partition_history"


@pytest.mark.parametrize("value", [writer.frame(99, 0, b"state?"), writer.frame(5, 40, b"state?")])
def test_an_unknown_record_makes_the_state_unknown_up_to_the_next_snapshot(
    job: Job, tmp_path: Path, value: bytes
) -> None:
    at: list[int] = []

    def change(folder: Path) -> None:
        path = folder / "controllers" / "3000" / SEGMENT
        data = path.read_bytes()
        batch = next(b for b in scan_batches(data).batches if b.base_offset >= 90 and not b.is_control)
        at.append(batch.base_offset)
        values = [value, *[writer.no_op()] * (batch.record_count - 1)]
        other = writer.batch(values, batch.base_offset, batch.epoch, timestamp_ms=batch.base_timestamp_ms)
        path.write_bytes(data[: batch.position] + other + data[batch.position + batch.size_bytes :])

    lake, cluster, _ = judged(job, tmp_path, change, "3000")
    (row,) = findings(lake, cluster, "unreadable_record")
    assert (row["start_offset"], row["verdict"]) == (at[0], "undetermined")
    assert "may carry partition state" in row["explanation"]
    (record,) = lake.rows("metadata_records", cluster, where=f"offset = {at[0]}")
    assert record["payload"] == '{"raw":"' + value.hex() + '"}'
    history = lake.rows("partition_history", cluster)
    assert not [r for r in history if at[0] <= r["offset"] < 161]
    assert all(r["end_offset"] <= at[0] for r in history if r["offset"] < at[0])
    assert [r for r in history if r["offset"] >= 162]
    assert findings(lake, cluster, "snapshot_mismatch") == []


def test_two_contents_at_one_place_are_refused_and_told(job: Job, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        path = folder / "controllers" / "3001" / SEGMENT
        data = path.read_bytes()
        batch = next(b for b in scan_batches(data).batches if b.base_offset >= 90 and b.record_count == 1)
        other = writer.batch([writer.topic("forged")], batch.base_offset, batch.epoch)
        path.write_bytes(data[: batch.position] + other + data[batch.position + batch.size_bytes :])

    with pytest.raises(LogConflictError, match="has different bytes in"):
        judged(job, tmp_path, change)
    lake = Lake(job.lake.spark, tmp_path / "lake")
    (cluster,) = lake.clusters()
    (row,) = lake.rows("findings", cluster)
    assert (row["kind"], row["verdict"], row["severity"]) == ("log_conflict", "proven", "critical")
    assert len({e["path"] for e in row["evidence"]}) == 2
    assert lake.rows("partition_history", cluster) == []
