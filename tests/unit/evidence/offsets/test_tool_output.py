"""Text of Kafka's tools: what a real cluster's tools printed, and what damage does to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evidence.errors import Damage
from evidence.offsets.tool_output import read_get_offsets, read_quorum_replication, read_quorum_status, read_topics
from tests.support.cli import printed

Reader = Callable[[bytes], tuple[list[dict[str, Any]], list[Damage]]]


def test_an_offset_that_is_not_known_has_no_row() -> None:
    assert read_get_offsets(b"a:0:\na:1:5\n") == (
        [{"topic": "a", "partition": 1, "high_watermark": 5, "position": 5}],
        [],
    )


def test_older_releases_print_no_directory() -> None:
    text = b"NodeId\tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus\n1\t7\t0\t1\t1\tLeader\n"
    rows, _ = read_quorum_replication(text)
    assert [(r["broker_id"], r["log_end_offset"]) for r in rows] == [(1, 7)]


def test_older_releases_print_voters_as_numbers() -> None:
    text = b"ClusterId: x\nLeaderId: 1\nLeaderEpoch: 2\nHighWatermark: 3\nCurrentVoters: [3,1]\nCurrentObservers: []\n"
    (row,), _ = read_quorum_status(text)
    assert (row["voters"], row["observers"]) == ([1, 3], [])


def test_a_status_without_its_high_watermark_is_quarantined() -> None:
    text = printed("diverge", "quorum-status")[0].split(b"HighWatermark")[0]
    rows, (damage,) = read_quorum_status(text)
    assert (rows, damage.reason, damage.length_bytes) == ([], "bad_tool_output", len(text))
    assert damage.message == "not output of kafka-metadata-quorum: 'HighWatermark' is missing"


STATUS = (
    b"ClusterId:              x\nLeaderId:               1\nLeaderEpoch:            2\nHighWatermark:          5\n"
    b"MaxFollowerLag:         0\nMaxFollowerLagTimeMs:   0\n"
    b"CurrentVoters:          [1,2]\nCurrentObservers:       [3]\n"
)


def test_a_new_leader_may_not_know_its_high_watermark() -> None:
    (row,), damage = read_quorum_status(STATUS.replace(b" 5\n", b" -1\n"))
    assert (row["leader_id"], row["high_watermark"], damage) == (1, None, [])


def test_reports_that_follow_one_another_are_each_a_row() -> None:
    second = STATUS.replace(b" 5\n", b" 9\n").replace(b"LeaderId:               1", b"LeaderId:               2")
    rows, damage = read_quorum_status(b"[2026-11-21] WARN: talk\n" + STATUS + second)
    assert damage == []
    assert [(r["leader_id"], r["high_watermark"]) for r in rows] == [(1, 5), (2, 9)]
    assert [r["position"] for r in rows] == [24, 24 + len(STATUS)]


def test_a_report_that_was_cut_off_takes_nothing_from_the_one_before() -> None:
    cut = STATUS.replace(b"LeaderId:               1", b"LeaderId:               2").split(b"HighWatermark")[0]
    (row,), (damage,) = read_quorum_status(STATUS + cut)
    assert (row["leader_id"], row["high_watermark"]) == (1, 5)
    assert (damage.position, damage.length_bytes) == (len(STATUS), len(cut))


@pytest.mark.parametrize(
    ("bad", "voters"),
    [
        (b'[{"id": 3000, "directoryId": null, "endpoints": ["C://a:1"]}, {"id": 30', None),
        (b'[{"id": x}]', None),
        (b"[1,2", None),
        (b"[1,-2]", None),
        (b"[1,2147483648]", None),
        (b"[true]", None),
        (b"[[1]]", None),
        (b"1,2", None),
        (b"", None),
        (b"[" * 100_000, None),
        (b"[2, 1, 1]", [1, 2]),
        (b'[{"id": 2, "directoryId": null}, {"id": 1, "directoryId": "x", "endpoints": ["C://a:1"]}]', [1, 2]),
    ],
)
def test_a_list_of_nodes_that_cannot_be_read_costs_its_line(bad: bytes, voters: list[int] | None) -> None:
    text = STATUS.replace(b"[1,2]", bad)
    (row,), damage = read_quorum_status(text)
    assert (row["voters"], row["observers"], row["high_watermark"]) == (voters, [3], 5)
    spans = [text[d.position : d.position + d.length_bytes] for d in damage]
    assert spans == ([] if voters else [b"CurrentVoters:          " + bad])


@pytest.mark.parametrize(("end", "observers"), [(-1, [3]), (-2, None), (-3, None)])
def test_a_list_at_the_end_needs_its_bracket_and_no_line_end(end: int, observers: list[int] | None) -> None:
    (row,), damage = read_quorum_status(STATUS[:end])
    assert (row["observers"], len(damage)) == (observers, 0 if observers else 1)


def test_bytes_that_are_no_text_cost_their_line() -> None:
    text = b"Topic: a\xff\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    good = b"Topic: a\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    (row,), (damage,) = read_topics(text + good)
    assert (row["partition"], damage.position, damage.length_bytes) == (1, 0, len(text) - 1)


@pytest.mark.parametrize("name", ["unclean", "elr", "churn", "diverge"])
@pytest.mark.parametrize("tab", [b"\t", b"    "])
def test_every_line_that_kafka_topics_printed_is_read(tab: bytes, name: str) -> None:
    """What is copied from a terminal has spaces for tabs."""
    for text in printed(name, "kafka-topics"):
        rows, damage = read_topics(text.replace(b"\t", tab))
        assert damage == []
        assert [{**row, "position": 0} for row in rows] == [{**row, "position": 0} for row in read_topics(text)[0]]
        assert len(rows) == text.count(b"\tPartition: ")


@pytest.mark.parametrize(
    ("line", "elr", "leader"),
    [
        (b"\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n", None, 1),
        (b"\tTopic: a\tPartition: 0\tLeader: -1\tReplicas: 1,2\tIsr: \tElr: N/A\tLastKnownElr: N/A\n", None, -1),
        (b"Topic: a\tPartition: 0\tLeader: none\tReplicas: 1,2\tIsr: \tElr: 2\tLastKnownElr: \r\n", [2], -1),
    ],
)
def test_what_other_releases_leave_out_is_null(line: bytes, elr: list[int] | None, leader: int) -> None:
    (row,), damage = read_topics(line)
    assert damage == []
    assert (row["elr"], row["leader"], row["topic_id"]) == (elr, leader, None)


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (read_get_offsets, b"orders:0:-1"),
        (read_get_offsets, b"orders:99999999999:1"),
        (read_get_offsets, b"orders:0:9223372036854775808"),
        (read_get_offsets, b"no offsets here"),
        (read_get_offsets, "orders:\u0663:1".encode()),
        (read_quorum_replication, b"1 x seven"),
        (read_topics, b"\tTopic: a\tPartition: x\tLeader: 1\tReplicas: 1\tIsr: 1"),
        (read_topics, b"\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,b\tIsr: 1"),
        (read_topics, b"\tTopic: a\tPartition: 0\tLeader: 1\tIsr: 1"),
        (read_topics, b"\tPartition: 0\tLeader: 1"),
        (read_topics, b"\tTopic: a\tPart"),
        (read_topics, b"Topic: a Partition; 0 Leader: 1 Replicas: 1 Isr: 1"),
        (read_topics, b"\tTopic: a\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\tTopic: a\tPartition: 1\tLeader: 2"),
    ],
)
def test_a_line_that_the_tool_would_not_print_is_damage_at_its_bytes(read: Reader, line: bytes) -> None:
    head = b"NodeId DirectoryId LogEndOffset\n" if read is read_quorum_replication else b""
    rows, (damage,) = read(head + line + b"\n")
    assert rows == []
    assert (damage.position, damage.length_bytes, damage.reason) == (len(head), len(line), "bad_tool_output")


@pytest.mark.parametrize("at", [b"Isr: 1", b"Isr: 1,2", b"LastKnownElr: 3"])
def test_a_line_that_a_terminal_broke_is_no_row(at: bytes) -> None:
    """What is left of its last list looks whole."""
    line = b"\tTopic: a\tPartition: %d\tLeader: 1\tReplicas: 1,2,3,33\tIsr: 1,2\tElr: \tLastKnownElr: 33\n"
    begin, _, end = (line % 0).partition(at)
    text = begin + at + b"\n" + end + line % 1
    (row,), damage = read_topics(text)
    assert row["partition"] == 1
    assert [(d.position, d.length_bytes) for d in damage] == [
        (0, len(begin + at)),
        (len(begin + at) + 1, len(end) - 1),
    ]


def test_a_line_of_many_spaces_takes_no_square_of_their_number() -> None:
    (row,), _ = read_topics(
        b"Topic: a"
        + b" " * 500_000
        + b"Partition: 0 Leader: 1 x"
        + b" " * 500_000
        + b"y Replicas: 1 Isr: 1\n"
        + b"Topic: a\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\n"
    )
    assert row["partition"] == 1


def test_a_last_line_that_was_cut_off_is_no_row() -> None:
    rows, (damage,) = read_get_offsets(b"a:0:100\na:1:1")
    assert [r["partition"] for r in rows] == [0]
    assert (damage.position, damage.length_bytes) == (8, 5)
