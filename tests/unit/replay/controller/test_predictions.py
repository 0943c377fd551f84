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
from tests.support.scenario import TOPIC_ID, running, sessions, states, up

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


LEADERLESS = "10 isr= elr= lke=3 leader=-1"


@pytest.mark.parametrize(("release", "expected"), [("4.0.2", "known_bug"), ("4.3.1", "unknown_input")])
def test_a_fenced_last_known_leader_was_elected_by_4_0(release: str, expected: str) -> None:
    """KAFKA-19522: broker 1 comes back, and leader becomes broker 3, which is still fenced."""
    brokers = sessions("1 register 1 a", "2 register 2 b", "3 register 3 c", "20 unfence 1 batch=20")
    history = states(LEADERLESS, "21 isr=3 lke= leader=3 recovering batch=20")
    (found,) = differences(history, around(brokers, release))
    reason = "KAFKA-19522" if release == "4.0.2" else "release"
    assert (found["difference"], found["reason"]) == (expected, reason)
    assert (found["trigger"], found["trigger_offset"]) == ("unfence", 20)
    # What the newest rules do: nobody can be elected, and nothing is written.
    assert found["predicted"]["leader"] == -1
    assert "leader" in found["differs_in"]


@pytest.mark.parametrize("release", ["4.1.1", "4.3.1"])
def test_assigning_a_directory_emptied_the_elr_before_4_3(release: str) -> None:
    """apache/kafka#20716: the change of a directory was made as if ELR were off."""
    history = states("10 isr=1 elr=2 leader=1 dirs=d1,d2,d3", "20 elr= dirs=d1,d2,other")
    found = differences(history, around(running(1, 2, 3), release))
    expected = "known_bug" if release == "4.1.1" else "unknown_input"
    reason = "apache/kafka#20716" if release == "4.1.1" else "release"
    assert [(f["difference"], f["reason"], f["trigger"]) for f in found] == [(expected, reason, "directory_assignment")]
    kept = states("10 isr=1 elr=2 leader=1 dirs=d1,d2,d3", "20 dirs=d1,d2,other")
    assert bool(differences(kept, around(running(1, 2, 3), release))) == (release == "4.1.1")


@pytest.mark.parametrize("release", ["4.0.2", "4.1.0", "4.1.1", "4.3.1"])
def test_a_reassignment_to_the_same_replicas_in_another_order_is_no_mismatch(release: str) -> None:
    """Found by a drill on 4.0.2: the record has the replicas and their directories, and nothing else."""
    begun = "10 replicas=4,1,3 isr=1,3,4 leader=1 dirs=d4,d1,d3"
    history = states(begun, "20 replicas=3,4,1 dirs=d3,d4,d1")
    assert differences(history, around(running(1, 3, 4), release)) == []


def test_a_reassignment_that_waits_for_a_replica_that_stays_is_kafka_19975() -> None:
    """Broker 2 is to be replaced by 4 and broker 3 is out of sync: 4.1.1 waits for it, 4.3 ends the reassignment."""
    begun = "10 replicas=1,3,4,2 isr=1,2 adding=4 removing=2 leader=1"
    brokers = running(1, 2, 3, 4)
    waits = states(begun, "20 isr=1,2,4 dirs=d1,d3,d4,d2")
    ends = states(begun, "20 replicas=1,3,4 isr=1,4 adding= removing= epoch=1")
    assert differences(ends, around(brokers, "4.3")) == []
    assert [(f["difference"], f["reason"]) for f in differences(waits, around(brokers, "4.1.1"))] == [
        ("known_bug", "KAFKA-19975")
    ]
    assert [f["difference"] for f in differences(waits, around(brokers, "4.3"))] == ["unknown_input"]


@pytest.mark.parametrize("release", ["4.0.2", "4.3.1"])
def test_a_reassignment_that_adds_and_removes_the_same_replica_is_cancelled(release: str) -> None:
    """A redirected one: changePartitionReassignment leaves the adding replicas as they are if it adds none."""
    begun = "10 replicas=6,4,2 isr=6,4 adding=2,6 removing=2 leader=4"
    history = states(begun, "20 replicas=4 isr=4 adding= removing= epoch=1")
    facts = around(running(2, 4, 6), release, min_isr="1")
    assert differences(history, facts) == []
    bucket = Bucket(history, facts)
    assert predict_all(bucket, bucket.changed_rows).trigger.tolist() == ["cancelled_reassignment"]


def test_a_redirected_reassignment_may_end_at_once() -> None:
    """Before KAFKA-19975: broker 2, which is in sync and was to leave, shall be the only replica."""
    begun = "10 replicas=6,3,2,4 isr=2 adding=3,6 removing=2,4 leader=2"
    history = states(begun, "20 replicas=2 adding= removing= epoch=1")
    assert [d["difference"] for d in differences(history, around(running(2, 3, 4, 6), "4.1.1"))] == []


def test_assigning_the_same_directory_again_emptied_the_elr_before_4_3() -> None:
    history = states("10 isr=1 elr=2 leader=1", "20 elr=")
    (found,) = differences(history, around(running(1, 2, 3), "4.1.1"))
    bug = ("known_bug", "apache/kafka#20716", "directory_assignment")
    assert (found["difference"], found["reason"], found["trigger"]) == bug
    (found,) = differences(history, around(running(1, 2, 3), "4.3.1"))
    assert (found["difference"], found["reason"]) == ("unknown_input", "release")


@pytest.mark.parametrize("directory", ["AAAAAAAAAAAAAAAAAAAAAg", "failed"])
def test_a_replica_assigned_to_a_directory_that_is_offline_leaves_the_isr(directory: str) -> None:
    """ReplicationControlManager.handleAssignReplicasToDirs: also if the directory failed while the request was on its
    way. It makes both records from the state before them: 4.1.1 empties the ELR with the first one only."""
    placed = f"dirs=d1,{directory},d3 batch=20"
    history = states("10 isr=1,2 elr=3 leader=1", f"20 elr= {placed}", f"21 isr=1 elr=2,3 {placed}")
    found = differences(history, around(running(1, 2, 3), "4.1.1", min_isr="3"))
    assert [(f["offset"], f["difference"]) for f in found] == [(20, "known_bug")]
    kept = states("10 isr=1,2 elr=3 leader=1", f"20 {placed}", f"21 isr=1 elr=2,3 {placed}")
    assert differences(kept, around(running(1, 2, 3), "4.3.1", min_isr="3")) == []


def test_an_assignment_to_an_offline_directory_elects_again_whoever_it_is_about() -> None:
    """Leader 1, which is fenced, is found unacceptable by both records; broker 3 is not even in the ISR."""
    history = states(
        "10 isr=1 leader=1", "20 leader=-1 lke=1 dirs=d1,d2,gone batch=20", "21 epoch=2 dirs=d1,d2,gone batch=20"
    )
    assert differences(history, around(sessions("1 register 1 a", *up(2, 3)))) == []


@pytest.mark.parametrize("event", ["register 2 z", "unregister 2"])
def test_after_a_cleared_elr_the_same_record_may_be_written_twice(event: str) -> None:
    """ReplicationControlManager.removeTopicElrs (4.0.0 to 4.4.0) does not tell BrokersToElrs."""
    history = states("10 isr=1,2,3 leader=1", "20 isr=1,3 batch=20", "21 batch=20")
    brokers = sessions(*up(1, 2, 3), f"22 {event} batch=20")
    assert differences(history, around(brokers)) == []
    alone = sessions(*up(1, 2, 3), f"22 {event} batch=22")
    assert [d["offset"] for d in differences(history, around(alone)) if d["difference"] == "unexplained"] == [21]


def test_a_fenced_broker_that_stops_is_fenced_once_more() -> None:
    """It was the last one in sync before ELR was on, and stops before it is unfenced."""
    brokers = sessions(*up(1, 3), "5 register 2 b", "20 fence 2 batch=19")
    assert differences(states("10 isr=2 leader=-1", "19 isr= elr=2"), around(brokers)) == []


def test_an_assumed_min_isr_that_would_explain_the_change_is_an_unknown_input() -> None:
    """The ELR took broker 2 in: with the default min ISR of 1 it would have stayed empty."""
    history = states("10 isr=1,2 leader=1", "20 isr=1 elr=2")
    assert differences(history, around(running(1, 2, 3))) == []
    (found,) = differences(history, around(running(1, 2, 3), min_isr=None))
    assert (found["difference"], found["reason"]) == ("unknown_input", "min.insync.replicas")
    assert found["differs_in"] == ["elr"]
    assert found["predicted"]["elr"] == []


def test_a_broker_that_no_record_shows_is_an_unknown_input() -> None:
    history = states("10 isr=1 leader=1", "20 isr=3 elr= leader=3 recovering")
    (found,) = differences(history, around(running(1, 2)))
    assert (found["difference"], found["reason"]) == ("unknown_input", "broker_registrations")
    (found,) = differences(history, around(running(1, 2, 3)))
    assert (found["difference"], found["reason"], found["trigger"]) == ("unexplained", None, "preferred_election")


def test_a_removal_whose_event_is_not_in_the_log_is_an_unknown_trigger() -> None:
    history = states("10 isr=1,2,3 leader=1", "20 isr=2,3 leader=2")
    (found,) = differences(history, around(running(1, 2, 3)))
    assert (found["difference"], found["reason"]) == ("unknown_input", "trigger")
    fenced = sessions(*up(1, 2, 3), "21 fence 1 batch=20")
    assert differences(history, around(fenced)) == []


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


def test_more_replicas_than_directories_are_compared_like_any_other_state() -> None:
    """A history in which no state has as many directories as replicas: a damaged log, or one that was altered."""
    history = states("10 isr=1,2,3 leader=1 dirs=d1,d2", "20 replicas=3,2,1 isr=1,2,3 dirs=d1,d2")
    (found,) = differences(history, around(running(1, 2, 3)))
    assert (found["offset"], found["differs_in"]) == (20, ["directories"])
