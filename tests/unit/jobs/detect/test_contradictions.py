"""Contradictory or unreadable evidence is reported and never merged into a history."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from evidence.wire.batches import scan_batches
from jobs.config.settings import load_settings
from jobs.detect.stage import DetectSummary, run_detect
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.replay.stage import replay
from tests.support import writer
from tests.support.paths import unpacked
from tests.support.small_captures import SEGMENT


def judged(root: Path, change: Callable[[Path], None], node: str = "") -> tuple[Lake, str, DetectSummary]:
    """Change the controllers or the kafka-topics output of the bundled capture, then ingest, replay and detect."""
    folder = unpacked("unclean", root, "cli", f"controllers/{node}" if node else "controllers")
    change(folder)
    lake, settings = Lake(root / "lake"), load_settings()
    cluster = ingest(lake, folder, settings, lambda _: None).cluster_id
    replay(lake, cluster, settings, lambda _: None)
    return lake, cluster, run_detect(lake, cluster, settings, lambda _: None)


def findings(lake: Lake, cluster: str, kind: str) -> list[dict[str, Any]]:
    return lake.rows("findings", cluster, where=(pc.field("kind") == kind) | (pc.field("rule") == kind))


def test_a_printed_state_that_never_existed_and_a_snapshot_that_differs_are_findings(tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        (file,) = (folder / "cli").glob("*kafka-topics-final.txt")
        text = file.read_text()
        line = next(x for x in text.splitlines() if "\tTopic: ledger\tPartition: 1\t" in x)
        file.write_text(text.replace(line, line.replace("Leader: 2", "Leader: 3")))
        for path in folder.glob("controllers/*/__cluster_metadata-0/*248-0000000001.checkpoint"):
            path.write_bytes(with_another_leader(path.read_bytes(), "ledger", 2))

    lake, cluster, found = judged(tmp_path, change)
    assert (found.described, found.contradicted) == (84, 1)
    (row,) = findings(lake, cluster, "describe_mismatch")
    assert (row["topic"], row["partition"], row["verdict"], row["severity"]) == ("ledger", 1, "proven", "high")
    assert "printed leader 3" in row["explanation"]
    assert row["evidence"][0]["path"].endswith("kafka-topics-final.txt")
    assert row["evidence"][1]["source"] == "partition_history"
    (row,) = findings(lake, cluster, "snapshot_mismatch")
    assert (row["topic"], row["partition"], row["start_offset"]) == ("ledger", 2, 248)
    assert (row["verdict"], row["severity"]) == ("proven", "critical")
    assert "leader" in row["explanation"]
    assert (found.mismatches, found.compared > 20) == (1, True)


def test_an_unknown_record_makes_the_state_unknown_up_to_the_next_snapshot(tmp_path: Path) -> None:
    value = writer.frame(5, 40, b"state?")
    at: list[int] = []

    def change(folder: Path) -> None:
        path = folder / "controllers" / "3000" / SEGMENT
        data = path.read_bytes()
        batch = next(b for b in scan_batches(data).batches if b.base_offset >= 90 and not b.is_control)
        at.append(batch.base_offset)
        values = [value, *[writer.no_op()] * (batch.record_count - 1)]
        other = writer.batch(values, batch.base_offset, batch.epoch, timestamp_ms=batch.base_timestamp_ms)
        path.write_bytes(data[: batch.position] + other + data[batch.position + batch.size_bytes :])

    lake, cluster, _ = judged(tmp_path, change, "3000")
    (row,) = findings(lake, cluster, "unreadable_record")
    assert (row["start_offset"], row["verdict"]) == (at[0], "undetermined")
    assert "may carry partition state" in row["explanation"]
    (record,) = lake.rows("metadata_records", cluster, where=pc.field("offset") == at[0])
    assert record["payload"] == '{"raw":"' + value.hex() + '"}'
    history = lake.rows("partition_history", cluster)
    assert not [r for r in history if at[0] <= r["offset"] < 161]
    assert all(r["end_offset"] <= at[0] for r in history if r["offset"] < at[0])
    assert [r for r in history if r["offset"] >= 162]
    assert findings(lake, cluster, "snapshot_mismatch") == []


def with_another_leader(snapshot: bytes, topic: str, partition: int) -> bytes:
    """Change the leader of one partition in a snapshot, and correct the CRC of its batch."""
    topic_id = snapshot[(at := snapshot.index(topic.encode()) + len(topic)) : at + 16]
    body = snapshot.index(struct.pack(">i", partition) + topic_id) + 20
    for _ in range(2):  # replicas, ISR: compact arrays of int32
        body += 1 + 4 * (snapshot[body] - 1)
    leader = body + 2  # after two empty arrays: removing, adding
    data = bytearray(snapshot)
    struct.pack_into(">i", data, leader, struct.unpack_from(">i", data, leader)[0] + 1)
    batch = next(b for b in scan_batches(snapshot).batches if b.position <= leader < b.end)
    crc = writer.crc32c(bytes(data[batch.position + 21 : batch.end]))
    struct.pack_into(">I", data, batch.position + 17, crc)
    return bytes(data)
