"""The min ISR that a leader goes by need not be the controller's: what bounds a high watermark must hold for both.

Sources: Kafka's Partition.isUnderMinIsr and effectiveMinIsr (the leader's LogConfig, its own number of replicas),
DynamicBrokerConfig (a broker's own setting comes before the cluster's default, that before its file; it applies all
defaults of the cluster or none), ReplicationControlManager.getTopicEffectiveMinIsr (the cap by partition 0),
BrokerMetadataPublisher.onMetadataUpdate (partitions before configs); the same in 3.9.1 to 4.3.1.
"""

from __future__ import annotations

import pytest

from replay.bucket import detect
from replay.cluster.configs import BROKER, MIN_ISR, ConfigChange, config_timeline
from replay.cluster.facts import ClusterFacts, shares_defaults
from tests.support.detection import judged_window, statements, windows
from tests.support.scenario import elr_levels, evidence, ms, newer, offsets_table, sessions, states, together, up
from tests.support.window_table import Entry, entries, set_to

TABLE = """\
# Broker 1 led, alone from 20 on; broker 2 was elected uncleanly at 60, with a log end of 80.
UP = 1 register 1 i1; 2 register 2 i2; 3 register 3 i3; 4 unfence 1; 5 unfence 2; 6 unfence 3
TWO_UP = 1 register 1 i1; 2 register 2 i2; 3 unfence 1; 4 unfence 2
ALONE = UP; 18 fence 2; 18 fence 3; 50 fence 1; 55 unfence 2
LOST = 50 isr= leader=-1; 60 isr=2 leader=2 recovering; 80 isr=2,3 recovered
LATER = 20 isr=1; LOST
LINE = 70 b2 e0@0 e2@80
LATER_LINE = 70 b2 e0@0 e3@80
BELOW = 30 b1 isr=1 under=1 leo=80
OWN_WORD = 30 b1 isr=1 under=1 leo=79 proc=0; 33 b1 isr=1 under=1 leo=80 proc=0
ENOUGH = 30 b1 isr=1 under=0 leo=150 proc=0; 33 b1 isr=1 under=0 leo=151 proc=0
# Its machine did not start again.
RAN_ON = machine 1 a@5 a@1010
LED_AGAIN = 50 leader=-1; 55 leader=1; 50 fence 1; 52 register 1 j1; 54 unfence 1; 65 fence 1
REGISTERED_AGAIN = 40 register 1 j1; 41 unfence 1
LEFT = 65 isr= elr=1,2 leader=-1; 70 isr=2 elr=1 leader=2; judged 70
test_a_leader_whose_own_min_isr_may_be_another_bounds_nothing: ALONE; LATER; LINE; threads 1:1
  # The leader has a value of its own, below the cluster's default.
  newer; 10 isr=1,2,3 min=2 source=cluster; BELOW; set 5 cluster 2 -> ceiling_below_min_isr
  newer; 10 isr=1,2,3 min=2 source=cluster; BELOW; set 5 cluster 2 6 1 1 -> no ceiling_below_min_isr
  # The topic's value went for a while, and the leader's file says 1, the controller's 2.
  newer; 10 isr=1,2,3 min=2; BELOW; set 0 file 2 5 t 2 -> ceiling_below_min_isr
  newer; 10 isr=1,2,3 min=2; BELOW; set 0 file 2 5 t 2 25 t - 26 t 2 -> no ceiling_below_min_isr
  # The operator lets the leader, whose file says 2, go on: the controllers' files have said 1 all the while.
  newer; 10 isr=1,2,3 min=1 source=assumed_default; OWN_WORD; set -> ceiling_leaders_own_word
  newer; 10 isr=1,2,3 min=1 source=assumed_default; OWN_WORD; set 40 cluster 1 -> no ceiling_leaders_own_word
  newer; 10 isr=1,2,3 min=1 source=assumed_default; OWN_WORD; set 40 1 1 -> no ceiling_leaders_own_word
  # The same: the leader's high watermark moves with the next append only.
  10 isr=1,2,3 min=1 source=assumed_default; ENOUGH; set -> floor_leader_alone
  10 isr=1,2,3 min=1 source=assumed_default; ENOUGH; set 28 cluster 1 -> no floor_leader_alone
  10 isr=1,2,3 min=1 source=assumed_default; ENOUGH; set 28 1 1 -> no floor_leader_alone
test_a_topics_min_isr_that_its_leader_may_have_refused_bounds_nothing: newer; ALONE; 10 isr=1,2,3; LATER; LINE
  BELOW -> ceiling_below_min_isr
  # With another config of the topic that its release cannot parse (DynamicConfigPublisher): it has an earlier value.
  BELOW; refused -> no ceiling_below_min_isr
# A process that starts applies what partitions are before the cluster's default, not before the topic's value. Alone in
# the ISR it sets its high watermark to its log's end, if its file says 1, and serves it when it has registered.
test_a_member_of_the_elr_may_lack_what_a_leader_counted_that_knew_min_isr_late: TWO_UP; elr;
    20 isr=1 elr=2; LEFT; RAN_ON
  # It led again after it had registered.
  10 isr=1,2 replicas=1,2 source=topic; LED_AGAIN -> excluded
  10 isr=1,2 replicas=1,2 source=cluster; LED_AGAIN -> undetermined
  # It registered again within its term.
  10 isr=1,2 replicas=1,2 source=topic; REGISTERED_AGAIN; 65 fence 1 -> excluded
  10 isr=1,2 replicas=1,2 source=cluster; REGISTERED_AGAIN; 65 fence 1 -> undetermined
test_another_process_of_the_leader_may_lift_the_high_watermark: UP; REGISTERED_AGAIN; 50 fence 1; newer; LATER; LINE
  10 isr=1,2,3 source=topic; BELOW -> ceiling_below_min_isr
  10 isr=1,2,3 source=cluster; BELOW -> no ceiling_below_min_isr
  10 isr=1,2,3 source=topic; b1 stays e0 p1 hw=150 -> ceiling_logged_below_min_isr
  10 isr=1,2,3 source=cluster; b1 stays e0 p1 hw=150 -> no ceiling_logged_below_min_isr
# A leader applies a state before the configs of the same delta, also those that were changed before (see
# `LeaderTerms.configs_from`): at 17 it may be too late for it to know at 20.
test_a_member_of_the_elr_may_lack_what_a_leader_counted_that_learned_late_of_a_higher_min_isr: TWO_UP; 65 fence 1; elr;
    10 isr=1,2 replicas=1,2 min=1 leader=2; 18 leader=1; 20 isr=1 elr=2; LEFT -> undetermined
  # A process that began before may still not know: it waits for a disk, and sends heartbeats.
  11 min=2; 12 register 1 j1; 13 unfence 1 -> excluded
  11 min=2
  17 min=2; 12 register 1 j1; 13 unfence 1
test_a_leader_elected_as_min_isr_was_lowered_may_not_have_raised_its_high_watermark: 10 isr=1,2,3 leader=3;
    20 isr=1 leader=1; LOST; ALONE; threads 1:1; LATER_LINE
  # It moves it when it takes over, by the min ISR that it knows then, and with the next append.
  12 min=1; ENOUGH -> floor_leader_alone
  17 min=1; ENOUGH -> no floor_leader_alone
  12 min=1; 30 b1 isr=1 under=0; 70 b1 heads=145:150/1 -> floor_lone_leaders_log
  17 min=1; 30 b1 isr=1 under=0; 70 b1 heads=145:150/1 -> no floor_lone_leaders_log
test_a_lone_leader_that_started_by_its_file_may_not_have_raised_its_high_watermark: 1 register 1 i1; 2 register 2 i2;
    3 register 3 i3; 5 unfence 2; 6 unfence 3; 14 fence 1; 18 fence 2; 18 fence 3; 22 unfence 1; 50 fence 1;
    threads 1:1; 20 isr=1 leader=1; LOST; 30 b1 isr=1 under=0 leo=150 proc=5; 33 b1 isr=1 under=0 leo=151 proc=5;
    LATER_LINE; RAN_ON
  # Its file says 2; it leads when it starts, since it was elected while it was fenced, or since its session was over
  # and not yet ended. Then it learns of the cluster's default, 1, and nothing is written.
  15 register 1 j1; 10 isr=1,2,3 min=1 leader=3 source=topic -> floor_leader_alone
  15 register 1 j1; 10 isr=1,2,3 min=1 leader=3 source=cluster -> no floor_leader_alone
  21 register 1 j1; 10 isr=1,2,3 min=1 leader=3 source=topic -> floor_leader_alone
  21 register 1 j1; 10 isr=1,2,3 min=1 leader=3 source=cluster -> no floor_leader_alone
test_a_leader_that_takes_a_replica_in_may_not_know_yet_that_min_isr_was_raised: 10 isr=1,2,3; 20 isr=1;
    50 isr= leader=-1; 60 isr=3 leader=3 recovering; UP; 18 fence 3; 50 fence 1; 50 fence 2; 55 unfence 3; newer;
    70 b3 e0@0 e2@80
  # The controller's answer reaches it before the metadata log does: two are enough for it, and it advances.
  BELOW -> excluded; ceiling_below_min_isr
  BELOW; 35 min=3; 36 isr=1,2 -> not excluded; no ceiling_below_min_isr
  b1 stays e0 p1 hw=80 -> excluded; ceiling_logged_below_min_isr
  b1 stays e0 p1 hw=80; 35 min=3; 36 isr=1,2 -> not excluded; no ceiling_logged_below_min_isr
test_a_leader_that_waits_for_a_disk_has_yet_to_apply_a_min_isr_that_was_in_force_for_a_while: 14 min=1; 16 min=2;
    26 isr=1; LOST; UP; 25 fence 2; 25 fence 3; 50 fence 1; 55 unfence 2; newer; 36 b1 isr=1 under=1 leo=80 proc=0;
    39 b1 isr=1 under=1 leo=80 proc=0
  # It knows 2 from before 14, and that it is alone by the controller's answer. Then 1 comes, and it advances. It has
  # not, if it learned later that it leads.
  10 isr=1,2,3 source=topic; 18 leader=3; 25 leader=1; 70 b2 e0@0 e2@70 e4@80 -> excluded; ceiling_below_min_isr
  10 isr=1,2,3 source=topic; LINE -> not excluded; no ceiling_below_min_isr
  10 isr=1,2,3 source=default; 18 leader=3; 25 leader=1; 70 b2 e0@0 e2@70 e4@80 -> excluded; ceiling_leaders_own_word
  10 isr=1,2,3 source=default; LINE -> not excluded; no ceiling_leaders_own_word
"""


@pytest.mark.parametrize("entry", entries(TABLE), ids=lambda entry: entry.name)
def test_window(entry: Entry) -> None:
    entry.check()


ALONE = sessions(*up(1, 2, 3), "18 fence 2", "18 fence 3", "50 fence 1", "55 unfence 2")
LATER = ("20 isr=1", "50 isr= leader=-1", "60 isr=2 leader=2 recovering", "80 isr=2,3 recovered")
LINE, BELOW = "70 b2 e0@0 e2@80", "30 b1 isr=1 under=1 leo=80"

CONFIGS = ("min.insync.replicas", "unclean.leader.election.enable", "num.io.threads")


@pytest.mark.parametrize("layer", ["topic", "cluster"])
@pytest.mark.parametrize("last", range(1, 4))
def test_a_broker_that_cannot_apply_one_default_of_the_cluster_applies_none(layer: str, last: int) -> None:
    changes = [ConfigChange(0, BROKER, "", name, "2") for name in CONFIGS[:last]]
    history = (f"10 isr=1,2,3 source={layer}", *LATER)
    found = judged_window(history, BELOW, LINE, brokers=newer(ALONE), shares_defaults=shares_defaults(changes))
    assert ("ceiling_below_min_isr" in statements(found)) == (layer == "topic" or last < 3)


@pytest.mark.parametrize(("configured", "known"), [("1", True), ("2", False)])
def test_a_lone_leader_below_its_own_min_isr_shows_no_high_watermark(configured: str, known: bool) -> None:
    """The controller caps min ISR at the replicas of partition 0, which has one; the leader at those of its partition,
    which has three, and below that its high watermark stands still."""
    first = states("10 isr=1 replicas=1 min=1")
    own = states("10 isr=1,2,3 min=1", *LATER, partition=1)
    rows = offsets_table(evidence("30 b1 isr=1 under=0", "70 b1 heads=120,130,135,140,145:150/0", LINE, partition=1))
    times = {"log_end_ms": ms(1_000), "session_timeout_ms": 2_000, "checkpoint_interval_ms": 1_000}
    known_configs = {"request_threads": {1: 4}, **set_to([("5", "t", configured)])}
    cluster = ClusterFacts("c", ALONE, elr_levels(False), **times, **known_configs)
    (window,) = windows(detect(together(first, own), rows, cluster).findings)
    assert ("floor_lone_leaders_log" in statements(window)) == known


@pytest.mark.parametrize(
    ("value", "text", "known"),
    [
        ("1", "30 b1 isr=1 under=0", True),
        ("2", "30 b1 isr=1 under=0", False),
        ("${env:MIN_ISR}", "30 b1 isr=1 under=0", False),
        # The file may have been edited since its process began; the last text may be the next one's, which waits.
        ("1", "30 b1 isr=1", False),
        ("1", "48 b1 isr=1 under=0", False),
    ],
)
def test_a_lone_leader_whose_file_does_not_say_its_min_isr_shows_no_high_watermark(
    value: str, text: str, known: bool
) -> None:
    file = {"process.roles": "broker", MIN_ISR: value}
    own = {1: config_timeline(MIN_ISR, [], [(-1, 1)], {1: file})}
    history = ("10 isr=1,2,3 min=1 source=default", *LATER)
    shown = (text, "70 b1 heads=120,130,135,140,145:150/0", LINE)
    found = judged_window(history, *shown, brokers=ALONE, request_threads={1: 4}, broker_min_isr=own)
    assert ("floor_lone_leaders_log" in statements(found)) == known
