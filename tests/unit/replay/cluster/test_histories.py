"""Features, configs and the quorum over offsets: against what Kafka's own tools printed, and rule by rule."""

import re
from typing import Any

import pytest

from evidence.offsets.tool_output import read_quorum_status
from replay.cluster.histories import config_history, feature_history, quorum_history
from replay.cluster.log import clip_validity
from replay.cluster.state import ClusterState, log_shape, resolve_cluster
from tests.support.cli import printed
from tests.support.paths import capture
from tests.support.pure import cluster_state, decode, replayed
from tests.support.records import batch, config, leader, record, registered, topic, unregistered

Row = dict[str, Any]
CAPTURES = ["unclean", "elr", "churn", "diverge", "unclean-4.4.0"]


def of_x(offset: int, value: str | None, resource: str = "t", kind: int = 2) -> Row:
    """A setting that no election depends on."""
    return config(offset, value, resource, kind, "x")


def quorum_of(state: ClusterState) -> list[Row]:
    return quorum_history(state.records, state.shape).to_pylist()


def configs_of(state: ClusterState) -> list[Row]:
    return config_history(state.records, state.configs).to_pylist()


def configs(*records: Row, name: str, static: dict[int, dict[str, str]] | None = None) -> list[Row]:
    """The rows of one config, of a log that holds these records."""
    # Every epoch begins with the record that names its leader.
    begins = {r["epoch"]: r["offset"] for r in records if r["type"] == "LEADER_CHANGE"} or {1: 0}
    ends = [*list(begins.values())[1:], 100]
    batches = [batch(base, end - 1, epoch) for (epoch, base), end in zip(begins.items(), ends, strict=True)]
    rows = configs_of(resolve_cluster(log_shape(batches, []), records, [], static or {}))
    return [r for r in rows if r["name"] == name]


@pytest.mark.parametrize("name", CAPTURES)
def test_the_leader_of_every_epoch_is_the_one_that_the_tool_named(name: str) -> None:
    rows = quorum_of(cluster_state(decode(capture(name))))
    led = {r["controller_epoch"]: (r["leader_id"], r["voters"]) for r in rows if r["origin"] == "log"}
    reports = [read_quorum_status(text)[0][0] for text in printed(name, "quorum-status")]
    assert reports
    assert all(led[r["leader_epoch"]] == (r["leader_id"], r["voters"]) for r in reports)
    assert [r["controller_epoch"] for r in rows] == sorted(r["controller_epoch"] for r in rows)


@pytest.mark.parametrize(("epoch", "leads"), [(1, 3000), (2, None)])
def test_a_snapshot_behind_a_hole_begins_a_state_of_the_quorum(epoch: int, leads: int | None) -> None:
    """The state before it ends at the hole. Who leads is known behind it if the epoch is the same."""
    shape = log_shape([batch(0, 4), batch(20, 30, epoch)], [])
    found = [{**registered(19, 3001, epoch), "place": n} for n in range(2)]
    rows = quorum_history([leader(0, 3000), registered(1, 3001), *found, leader(25, 3002, 3)], shape).to_pylist()
    assert [(r["offset"], r["origin"], r["leader_id"]) for r in rows] == [
        *((0, "log", 3000), (1, "log", 3000), (19, "checkpoint", leads), (25, "log", 3002))
    ]
    assert rows[2]["controllers"] == [3001]


@pytest.mark.parametrize("name", CAPTURES)
def test_configs_at_the_end_are_those_that_kafka_topics_printed(name: str) -> None:
    rows = configs_of(cluster_state(decode(capture(name))))
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
    rows = configs(topic(1, "t", "T"), of_x(2, "a"), removed, topic(6, "t", "U"), of_x(7, "b"), name="x")
    assert [(r["offset"], r["value"], r["end_offset"]) for r in rows] == [(2, "a", 5), (5, None, 7), (7, "b", None)]


def test_what_was_deleted_before_does_not_go_again() -> None:
    removed = record(5, "REMOVE_TOPIC_RECORD", topicId="T")
    rows = configs(topic(1, "t", "T"), of_x(2, "a"), of_x(3, None), removed, name="x")
    assert [(r["offset"], r["value"]) for r in rows] == [(2, "a"), (3, None)]


def test_resources_are_named_and_the_unknown_keep_their_number() -> None:
    rows = configs(of_x(1, "a", "", 4), of_x(2, "a", "g", 32), of_x(3, "a", "?", 77), name="x")
    assert [(r["resource_type"], r["resource_name"]) for r in rows] == [("broker", ""), ("group", "g"), ("77", "?")]


def test_what_is_in_force_for_a_topic_follows_every_layer() -> None:
    key = "min.insync.replicas"
    removed = record(9, "REMOVE_TOPIC_RECORD", topicId="T")
    records = [
        leader(0, 1, 1),
        topic(1, "t", "T"),
        config(2, "3", "", 4, key),
        config(3, "2", name=key),
        config(4, "4", "2", 4, key),
        leader(5, 2, 2),
        config(6, None, name=key),
        leader(7, 1, 3),
        config(8, "3", "", 4, key),
        removed,
    ]
    rows = configs(*records, name=key, static={1: {"process.roles": "controller"}})
    found = [r for r in rows if r["resource_type"] == "topic"]
    assert [(r["offset"], r["value"], r["effective_value"], r["source"]) for r in found] == [
        (1, None, "1", "default"),
        (2, None, "3", "cluster"),
        (3, "2", "2", "topic"),
        (6, None, "4", "broker"),
        (7, None, "3", "cluster"),
        (9, None, None, None),
    ]
    assert [r["end_offset"] for r in found] == [2, 3, 6, 7, 9, None]
    assert [r["position"] for r in found] == [r["offset"] for r in found]
    others = [r for r in rows if r["resource_type"] != "topic"]
    assert all(r["effective_value"] is None and r["source"] is None for r in others)


def test_whose_file_holds_is_not_known_where_nothing_says_who_led() -> None:
    """The record that began epoch 2 was not captured."""
    key, static = "min.insync.replicas", {1: {"process.roles": "controller", "min.insync.replicas": "2"}}
    batches = [batch(0, 4), batch(5, 99, 2)]
    records = [leader(0, 1, 1), topic(1, "t", "T"), topic(6, "u", "U")]
    state = resolve_cluster(log_shape(batches, []), records, [], static)
    rows = [r for r in configs_of(state) if r["name"] == key]
    assert [(r["resource_name"], r["offset"], r["effective_value"], r["source"]) for r in rows] == [
        ("t", 1, "2", "static"),
        ("t", 5, "1", "assumed_default"),
        ("u", 6, "1", "assumed_default"),
    ]


@pytest.mark.parametrize("name", CAPTURES)
def test_what_is_in_force_is_what_the_partitions_own_rows_say(name: str) -> None:
    """At every row of a partition, min.insync.replicas is the topic's effective value, capped by partition 0."""
    history, state = replayed(name)
    rows = [r for r in configs_of(state) if r["resource_type"] == "topic" and r["effective_value"]]
    held = {(r["resource_name"], r["name"], r["offset"]): r for r in rows}
    checked = 0
    for row in history.table.to_pylist():
        if row["removed"]:
            continue
        for key, column in (
            ("min.insync.replicas", "min_isr"),
            ("unclean.leader.election.enable", "unclean_leader_election_enable"),
        ):
            of_topic = [r for (t, k, o), r in held.items() if (t, k) == (row["topic"], key) and o <= row["offset"]]
            now = max(of_topic, key=lambda r: r["offset"])
            assert now["source"] == row[f"{column}_source"]
            value = now["effective_value"]
            assert row[column] == (
                value == "true" if value in ("true", "false") else min(int(value), len(row["replicas"]))
            )
            checked += 1
    assert checked


def test_the_leader_whose_epoch_replaced_a_suffix_names_it() -> None:
    rows = quorum_of(cluster_state(decode(capture("diverge"))))
    replaced = {r["controller_epoch"]: r["replaced_suffixes"] for r in rows if r["replaced_suffixes"]}
    suffix = {"nodes": [3001], "epoch": 1, "base_offset": 46, "last_offset": 51, "diverging_epoch": 1}
    assert replaced == {3: [suffix]}
    assert not any(r["replaced_suffixes"] for r in quorum_of(cluster_state(decode(capture("churn")))))


def test_voters_stay_until_a_record_names_others() -> None:
    voters = record(9, "KRAFT_VOTERS", controller_epoch=2, voters=[{"voterId": 3}, {"voterId": 1}])
    same = record(10, "KRAFT_VOTERS", controller_epoch=2, voters=[{"voterId": 1}, {"voterId": 3}])
    batches = [batch(0, 4), batch(5, 99, 2)]
    state = resolve_cluster(log_shape(batches, []), [leader(1, 1, 1, (1, 2)), leader(5, 2, 2), voters, same], [], {})
    rows = quorum_of(state)
    assert [(r["offset"], r["leader_id"], r["voters"]) for r in rows] == [
        (1, 1, [1, 2]),
        (5, 2, [1, 2]),
        (9, 2, [1, 3]),
    ]


def test_controllers_are_registered_until_they_are_unregistered_and_votes_stay() -> None:
    records = [
        leader(0, 1, 1, (1, 2)),
        registered(1, 2),
        registered(2, 1),
        registered(3, 1),
        unregistered(5, 2),
        leader(6, 2, 2),
        registered(7, 2, 2),
    ]
    state = resolve_cluster(log_shape([batch(0, 5), batch(6, 99, 2)], []), records, [], {})
    assert state.problems == []
    assert [(r["offset"], r["leader_id"], r["voters"], r["controllers"]) for r in quorum_of(state)] == [
        (0, 1, [1, 2], None),
        (1, 1, [1, 2], [2]),
        (2, 1, [1, 2], [1, 2]),
        (5, 1, [1, 2], [1]),
        (6, 2, [1, 2], [1]),
        (7, 2, [1, 2], [1, 2]),
    ]


def test_all_controllers_of_kafka_4_4_are_registered() -> None:
    (*_, last) = quorum_of(cluster_state(decode(capture("unclean-4.4.0"))))
    assert (last["voters"], last["controllers"]) == ([3000, 3001, 3002], [3000, 3001, 3002])


def test_nothing_holds_across_a_hole_of_the_log() -> None:
    state = cluster_state(decode(capture("unclean")))
    run = state.shape.runs[0]
    cut = [type(run)(0, 100, run.snapshot), type(run)(162, run.end, (162, 1))]
    rows = clip_validity(feature_history(state.records), cut, state.shape.log_end).to_pylist()
    assert {(r["end_offset"], r["end_timestamp_ms"]) for r in rows if r["offset"] < 100} == {(100, None)}
