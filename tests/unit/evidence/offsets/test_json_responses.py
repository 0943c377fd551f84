"""Answers of Kafka's protocol as JSON: what each proves, what an error code does, and what damage does."""

from __future__ import annotations

import json

import pytest

from evidence.offsets.json_responses import (
    read_clean_shutdown,
    read_describe_log_dirs,
    read_describe_quorum,
    read_log_dirs,
    read_quorum_state,
)

QUORUM_STATE_0 = {
    "clusterId": "x0",
    "leaderId": 3001,
    "leaderEpoch": 7,
    "votedId": -1,
    "appliedOffset": 0,
    "currentVoters": [{"voterId": 3001}, {"voterId": 3000}],
    "data_version": 0,
}


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


def test_future_replicas_and_failed_folders_say_nothing() -> None:
    entry = {"partition": "a-b-3", "size": 1, "offsetLag": 2, "isFuture": False}
    folders = [
        {"partitions": [entry, {**entry, "isFuture": True}], "error": None, "logDir": "/d1"},
        {"partitions": [entry], "error": "KAFKA_STORAGE_ERROR", "logDir": "/d2"},
    ]
    rows, (remark,) = read_log_dirs(as_json({"version": 1, "brokers": [{"broker": 7, "logDirs": folders}]}))
    assert [(r["broker_id"], r["topic"], r["partition"], r["offset_lag"]) for r in rows] == [(7, "a-b", 3, 2)]
    assert (remark.reason, remark.length_bytes) == ("error_code", 0)


def log_dirs_of(partition: str, lag: int) -> bytes:
    entry = {"partition": partition, "size": 1, "offsetLag": lag, "isFuture": False}
    return as_json({"version": 1, "brokers": [{"broker": 7, "logDirs": [{"partitions": [entry], "error": None}]}]})


@pytest.mark.parametrize(("lag", "remarks"), [(-1, []), (-7, ["bad_response"])])
def test_a_lag_that_is_not_known_is_no_lag(lag: int, remarks: list[str]) -> None:
    rows, damage = read_log_dirs(log_dirs_of("a-0", lag))
    assert (rows, [d.reason for d in damage]) == ([], remarks)
    entry = {"partitionIndex": 0, "offsetLag": lag, "isFutureKey": False}
    rows, damage = read_describe_log_dirs(as_json({"results": [{"topics": [{"name": "a", "partitions": [entry]}]}]}))
    assert (rows, [d.reason for d in damage]) == ([], remarks)


@pytest.mark.parametrize("name", ["a-9999999999", "a-2147483648", "a-\u0663", "a-", "-0", "a", "", "a--1x"])
def test_an_entry_that_names_no_partition_is_left_out(name: str) -> None:
    rows, (remark,) = read_log_dirs(log_dirs_of(name, 0))
    assert (rows, remark.reason, remark.length_bytes) == ([], "bad_response", 0)


def test_half_a_surrogate_pair_is_no_text() -> None:
    data = log_dirs_of("\ud800-1", 0)
    rows, (damage,) = read_log_dirs(data)
    assert (rows, damage.reason, damage.length_bytes) == ([], "bad_text", len(data))


@pytest.mark.parametrize("talk", [b"WARN config {a} (b)\nQuerying brokers\r\n", b"\xef\xbb\xbf", b"\n\n", b"a\n  "])
def test_talk_before_the_answer_is_skipped(talk: bytes) -> None:
    (row,), damage = read_log_dirs(talk + log_dirs_of("a-0", 0) + b"\r\n")
    assert (row["position"], damage) == (len(talk), [])


def test_rows_of_a_quorum_point_at_the_answer() -> None:
    replica = {"replicaId": 3, "logEndOffset": 8}
    part = {"partitionIndex": 0, "leaderId": 3, "leaderEpoch": 1, "highWatermark": -1}
    part |= {"currentVoters": [replica], "observers": [{"replicaId": 4, "logEndOffset": -1}] * 2}
    answer = as_json({"errorCode": 0, "topics": [{"topicName": "__cluster_metadata", "partitions": [part]}]})
    (end,), (report,), damage = read_describe_quorum(b"talk\n" + answer)
    assert damage == []
    assert (end["broker_id"], end["log_end_offset"], end["position"], report["position"]) == (3, 8, 5, 5)
    assert (report["high_watermark"], report["observers"]) == (None, [4])


def test_an_older_quorum_state_has_the_voters() -> None:
    (row,), _ = read_quorum_state(as_json(QUORUM_STATE_0))
    place = (row["quorum_cluster_id"], row["leader_id"], row["leader_epoch"], row["voters"])
    assert place == ("x0", 3001, 7, [3000, 3001])


def test_a_clean_shutdown_may_be_empty() -> None:
    assert read_clean_shutdown(b"") == ([{"position": 0}], [])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"version":0,"brokerEpoch":236', "bad_json"),
        (b'{"version":0,"brokerEpoch":236,"brokerEpoch":237}', "bad_json"),
        (b'{"version":0,"brokerEpoch":NaN}', "bad_json"),
        (b'{"version":0,"brokerEpoch":2.0}', "bad_response"),
        (b'{"version":0,"brokerEpoch":"2"}', "bad_response"),
        (b'{"version":0,"brokerEpoch":9223372036854775808}', "bad_response"),
        (b'{"version":0}', "bad_response"),
        (b"[1]", "bad_json"),
        (b'{"a":' + b"[" * 100_000, "bad_json"),
        (b'{"version":0,"brokerEpoch":\xff}', "bad_text"),
    ],
)
def test_another_response_is_quarantined_as_a_whole(data: bytes, reason: str) -> None:
    rows, (damage,) = read_clean_shutdown(data)
    assert (rows, damage.reason, damage.position, damage.length_bytes) == ([], reason, 0, len(data))


def test_an_error_shows_no_value() -> None:
    _, (damage,) = read_clean_shutdown(b'{"version":0,"brokerEpoch":"hunter2"}')
    assert "hunter2" not in damage.message
