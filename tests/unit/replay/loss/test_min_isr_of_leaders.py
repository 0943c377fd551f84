"""The min ISR that a leader goes by need not be the controller's: what bounds a high watermark must hold for both.

Sources: Kafka's Partition.isUnderMinIsr and effectiveMinIsr (the leader's LogConfig, its own number of replicas),
DynamicBrokerConfig (a broker's own setting comes before the cluster's default, that before its file; it applies all
defaults of the cluster or none), ReplicationControlManager.getTopicEffectiveMinIsr (the cap by partition 0),
BrokerMetadataPublisher.onMetadataUpdate (partitions before configs); the same in 3.9.1 to 4.3.1.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from replay.bucket import detect
from replay.cluster.boots import BootReading
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.configs import (
    BROKER,
    MIN_ISR,
    TOPIC,
    UNCLEAN_LEADER_ELECTION,
    ConfigChange,
    ElectionConfigs,
    config_timeline,
)
from replay.cluster.facts import ClusterFacts, shares_defaults
from tests.support.broker_log_lines import logged
from tests.support.detection import judged_window, statements, windows
from tests.support.scenario import (
    TOPIC_ID,
    elr_levels,
    evidence,
    ms,
    newer,
    offsets_table,
    sessions,
    states,
    together,
    up,
)

# Broker 1 led, alone from 20 on; broker 2 was elected uncleanly at 60, with a log end of 80.
UP = up(1, 2, 3)
ALONE = sessions(*UP, "18 fence 2", "18 fence 3", "50 fence 1", "55 unfence 2")
LATER = ("20 isr=1", "50 isr= leader=-1", "60 isr=2 leader=2 recovering", "80 isr=2,3 recovered")
LINE = "70 b2 e0@0 e2@80"
BELOW = "30 b1 isr=1 under=1 leo=80"
OWN_WORD = ("30 b1 isr=1 under=1 leo=79 proc=0", "33 b1 isr=1 under=1 leo=80 proc=0")
SAYS_THAT_IT_IS_ENOUGH = ("30 b1 isr=1 under=0 leo=150 proc=0", "33 b1 isr=1 under=0 leo=151 proc=0")
# Broker 1 has one request thread.
ONE = {"request_threads": {1: 1}}


def set_to(*changes: str) -> dict[str, Any]:
    """What ClusterFacts knows of min.insync.replicas. changes: "<offset> <resource> <value>"; resource: cluster, t (the
    topic), file or a broker; value -: none; file: what the controller's says."""
    found, file = [], {}
    for offset, resource, value in (change.split() for change in changes):
        if resource == "file":
            file = {3000: {"process.roles": "controller", MIN_ISR: value}}
            continue
        kind, name = (TOPIC, "t") if resource == "t" else (BROKER, "" if resource == "cluster" else resource)
        found.append(ConfigChange(int(offset), kind, name, MIN_ISR, None if value == "-" else value))
    seen_by = {broker: config_timeline(MIN_ISR, found, [(-1, broker)], {}) for broker in (1, 2, 3)}
    unclean = config_timeline(UNCLEAN_LEADER_ELECTION, [], [], {})
    configs = ElectionConfigs({TOPIC_ID: "t"}, config_timeline(MIN_ISR, found, [(-1, 3000)], file), unclean)
    return {"configs": configs, "broker_min_isr": seen_by}


@pytest.mark.parametrize(
    ("code", "first", "lines", "brokers", "sound", "unsound"),
    [
        # The leader has a value of its own, below the cluster's default.
        ("ceiling_below_min_isr", "min=2 source=cluster", (BELOW,), newer(ALONE), ["5 cluster 2"], ["6 1 1"]),
        # The topic's value went for a while, and the leader's file says 1, the controller's 2.
        ("ceiling_below_min_isr", "min=2", (BELOW,), newer(ALONE), ["0 file 2", "5 t 2"], ["25 t -", "26 t 2"]),
        # The operator lets the leader, whose file says 2, go on: the controllers' files have said 1 all the while.
        (
            "ceiling_leaders_own_word",
            "min=1 source=assumed_default",
            OWN_WORD,
            newer(ALONE),
            [],
            ["40 cluster 1"],
        ),
        ("ceiling_leaders_own_word", "min=1 source=assumed_default", OWN_WORD, newer(ALONE), [], ["40 1 1"]),
        # The same: the leader's high watermark moves with the next append only.
        ("floor_leader_alone", "min=1 source=assumed_default", SAYS_THAT_IT_IS_ENOUGH, ALONE, [], ["28 cluster 1"]),
        ("floor_leader_alone", "min=1 source=assumed_default", SAYS_THAT_IT_IS_ENOUGH, ALONE, [], ["28 1 1"]),
    ],
)
def test_a_leader_whose_own_min_isr_may_be_another_bounds_nothing(
    code: str, first: str, lines: tuple[str, ...], brokers: BrokerTimeline, sound: list[str], unsound: list[str]
) -> None:
    for changes, known in ((sound, True), ([*sound, *unsound], False)):
        found = judged_window(
            (f"10 isr=1,2,3 {first}", *LATER), *lines, LINE, brokers=brokers, **ONE, **set_to(*changes)
        )
        assert (code in statements(found)) == known, changes


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
    known_configs = {"request_threads": {1: 4}, **set_to(f"5 t {configured}")}
    cluster = ClusterFacts("c", ALONE, elr_levels(False), **times, **known_configs)
    (window,) = windows(detect(together(first, own), rows, cluster).findings)
    assert ("floor_lone_leaders_log" in statements(window)) == known


@pytest.mark.parametrize(("value", "known"), [("1", True), ("2", False), ("${env:MIN_ISR}", False)])
def test_a_lone_leader_whose_file_does_not_say_its_min_isr_shows_no_high_watermark(value: str, known: bool) -> None:
    file = {"process.roles": "broker", MIN_ISR: value}
    own = {1: config_timeline(MIN_ISR, [], [(-1, 1)], {1: file})}
    history = ("10 isr=1,2,3 min=1 source=default", *LATER)
    shown = ("30 b1 isr=1 under=0", "70 b1 heads=120,130,135,140,145:150/0", LINE)
    found = judged_window(history, *shown, brokers=ALONE, request_threads={1: 4}, broker_min_isr=own)
    assert ("floor_lone_leaders_log" in statements(found)) == known


# A process that starts applies what partitions are before the cluster's default, not before the topic's value. Alone in
# the ISR it sets its high watermark to its log's end, if its file says 1, and serves it when it has registered.

# Its machine did not start again.
RAN_ON = {1: [BootReading("a", ms(at), ms(at)) for at in (5, 1_010)]}
REGISTERED_AGAIN = ("40 register 1 j1", "41 unfence 1", "50 fence 1")
STOOD_STILL = ("10 isr=1,2 replicas=1,2", "20 isr=1 elr=2")
LEFT = ("65 isr= elr=1,2 leader=-1", "70 isr=2 elr=1 leader=2")


@pytest.mark.parametrize(
    ("led", "brokers"),
    [
        # It led again after it had registered.
        (("50 leader=-1", "55 leader=1"), ("50 fence 1", "52 register 1 j1", "54 unfence 1", "65 fence 1")),
        # It registered again within its term.
        ((), ("40 register 1 j1", "41 unfence 1", "65 fence 1")),
    ],
)
def test_a_member_of_the_elr_may_lack_what_a_leader_counted_that_knew_min_isr_late(
    led: tuple[str, ...], brokers: tuple[str, ...]
) -> None:
    for layer, verdict in (("topic", "excluded"), ("cluster", "undetermined")):
        history = (f"{STOOD_STILL[0]} source={layer}", STOOD_STILL[1], *led, *LEFT)
        known = {"brokers": sessions(*up(1, 2), *brokers), "boots": RAN_ON, "at": 70, "elr": True}
        assert judged_window(history, **known)["verdict"] == verdict


@pytest.mark.parametrize(
    ("code", "lines", "logs"),
    [
        ("ceiling_below_min_isr", (BELOW,), None),
        ("ceiling_logged_below_min_isr", (), logged("b1 stays e0 p1 hw=150")),
    ],
)
def test_another_process_of_the_leader_may_lift_the_high_watermark(
    code: str, lines: tuple[str, ...], logs: pa.Table | None
) -> None:
    for layer, known in (("topic", True), ("cluster", False)):
        history = (f"10 isr=1,2,3 source={layer}", *LATER)
        brokers = newer(sessions(*UP, *REGISTERED_AGAIN))
        assert (code in statements(judged_window(history, *lines, LINE, brokers=brokers, logs=logs))) == known


# A leader applies a state before the configs of the same delta, also those that were changed before (see
# `LeaderTerms.configs_from`): at 17 it may be too late for it to know at 20.


@pytest.mark.parametrize(
    ("raised", "began", "verdict"), [(11, 12, "excluded"), (11, 1, "undetermined"), (17, 12, "undetermined")]
)
def test_a_member_of_the_elr_may_lack_what_a_leader_counted_that_learned_late_of_a_higher_min_isr(
    raised: int, began: int, verdict: str
) -> None:
    """A process that began before may still not know: it waits for a disk, and sends heartbeats."""
    history = (f"{STOOD_STILL[0]} min=1 leader=2", f"{raised} min=2", "18 leader=1", STOOD_STILL[1], *LEFT)
    again = ("12 register 1 j1", "13 unfence 1") if began == 12 else ()
    brokers = sessions(*up(1, 2), *again, "65 fence 1")
    assert judged_window(history, brokers=brokers, at=70, elr=True)["verdict"] == verdict


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("floor_leader_alone", SAYS_THAT_IT_IS_ENOUGH),
        ("floor_lone_leaders_log", ("30 b1 isr=1 under=0", "70 b1 heads=145:150/1")),
    ],
)
@pytest.mark.parametrize(("lowered", "known"), [(12, True), (17, False)])
def test_a_leader_elected_as_min_isr_was_lowered_may_not_have_raised_its_high_watermark(
    code: str, line: tuple[str, ...], lowered: int, known: bool
) -> None:
    """It moves it when it takes over, by the min ISR that it knows then, and with the next append."""
    history = ("10 isr=1,2,3 leader=3", f"{lowered} min=1", "20 isr=1 leader=1", *LATER[1:])
    found = judged_window(history, *line, "70 b2 e0@0 e3@80", brokers=ALONE, **ONE)
    assert (code in statements(found)) == known


@pytest.mark.parametrize("again", ["15 register 1 j1", "21 register 1 j1"])
def test_a_lone_leader_that_started_by_its_file_may_not_have_raised_its_high_watermark(again: str) -> None:
    """Its file says 2; it leads when it starts, since it was elected while it was fenced, or since its session was over
    and not yet ended. Then it learns of the cluster's default, 1, and nothing is written."""
    brokers = sessions(*UP[:3], *UP[4:], "14 fence 1", "18 fence 2", "18 fence 3", again, "22 unfence 1", "50 fence 1")
    for layer, known in (("topic", True), ("cluster", False)):
        history = (f"10 isr=1,2,3 min=1 leader=3 source={layer}", "20 isr=1 leader=1", *LATER[1:])
        readings = (text.replace("proc=0", "proc=5") for text in SAYS_THAT_IT_IS_ENOUGH)
        shown = (*readings, "70 b2 e0@0 e3@80")
        found = judged_window(history, *shown, brokers=brokers, boots=RAN_ON, **ONE)
        assert ("floor_leader_alone" in statements(found)) == known


@pytest.mark.parametrize(
    ("code", "lines", "logs"),
    [
        ("ceiling_below_min_isr", (BELOW,), None),
        ("ceiling_logged_below_min_isr", (), logged("b1 stays e0 p1 hw=80")),
    ],
)
@pytest.mark.parametrize(("grown", "known"), [((), True), (("35 min=3", "36 isr=1,2"), False)])
def test_a_leader_that_takes_a_replica_in_may_not_know_yet_that_min_isr_was_raised(
    code: str, lines: tuple[str, ...], logs: pa.Table | None, grown: tuple[str, ...], known: bool
) -> None:
    """The controller's answer reaches it before the metadata log does: two are enough for it, and it advances."""
    history = ("10 isr=1,2,3", "20 isr=1", *grown, *LATER[1:2], "60 isr=3 leader=3 recovering")
    brokers = newer(sessions(*UP, "18 fence 3", "50 fence 1", "50 fence 2", "55 unfence 3"))
    found = judged_window(history, *lines, "70 b3 e0@0 e2@80", brokers=brokers, logs=logs)
    assert (found["verdict"] == "excluded", code in statements(found)) == (known, known)


@pytest.mark.parametrize(
    ("code", "layer"), [("ceiling_below_min_isr", "topic"), ("ceiling_leaders_own_word", "default")]
)
@pytest.mark.parametrize(("led", "known"), [(("18 leader=3", "25 leader=1"), True), ((), False)])
def test_a_leader_that_waits_for_a_disk_has_yet_to_apply_a_min_isr_that_was_in_force_for_a_while(
    code: str, layer: str, led: tuple[str, ...], known: bool
) -> None:
    """It knows 2 from before 14, and that it is alone by the controller's answer. Then 1 comes, and it advances. It has
    not, if it learned later that it leads."""
    history = (f"10 isr=1,2,3 source={layer}", "14 min=1", "16 min=2", *led, "26 isr=1", *LATER[1:])
    brokers = newer(sessions(*UP, "25 fence 2", "25 fence 3", "50 fence 1", "55 unfence 2"))
    texts = (f"{at} b1 isr=1 under=1 leo=80 proc=0" for at in (36, 39))
    line = "70 b2 e0@0 e2@70 e4@80" if led else "70 b2 e0@0 e2@80"
    found = judged_window(history, *texts, line, brokers=brokers)
    assert (found["verdict"] == "excluded", code in statements(found)) == (known, known)
