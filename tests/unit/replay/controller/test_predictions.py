"""Predicted against recorded: the real clusters' changes, known bugs, what is not known, what nothing explains."""

from __future__ import annotations

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
from replay.cluster.features import feature_levels
from replay.controller.differences import Checked, check_rules
from replay.controller.predictions import predict_all
from replay.controller.profiles import PROFILES
from replay.controller.transitions import Bucket
from replay.partitions.elections import build_elections, leader_changes, states_of
from tests.support.pure import replayed
from tests.support.scenario import SESSION, TOPIC_ID, running, sessions, states
from tests.support.window_table import Entry, entries

CHANGES = {"unclean": 136, "elr": 96, "churn": 433, "diverge": 60, "unclean-4.4.0": 131}
NOTHING = np.array([], dtype=np.int64)


@cache
def real(name: str) -> tuple[pa.Table, ClusterFacts]:
    history, state = replayed(name)
    return schemas.sorted_history(history.table), cluster_facts("c", state, Clock(), None, {})


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
) -> ClusterFacts:
    """min_isr None: no config names it."""
    set_for_topic = [("min.insync.replicas", min_isr), ("unclean.leader.election.enable", unclean)]
    changes = [ConfigChange(0, 2, "t", name, value) for name, value in set_for_topic if value is not None]
    configs = (config_timeline(name, changes, [], {}) for name, _ in set_for_topic)
    levels = [(0, "metadata.version", version), (0, "eligible.leader.replicas.version", int(elr))]
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
    told = predict_all(bucket, bucket.changed_rows).trigger.tolist()
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


# States and events (or brokers that `run`: else 1,2,3), the controllers' release (`by`: else 4.3.1), min ISR
# (`min ?`: no config names it), and the only difference: what it is, its reason (-: none), its trigger, `at` its
# offset and the trigger's, in what it `differs`, and `predicted` values; or `nothing`.
TABLE = """\
UP = 1 register 1 i1; 2 register 2 i2; 3 register 3 i3; 4 unfence 1; 5 unfence 2; 6 unfence 3
PLACED = 10 isr=1 elr=2 leader=1 dirs=d1,d2,d3
# KAFKA-19522: broker 1 comes back, and leader becomes broker 3, which is still fenced. The newest rules elect nobody.
test_a_fenced_last_known_leader_was_elected_by_4_0: 1 register 1 a; 2 register 2 b; 3 register 3 c;
    20 unfence 1 batch=20; 10 isr= elr= lke=3 leader=-1; 21 isr=3 lke= leader=3 recovering batch=20
  by 4.0.2 -> known_bug KAFKA-19522 unfence at 21,20; predicted leader=-1; differs leader
  by 4.3.1 -> unknown_input release unfence at 21,20; predicted leader=-1; differs leader
# apache/kafka#20716: the change of a directory was made as if ELR were off.
test_assigning_a_directory_emptied_the_elr_before_4_3: PLACED
  20 elr= dirs=d1,d2,other; by 4.1.1 -> known_bug apache/kafka#20716 directory_assignment
  20 elr= dirs=d1,d2,other; by 4.3.1 -> unknown_input release directory_assignment
  20 dirs=d1,d2,other; by 4.1.1 -> unknown_input release
  20 dirs=d1,d2,other; by 4.3.1 -> nothing
test_assigning_the_same_directory_again_emptied_the_elr_before_4_3: 10 isr=1 elr=2 leader=1; 20 elr=
  by 4.1.1 -> known_bug apache/kafka#20716 directory_assignment
  by 4.3.1 -> unknown_input release
# Found by a drill on 4.0.2: the record has the replicas and their directories, and nothing else.
test_a_reassignment_to_the_same_replicas_in_another_order_is_no_mismatch: run 1,3,4;
    10 replicas=4,1,3 isr=1,3,4 leader=1 dirs=d4,d1,d3; 20 replicas=3,4,1 dirs=d3,d4,d1 -> nothing
  by 4.0.2
  by 4.1.0
  by 4.1.1
  by 4.3.1
# Broker 2 is to be replaced by 4 and broker 3 is out of sync: 4.1.1 waits for it, 4.3 ends the reassignment.
test_a_reassignment_that_waits_for_a_replica_that_stays_is_kafka_19975: run 1,2,3,4;
    10 replicas=1,3,4,2 isr=1,2 adding=4 removing=2 leader=1
  20 replicas=1,3,4 isr=1,4 adding= removing= epoch=1; by 4.3 -> nothing
  20 isr=1,2,4 dirs=d1,d3,d4,d2; by 4.1.1 -> known_bug KAFKA-19975
  20 isr=1,2,4 dirs=d1,d3,d4,d2; by 4.3 -> unknown_input release
# A redirected one: changePartitionReassignment leaves the adding replicas as they are if it adds none.
test_a_reassignment_that_adds_and_removes_the_same_replica_is_cancelled: run 2,4,6; min 1;
    10 replicas=6,4,2 isr=6,4 adding=2,6 removing=2 leader=4; 20 replicas=4 isr=4 adding= removing= epoch=1 -> nothing
  by 4.0.2
  by 4.3.1
# Before KAFKA-19975: broker 2, which is in sync and was to leave, shall be the only replica.
test_a_redirected_reassignment_may_end_at_once: run 2,3,4,6; 10 replicas=6,3,2,4 isr=2 adding=3,6 removing=2,4 leader=2;
    20 replicas=2 adding= removing= epoch=1; by 4.1.1 -> nothing
# ReplicationControlManager.handleAssignReplicasToDirs: also if the directory failed while the request was on its way.
# It makes both records from the state before them: 4.1.1 empties the ELR with the first one only.
test_a_replica_assigned_to_a_directory_that_is_offline_leaves_the_isr: 10 isr=1,2 elr=3 leader=1; min 3
  by 4.1.1; 20 elr= dirs=d1,AAAAAAAAAAAAAAAAAAAAAg,d3 batch=20;
    21 isr=1 elr=2,3 dirs=d1,AAAAAAAAAAAAAAAAAAAAAg,d3 batch=20 -> known_bug apache/kafka#20716 - at 20
  by 4.1.1; 20 elr= dirs=d1,failed,d3 batch=20;
    21 isr=1 elr=2,3 dirs=d1,failed,d3 batch=20 -> known_bug apache/kafka#20716 - at 20
  20 dirs=d1,AAAAAAAAAAAAAAAAAAAAAg,d3 batch=20;
    21 isr=1 elr=2,3 dirs=d1,AAAAAAAAAAAAAAAAAAAAAg,d3 batch=20 -> nothing
  20 dirs=d1,failed,d3 batch=20; 21 isr=1 elr=2,3 dirs=d1,failed,d3 batch=20 -> nothing
# Leader 1, which is fenced, is found unacceptable by both records; broker 3 is not even in the ISR.
test_an_assignment_to_an_offline_directory_elects_again_whoever_it_is_about: 1 register 1 a; 2 register 2 i2;
    3 register 3 i3; 4 unfence 2; 5 unfence 3; 10 isr=1 leader=1;
    20 leader=-1 lke=1 dirs=d1,d2,gone batch=20; 21 epoch=2 dirs=d1,d2,gone batch=20 -> nothing
# ReplicationControlManager.removeTopicElrs (4.0.0 to 4.4.0) does not tell BrokersToElrs.
test_after_a_cleared_elr_the_same_record_may_be_written_twice: UP; 10 isr=1,2,3 leader=1; 20 isr=1,3 batch=20;
    21 batch=20
  22 register 2 z batch=20 -> nothing
  22 unregister 2 batch=20 -> nothing
# It was the last one in sync before ELR was on, and stops before it is unfenced.
test_a_fenced_broker_that_stops_is_fenced_once_more: 1 register 1 i1; 2 register 3 i3; 3 unfence 1; 4 unfence 3;
    5 register 2 b; 20 fence 2 batch=19; 10 isr=2 leader=-1; 19 isr= elr=2 -> nothing
# The ELR took broker 2 in: with the default min ISR of 1 it would have stayed empty.
test_an_assumed_min_isr_that_would_explain_the_change_is_an_unknown_input: 10 isr=1,2 leader=1; 20 isr=1 elr=2
  -> nothing
  min ? -> unknown_input min.insync.replicas; differs elr; predicted elr=[]
test_a_broker_that_no_record_shows_is_an_unknown_input: 10 isr=1 leader=1; 20 isr=3 elr= leader=3 recovering
  run 1,2 -> unknown_input broker_registrations
  run 1,2,3 -> unexplained - preferred_election
test_a_removal_whose_event_is_not_in_the_log_is_an_unknown_trigger: 10 isr=1,2,3 leader=1; 20 isr=2,3 leader=2
  -> unknown_input trigger
  UP; 21 fence 1 batch=20 -> nothing
# A history in which no state has as many directories as replicas: a damaged log, or one that was altered.
test_more_replicas_than_directories_are_compared_like_any_other_state: 10 isr=1,2,3 leader=1 dirs=d1,d2;
    20 replicas=3,2,1 isr=1,2,3 dirs=d1,d2 -> unexplained - - at 20; differs directories
"""


@pytest.mark.parametrize("entry", entries(TABLE), ids=lambda entry: entry.name)
def test_difference(entry: Entry) -> None:
    for story, answer in entry.cases:
        items = story.split("; ")
        words = dict(item.split(" ", 1) for item in items if not item[0].isdigit())
        events = [item for item in items if SESSION.match(item)]
        ran = running(*map(int, words.get("run", "1,2,3").split(",")))
        least = words.get("min", "2")
        known = around(sessions(*events) if events else ran, words.get("by", "4.3.1"), None if least == "?" else least)
        found = differences(states(*(i for i in items if i[0].isdigit() and i not in events)), known)
        if answer == "nothing":
            assert found == [], story
            continue
        (row,) = found
        (what, reason, *more), *parts = (part.split() for part in answer.split("; "))
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
