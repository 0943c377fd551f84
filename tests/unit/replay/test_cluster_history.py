"""Features, configs and the quorum over offsets: against what Kafka's own tools printed, and rule by rule."""

from __future__ import annotations

import re
from typing import Any

import pytest

from evidence.tool_output import read_quorum_status
from replay.cluster_history import config_history, feature_history, quorum_history
from replay.validity import clip_validity
from tests.support.cli import printed
from tests.support.paths import capture
from tests.support.pure import cluster_state, decode

Row = dict[str, Any]
CAPTURES = ["unclean", "elr", "churn", "diverge"]


def record(offset: int, kind: str, epoch: int = 1, **data: Any) -> Row:
    place = {"capture": "c", "path": "log", "sha256": "00", "position": offset}
    at = {"offset": offset, "batch_base_offset": offset, "timestamp_ms": offset * 10, "epoch": epoch}
    return {**at, **place, "type": kind, "data": data}


def topic(offset: int, name: str, topic_id: str) -> Row:
    return record(offset, "TOPIC_RECORD", name=name, topicId=topic_id)


def config(offset: int, value: str | None, resource: str = "t", kind: int = 2) -> Row:
    return record(offset, "CONFIG_RECORD", resourceType=kind, resourceName=resource, name="x", value=value)


def leader(offset: int, node: int, epoch: int, voters: tuple[int, ...] = ()) -> Row:
    return record(offset, "LEADER_CHANGE", epoch, leaderId=node, voters=[{"voterId": v} for v in voters])


@pytest.mark.parametrize("name", CAPTURES)
def test_the_leader_of_every_epoch_is_the_one_that_the_tool_named(name: str) -> None:
    rows = quorum_history(cluster_state(decode(capture(name))).records).to_pylist()
    led = {r["controller_epoch"]: (r["leader_id"], r["voters"]) for r in rows if r["origin"] == "log"}
    reports = [read_quorum_status(text)[0][0] for text in printed(name, "quorum-status")]
    assert reports
    assert all(led[r["leader_epoch"]] == (r["leader_id"], r["voters"]) for r in reports)
    assert [r["controller_epoch"] for r in rows] == sorted(r["controller_epoch"] for r in rows)


@pytest.mark.parametrize("name", CAPTURES)
def test_configs_at_the_end_are_those_that_kafka_topics_printed(name: str) -> None:
    rows = config_history(cluster_state(decode(capture(name))).records).to_pylist()
    held = {
        (r["resource_name"], r["name"]): r["value"]
        for r in rows
        if r["resource_type"] == "topic" and r["end_offset"] is None and r["value"] is not None
    }
    shown = printed(name, "kafka-topics")[-1].decode()
    configs = dict(re.findall(r"^Topic: (\S+)\t.*Configs: (.*)$", shown, re.MULTILINE))
    assert held
    for (resource, key), value in held.items():
        assert f"{key}={value}" in configs[resource].split(",")


def test_churn_switched_the_elr_feature_off_and_on() -> None:
    rows = feature_history(cluster_state(decode(capture("churn"))).records).to_pylist()
    elr = [r for r in rows if r["name"] == "eligible.leader.replicas.version"]
    assert [r["level"] for r in elr] == [1, 0, 1]
    assert [r["end_offset"] for r in elr] == [elr[1]["offset"], elr[2]["offset"], None]
    assert [r["end_timestamp_ms"] for r in elr[:2]] == [r["timestamp_ms"] for r in elr[1:]]


def test_a_topics_configs_go_with_it_and_another_of_its_name_has_its_own() -> None:
    removed = record(5, "REMOVE_TOPIC_RECORD", topicId="T")
    rows = config_history([topic(1, "t", "T"), config(2, "a"), removed, topic(6, "t", "U"), config(7, "b")]).to_pylist()
    assert [(r["offset"], r["value"], r["end_offset"]) for r in rows] == [(2, "a", 5), (5, None, 7), (7, "b", None)]


def test_what_was_deleted_before_does_not_go_again() -> None:
    removed = record(5, "REMOVE_TOPIC_RECORD", topicId="T")
    rows = config_history([topic(1, "t", "T"), config(2, "a"), config(3, None), removed]).to_pylist()
    assert [(r["offset"], r["value"]) for r in rows] == [(2, "a"), (3, None)]


def test_resources_are_named_and_the_unknown_keep_their_number() -> None:
    rows = config_history([config(1, "a", "", 4), config(2, "a", "g", 32), config(3, "a", "?", 77)]).to_pylist()
    assert [(r["resource_type"], r["resource_name"]) for r in rows] == [("broker", ""), ("group", "g"), ("77", "?")]


def test_voters_stay_until_a_record_names_others() -> None:
    voters = record(9, "KRAFT_VOTERS", 2, voters=[{"voterId": 3}, {"voterId": 1}])
    same = record(10, "KRAFT_VOTERS", 2, voters=[{"voterId": 1}, {"voterId": 3}])
    rows = quorum_history([leader(1, 1, 1, (1, 2)), leader(5, 2, 2), voters, same]).to_pylist()
    assert [(r["offset"], r["leader_id"], r["voters"]) for r in rows] == [
        (1, 1, [1, 2]),
        (5, 2, [1, 2]),
        (9, 2, [1, 3]),
    ]


def test_nothing_holds_across_a_hole_of_the_log() -> None:
    state = cluster_state(decode(capture("unclean")))
    run = state.shape.runs[0]
    cut = [type(run)(0, 100, run.snapshot), type(run)(162, run.end, (162, 1))]
    rows = clip_validity(feature_history(state.records), cut, state.shape.log_end).to_pylist()
    assert {(r["end_offset"], r["end_timestamp_ms"]) for r in rows if r["offset"] < 100} == {(100, None)}
