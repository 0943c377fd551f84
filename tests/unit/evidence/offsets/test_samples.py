"""Every source, on real output of Kafka's own tools and node (tests/samples/README.md says how each file was made)."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from evidence import kinds
from evidence.capture.files import open_capture
from evidence.offsets.jmx_exporter import MetricNames
from evidence.offsets.read import OffsetTables, read_offsets
from tests.support.paths import ROOT

SAMPLES = ROOT / "tests" / "samples"
TAKEN_MS = 1795240316000
ENDS = {("orders", 0): 12, ("orders", 1): 31, ("mail.v1", 0): 4, ("__transaction_state", 0): 7}


@cache
def read() -> tuple[OffsetTables, dict[str, str]]:
    """All samples as the capture of one broker; and the kind of each file."""
    with TemporaryDirectory() as folder:
        root = Path(folder) / "samples"
        place = root / f"snapshots/{TAKEN_MS}/broker-1"
        for name in ("node", "tools", "responses"):
            shutil.copytree(SAMPLES / name, place / name)
        with open_capture(root) as capture:
            found = read_offsets(capture.name, capture.files, MetricNames(), 5000)
            start = f"snapshots/{TAKEN_MS}/broker-1/"
            return found, {f.path.removeprefix(start): f.kind for f in capture.files}


def rows(table: str, file: str) -> list[dict[str, Any]]:
    found = getattr(read()[0], table).to_pylist()
    return [r for r in found if r["path"].endswith(f"broker-1/{file}")]


def values(file: str, column: str) -> dict[tuple[str, int], int]:
    """The values of a column by partition; the metadata log left out."""
    found = rows("log_end_offsets", file)
    assert found
    return {
        (r["topic"], r["partition"]): r[column]
        for r in found
        if r[column] is not None and r["topic"] != "__cluster_metadata"
    }


def test_every_byte_of_every_sample_is_understood() -> None:
    found, kinds_ = read()
    assert set(kinds_.values()) >= {
        *(kinds.JMX_TOOL, kinds.LOG_DIRS, kinds.GET_OFFSETS, kinds.TOPICS_DESCRIBE, kinds.QUORUM_STATUS),
        *(kinds.QUORUM_REPLICATION, kinds.QUORUM_STATE, kinds.CLEAN_SHUTDOWN, kinds.REPLICA_SEGMENT),
        *(kinds.DESCRIBE_QUORUM, kinds.DESCRIBE_TOPIC_PARTITIONS, kinds.DESCRIBE_LOG_DIRS, kinds.LEADER_EPOCH),
    }
    assert {p: a.damage for p, a in found.accounts.items() if a.quarantined_bytes or a.trailing_bytes} == {}


@pytest.mark.parametrize(
    ("file", "column"),
    [
        ("node/replication-offset-checkpoint", "high_watermark"),
        ("node/recovery-point-offset-checkpoint", "recovery_point_offset"),
        ("tools/get-offsets-latest.txt", "high_watermark"),
        ("tools/jmx-date.csv", "log_end_offset"),
        ("tools/jmx-csv.txt", "log_end_offset"),
    ],
)
def test_all_sources_agree_on_where_the_logs_end(file: str, column: str) -> None:
    assert values(file, column) == ENDS


@pytest.mark.parametrize("place", ENDS)
def test_a_replicas_own_log_ends_there_too(place: tuple[str, int]) -> None:
    (row,) = rows("log_end_offsets", f"node/{place[0]}-{place[1]}/00000000000000000000.log")
    assert (row["log_end_offset"], row["last_written_leader_epoch"], row["broker_id"]) == (ENDS[place], 0, 1)
    assert len(row["topic_id"]) == 22


def test_a_tools_numbers_are_not_a_brokers() -> None:
    assert {r["broker_id"] for r in rows("log_end_offsets", "tools/get-offsets-latest.txt")} == {None}
    assert {r["broker_id"] for r in rows("log_end_offsets", "tools/log-dirs.txt")} == {1}
    assert all(r["log_end_offset"] is None for r in rows("log_end_offsets", "tools/log-dirs.txt"))


def test_jmx_tools_reports_have_their_own_time() -> None:
    times = [r["captured_at_ms"] for r in rows("log_end_offsets", "tools/jmx-csv.txt")]
    assert len(set(times)) == 1
    assert times[0] != TAKEN_MS
    dated = rows("log_end_offsets", "tools/jmx-date.csv")
    assert {(r["captured_at_ms"], r["uncertainty_ms"]) for r in dated} == {(None, None)}
    grown = [r for r in rows("log_end_offsets", "tools/jmx-original.csv") if r["topic"] == "mail.v1"]
    assert len({r["captured_at_ms"] for r in grown}) > 1


def test_every_view_of_the_quorum_agrees() -> None:
    files = ("tools/quorum-status.txt", "responses/describe-quorum.v0.json", "responses/describe-quorum.v2.json")
    found = [rows("quorum_reports", file)[0] for file in files]
    assert {(r["leader_id"], r["leader_epoch"], tuple(r["voters"])) for r in found} == {(1, 1, (1,))}
    assert [r["high_watermark"] for r in found] == sorted(r["high_watermark"] for r in found)
    (state,) = rows("quorum_reports", "node/__cluster_metadata-0/quorum-state")
    assert (state["node_id"], state["leader_id"], state["high_watermark"]) == (1, 1, None)


def test_the_metadata_logs_end_by_node() -> None:
    for file in ("tools/quorum-replication.txt", "tools/quorum-replication-human.txt"):
        (row,) = rows("log_end_offsets", file)
        assert (row["topic"], row["broker_id"], row["log_end_offset"] > 100) == ("__cluster_metadata", 1, True)


def test_partition_states_from_text_and_from_the_protocol_are_the_same() -> None:
    columns = ("topic", "topic_id", "partition", "leader", "replicas", "isr", "elr", "last_known_elr")

    def states(file: str) -> dict[tuple[str, int], list[Any]]:
        return {(r["topic"], r["partition"]): [r[c] for c in columns] for r in rows("described_partitions", file)}

    text, answer = states("tools/topics.txt"), states("responses/describe-topic-partitions.v0.json")
    assert answer
    assert all(text[place] == state for place, state in answer.items())


def test_a_clean_stop_names_the_broker_epoch() -> None:
    (row,) = rows("log_end_offsets", "node/.kafka_cleanshutdown")
    assert (row["broker_id"], row["topic"]) == (1, None)
    assert row["broker_epoch"] > 0


def test_log_dirs_in_all_their_forms() -> None:
    for file in ("tools/log-dirs.txt", "responses/describe-log-dirs.v1.json", "responses/describe-log-dirs.v5.json"):
        assert values(file, "offset_lag") == dict.fromkeys(ENDS, 0)
        assert values(file, "size_bytes") == values("tools/listing-logdir0.txt", "size_bytes")
