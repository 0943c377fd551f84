"""What detect takes from a lake, without Spark: the nodes' own logs, contradictory and unreadable evidence."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evidence.broker_logs.anchors import boots_in_utc
from evidence.tables import BROKER_LOG_EVENTS, NODE_BOOTS
from evidence.wire.batches import scan_batches
from jobs.config.settings import load_settings
from jobs.detect.inputs import (
    USED,
    disk_errors,
    judging_events,
    judging_inputs,
    measured_clocks,
    registration_mismatches,
    topic_lifetimes,
)
from jobs.detect.stage import DetectSummary, run_detect
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.lake.tables import STATIC_CONFIGS
from jobs.replay.cluster_state import static_files
from jobs.replay.stage import replay
from replay.arrow.schemas import BROKER_HISTORY
from replay.cluster.broker_sessions import SESSION_EVIDENCE, broker_history
from replay.cluster.state import ClusterState
from replay.findings.log_lines import UNCLEAN
from tests.support import writer
from tests.support.paths import capture, unpacked
from tests.support.pure import decode, replayed
from tests.support.small_captures import SEGMENT

CLUSTER = "c"
KOLKATA_MS, END_MS = 19_800_000, 1 << 62


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, ClusterState]:
    decoded = decode(capture("logs-4.0.2"))
    history, state = replayed("logs-4.0.2")
    made = Lake(tmp_path_factory.mktemp("lake"))
    made.create()
    made.append("broker_log_events", CLUSTER, decoded.events)
    made.append("node_boots", CLUSTER, NODE_BOOTS.empty_table())
    made.put("partition_history", CLUSTER, history.table)
    made.put("broker_history", CLUSTER, broker_history(state.records, SESSION_EVIDENCE.empty_table(), []))
    return made, state


def test_clocks_are_bounded_by_records_and_show_the_zone(lake: tuple[Lake, ClusterState], tmp_path: Path) -> None:
    rows = {row["node_id"]: row for row in measured_clocks(lake[0], CLUSTER).to_pylist()}
    assert {1, 2} <= set(rows)
    for node, zone_ms in ((1, 0), (2, KOLKATA_MS)):
        assert rows[node]["zone_ms"] == zone_ms
        assert rows[node]["error_lower_ms"] <= 0 <= rows[node]["error_upper_ms"]
    empty = Lake(tmp_path)
    empty.create()
    assert not len(measured_clocks(empty, CLUSTER))


def test_the_events_of_verdicts_have_topic_ids_and_utc(lake: tuple[Lake, ClusterState]) -> None:
    made, _ = lake
    events = judging_events(made, CLUSTER, END_MS, measured_clocks(made, CLUSTER), topic_lifetimes(made, CLUSTER))
    assert set(events["kind"].to_pylist()) <= set(USED)
    assert events["topic_id"].null_count == 0
    # Nothing shows a controller's zone here.
    of_brokers = [r for r in events.to_pylist() if r["kind"] != UNCLEAN]
    shifts = {(r["node_id"], r["logged_at_ms"] - r["logged_at_utc_ms"]) for r in of_brokers}
    assert shifts == {(1, 0), (2, KOLKATA_MS)}


def test_registrations_are_compared_with_the_log(lake: tuple[Lake, ClusterState], tmp_path: Path) -> None:
    made, _ = lake
    assert registration_mismatches(made, CLUSTER) == []
    events = made.rows("broker_log_events", CLUSTER)
    altered = Lake(tmp_path)
    altered.create()
    wrong = [{**row, "count": 7} for row in events if row["kind"] == "incarnation_registered"]
    altered.append("broker_log_events", CLUSTER, pa.Table.from_pylist(wrong, schema=BROKER_LOG_EVENTS))
    altered.put("broker_history", CLUSTER, made.read("broker_history", CLUSTER, BROKER_HISTORY.names))
    found = registration_mismatches(altered, CLUSTER)
    assert {row["kind"] for row in found} == {"log_line_mismatch"}
    assert len(found) == len({row["incarnation_id"] for row in wrong})


def test_errors_of_a_nodes_disks_are_known_by_time(lake: tuple[Lake, ClusterState], tmp_path: Path) -> None:
    clocks, other = measured_clocks(lake[0], CLUSTER), Lake(tmp_path)
    other.create()
    (first, *_) = (row for row in lake[0].rows("broker_log_events", CLUSTER) if row["node_id"] == 2)
    kinds = [("Input/output error", 2), ("Input/output error", 9), ("No space left on device", 2)]
    rows = [
        {**first, "kind": "disk_error", "detail": detail, "node_id": node, "position": at}
        for at, (detail, node) in enumerate(kinds)
    ]
    other.append("broker_log_events", CLUSTER, pa.Table.from_pylist(rows, schema=BROKER_LOG_EVENTS))
    assert disk_errors(other, CLUSTER, clocks) == {2: [first["logged_at_ms"] - KOLKATA_MS], 9: [None]}


def test_an_older_copy_of_a_disk_may_have_been_put_back(tmp_path: Path) -> None:
    """Its file of a clean stop names an earlier process: the controllers take the start for unclean."""
    lake, settings = Lake(tmp_path), load_settings()
    cluster = ingest(lake, capture("logs-4.1.1"), settings, lambda _: None).cluster_id
    replay(lake, cluster, settings, lambda _: None)
    clocks = measured_clocks(lake, cluster)
    starts = boots_in_utc(lake.read("node_boots", cluster, NODE_BOOTS.names), clocks).to_pylist()
    start = next(row for row in starts if row["previous_shutdown"] == "clean" and row["broker_epoch"] is not None)
    assert start["node_id"] not in judging_inputs(lake, cluster, settings, clocks)[1].disk_errors
    rows = lake.read("broker_history", cluster, BROKER_HISTORY.names).to_pylist()
    unclean = [row | {"restart_class": "unclean"} for row in rows if row["broker_epoch"] == start["broker_epoch"]]
    lake.put("broker_history", cluster, pa.Table.from_pylist(unclean, schema=BROKER_HISTORY))
    found = judging_inputs(lake, cluster, settings, clocks)[1].disk_errors
    assert found[start["node_id"]] == [start["first_event_ms"]]


def test_a_nodes_file_of_two_captures_has_the_values_of_both(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create()
    files: dict[str, dict[str, str]] = {"old": {"a": "1", "b": "3", "c": "5"}, "new": {"a": "2", "c": "5"}}
    for capture_of, own in files.items():
        place = {"capture": capture_of, "path": "p", "sha256": capture_of, "position": 0, "node_id": 1}
        lines = {"process.roles": "broker", **own}.items()
        rows = [{**place, "name": name, "value": value} for name, value in lines]
        lake.append("static_configs", CLUSTER, pa.Table.from_pylist(rows, schema=STATIC_CONFIGS))
    assert static_files(lake, CLUSTER) == {1: {"process.roles": "broker", "a": "1 2", "b": "- 3", "c": "5"}}


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
        (unreadable,) = folder.glob("controllers/3001/__cluster_metadata-0/*80-0000000001.checkpoint")
        head, batch, *_ = scan_batches(data := unreadable.read_bytes()).batches
        records, at = writer.record(writer.no_op()) + b"\1" * 999, batch.base_offset
        other = writer.batch(records=records, base_offset=at, count=batch.record_count)
        unreadable.write_bytes(data[: head.end] + other + data[batch.end :])

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
    whole = set(lake.read("snapshot_records", cluster, ("path",))["path"].to_pylist())
    assert sorted(path[12:16] for path in whole if path.endswith("80-0000000001.checkpoint")) == ["3000", "3002"]


@pytest.mark.parametrize("is_last", [False, True])
def test_an_unknown_record_makes_the_state_unknown_up_to_the_next_snapshot(tmp_path: Path, is_last: bool) -> None:
    value = writer.frame(5, 40, b"state?")
    at: list[int] = []

    def change(folder: Path) -> None:
        path = folder / "controllers" / "3000" / SEGMENT
        data = path.read_bytes()
        batch = next(b for b in scan_batches(data).batches if b.base_offset >= 105 and not b.is_control)
        at.extend((batch.base_offset, batch.base_timestamp_ms))
        for snapshot in path.parent.glob("*.checkpoint"):
            snapshot.unlink() if is_last and int(snapshot.name[:20]) > at[0] else None
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
    assert is_last != any(r["offset"] >= 162 for r in history)
    # No stretch of states is known to have lasted longer, and nobody to have run on (H6).
    lasted = (r["start_timestamp_ms"] + r["lasted_ms"] for r in findings(lake, cluster, "leaderless"))
    assert not is_last or max(lasted) <= at[1]
    assert findings(lake, cluster, "snapshot_mismatch") == []


def test_records_that_a_flipped_bit_calls_control_records_leave_the_state_unknown(tmp_path: Path) -> None:
    """Bit 5 of the attributes, with a good CRC, of the batch that elects leaders of `ledger`."""

    def change(folder: Path) -> None:
        path = folder / "controllers" / "3000" / SEGMENT
        data = path.read_bytes()
        batch = next(b for b in scan_batches(data).batches if b.base_offset == 106)
        body = writer.flip(data[batch.position + 21 : batch.end], 1, 0x20)
        crc = struct.pack(">I", writer.crc32c(body))
        path.write_bytes(data[: batch.position + 17] + crc + body + data[batch.end :])

    lake, cluster, _ = judged(tmp_path, change, "3000")
    holes = [r["start_offset"] for r in findings(lake, cluster, "unreadable_record")]
    assert holes == [106, 107, 108, 109]
    history = lake.rows("partition_history", cluster)
    assert not [r for r in history if 106 <= r["offset"] < 161]
    assert all(r["end_offset"] <= 106 for r in history if r["offset"] < 106)
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
