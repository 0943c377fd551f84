"""Predicted against recorded: the real clusters' changes, known bugs, what is not known, what nothing explains."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.arrow import schemas
from replay.cluster.brokers import BrokerTimeline, ControllerReleases
from replay.cluster.configs import ConfigChange, ElectionConfigs, config_timeline
from replay.cluster.facts import Clock, ClusterFacts, cluster_facts
from replay.cluster.features import ZK_MIGRATION_STATE, feature_levels
from replay.controller.differences import Checked, check_rules
from replay.controller.predictions import predict_all
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.partitions.elections import build_elections, leader_changes, states_of
from tests.support.pure import replayed
from tests.support.scenario import SESSION, TOPIC_ID, running, sessions, states
from tests.support.window_table import Entry, beside, entries

CHANGES = {"unclean": 136, "elr": 96, "churn": 433, "diverge": 60, "unclean-4.4.0": 131}
NOTHING = np.array([], dtype=np.int64)


@cache
def real(name: str) -> tuple[pa.Table, ClusterFacts]:
    history, state = replayed(name)
    return schemas.sorted_history(history.table), cluster_facts("c", state, Clock(), None)


def check(history: pa.Table, facts: ClusterFacts) -> Checked:
    bucket = Bucket(history, facts)
    return check_rules(
        bucket, predict_all(bucket, bucket.changed_rows), build_elections(bucket.history, bucket.states, facts)
    )


def by(facts: ClusterFacts, *releases: str) -> ClusterFacts:
    """The same, with controllers of these releases: a manifest names them, and no controller has registered."""
    return replace(facts, controller_releases=ControllerReleases(named=releases))


def around(
    brokers: BrokerTimeline,
    release: str = "4.3.1",
    min_isr: str | None = "2",
    unclean: str = "false",
    elr: bool = True,
    version: int = 25,
    migration: int = 0,
) -> ClusterFacts:
    """min_isr None: no config names it."""
    set_for_topic = [("min.insync.replicas", min_isr), ("unclean.leader.election.enable", unclean)]
    changes = [ConfigChange(0, 2, "t", name, value) for name, value in set_for_topic if value is not None]
    configs = (config_timeline(name, changes, [], {}) for name, _ in set_for_topic)
    levels = [(0, "metadata.version", version), (0, "eligible.leader.replicas.version", int(elr))]
    levels += [(0, ZK_MIGRATION_STATE, migration)]
    facts = ClusterFacts("c", brokers, feature_levels(levels), configs=ElectionConfigs({TOPIC_ID: "t"}, *configs))
    return by(facts, release)


def differences(history: pa.Table, facts: ClusterFacts) -> list[dict[str, Any]]:
    return check(history, facts).differences.to_pylist()


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_of_the_real_clusters_is_as_their_release_predicts(name: str) -> None:
    history, facts = real(name)
    assert Bucket(history, facts).profiles.names == ("4.3",)
    checked = check(history, facts)
    assert checked.predicted == CHANGES[name]
    assert checked.differences.to_pylist() == []
    elections = checked.elections
    assert set(elections["difference"].to_pylist()) == {"as_predicted"}
    fingerprint = PROFILES["4.3"].fingerprint
    assert elections["predictions"].to_pylist() == [
        [{"profile": "4.3", "rule_fingerprint": fingerprint, "leader": leader, "as_recorded": True}]
        for leader in elections["leader"].to_pylist()
    ]


# Capture -> changes, and those that are not as predicted: by (difference, reason).
JBOD = {
    "jbod-4.0.2": (445, {("known_bug", "KAFKA-19522"): 13, ("known_bug", "KAFKA-19975"): 1}),
    "jbod-4.1.1": (460, {}),
}


@pytest.mark.parametrize("name", JBOD)
def test_clusters_of_older_releases_with_two_disks_a_broker_are_as_predicted(name: str) -> None:
    """tests/captures/jbod.sh says what happened to them. What Kafka has mended since is told, and nothing else."""
    history, facts = real(name)
    checked = check(history, facts)
    count, known = JBOD[name]
    assert checked.predicted == count
    found = [(row["difference"], row["reason"]) for row in checked.differences.to_pylist()]
    assert {key: found.count(key) for key in found} == known
    assert {"directory_assignment", "directory_offline", "cancelled_reassignment"} <= set(triggers(name))


def triggers(name: str) -> dict[str, int]:
    history, facts = real(name)
    bucket = Bucket(history, facts)
    told = predict_all(bucket, bucket.changed_rows).trigger(slice(None)).tolist()
    return {trigger: told.count(trigger) for trigger in sorted(set(told))}


def test_the_triggers_are_those_that_the_clusters_went_through() -> None:
    assert triggers("unclean") == {
        "alter_partition": 37,
        "controlled_shutdown": 47,
        "fence": 33,
        "unclean_election": 1,
        "unclean_restart": 8,
        "unfence": 10,
    }
    assert triggers("elr") == {
        "alter_partition": 27,
        "controlled_shutdown": 59,
        "fence": 6,
        "reassignment": 1,
        "unfence": 3,
    }


def test_with_the_release_not_known_the_profiles_that_disagree_are_told() -> None:
    history, facts = real("unclean")
    everyone = by(facts)
    checked = check(history, everyone)
    # 4.0 would have elected a fenced broker three times, and nobody was.
    told = [(r["difference"], r["reason"], r["profile"]) for r in checked.differences.to_pylist()]
    assert told == [("profiles_disagree", "4.1.0, 4.1.1, 4.3", "4.0")] * 3
    answers = checked.elections["predictions"].to_pylist()
    assert [[p["profile"] for p in row] for row in answers] == [list(PROFILES)] * len(answers)
    # Kafka's mends make no difference for the elections that this cluster had, but see below.
    assert all(prediction["as_recorded"] for row in answers for prediction in row)


def test_a_log_of_another_release_than_its_controllers_say_is_an_unknown_input() -> None:
    """4.0 would have elected the last known leader in the batch in which it registers, fenced (KAFKA-19522)."""
    history, facts = real("unclean")
    found = differences(history, by(facts, "4.0.2"))
    told = [(r["trigger"], r["difference"], r["reason"], r["profile"], r["predicted"]["leader"]) for r in found]
    assert sorted(told) == [("unclean_restart", "unknown_input", "release", "4.0", leader) for leader in (3, 4, 4)]
    assert {row["predicted"]["leader_recovery_state"] for row in found} == {"RECOVERING"}
    assert differences(history, by(facts, "4.1.0")) == []


ALTERED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "leader": lambda row: 99,
    "elr": lambda row: [*row["elr"], 99],
    "last_known_elr": lambda row: [77],
    "leader_epoch": lambda row: row["leader_epoch"] + 5,
}


@given(st.data())
def test_a_change_that_kafka_would_not_have_written_is_a_difference(data: st.DataObject) -> None:
    """One field of one recorded state is altered: that change is told."""
    history, facts = real(data.draw(st.sampled_from(["unclean", "elr", "diverge"])))
    rows = Bucket(history, facts).changed_rows
    at = int(data.draw(st.sampled_from(rows.tolist())))
    row = history.slice(at, 1).to_pylist()[0]
    what = data.draw(st.sampled_from(sorted(ALTERED)))
    forged = pa.Table.from_pylist([row | {what: ALTERED[what](row)}], schema=history.schema)
    altered = pa.concat_tables([history.slice(0, at), forged, history.slice(at + 1)]).combine_chunks()
    found = {r["offset"]: r for r in differences(altered, facts) if r["topic_id"] == row["topic_id"]}
    assert row["offset"] in found
    assert found[row["offset"]]["difference"] != "known_bug"


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_difference(entry: Entry) -> None:
    for story, answer in entry.cases:
        items = story.split("; ")
        words = dict(item.split(" ", 1) for item in items if not item[0].isdigit())
        events = [item for item in items if SESSION.match(item)]
        ran = running(*map(int, words.get("run", "1,2,3").split(",")))
        least = words.get("min", "2")
        of, configs = sessions(*events) if events else ran, {"min_isr": None if least == "?" else least}
        known = around(of, words.get("by", "4.3.1"), **configs, migration=int(words.get("migration", 0)))
        found = differences(states(*(i for i in items if i[0].isdigit() and i not in events)), known)
        if answer == "nothing":
            assert found == [], story
            continue
        (what, reason, *more), *parts = (part.split() for part in answer.removeprefix("beside: ").split("; "))
        (row,) = (row for row in found if row["difference"] == what or not answer.startswith("beside"))
        assert (row["difference"], row["reason"] or "-") == (what, reason), story
        assert not more or more[0] in ("-", row["trigger"]), story
        if "at" in more:
            assert more[-1] in (str(row["offset"]), f"{row['offset']},{row['trigger_offset']}"), story
        for part, value in parts:
            name, _, expected = value.partition("=")
            assert value in row["differs_in"] if part == "differs" else str(row["predicted"][name]) == expected, story


def test_what_came_of_a_snapshot_or_a_clear_is_nobodys_prediction() -> None:
    history = states("10 isr=1 elr=2 leader=1", "20 elr=", "30 checkpoint isr=2 leader=2")
    facts = replace(around(running(1, 2, 3)), cleared=np.array([20]))
    checked = check(history, facts)
    assert checked.predicted == 0
    assert checked.differences.to_pylist() == []


def test_elections_and_changes_keep_their_places() -> None:
    """Predictions go to the elections that they are about, in many pieces as in one."""
    history, facts = real("churn")
    found = states_of(history)
    elections = check(history, facts).elections
    assert elections["offset"].to_pylist() == history["offset"].take(pa.array(leader_changes(found))).to_pylist()
    single = [row["predictions"][0]["leader"] for row in elections.to_pylist()]
    assert single == elections["leader"].to_pylist()
