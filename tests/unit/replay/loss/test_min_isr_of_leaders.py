"""The min ISR that a leader goes by need not be the controller's: what bounds a high watermark must hold for both.

Sources: Kafka's Partition.isUnderMinIsr and effectiveMinIsr (the leader's LogConfig, its own number of replicas),
DynamicBrokerConfig (a broker's own setting comes before the cluster's default, that before its file; it applies all
defaults of the cluster or none), ReplicationControlManager.getTopicEffectiveMinIsr (the cap by partition 0),
BrokerMetadataPublisher.onMetadataUpdate (partitions before configs); the same in 3.9.1 to 4.3.1.
"""

import pytest

from replay.bucket import detect
from replay.cluster.configs import BROKER, MIN_ISR, ConfigChange, config_timeline
from replay.cluster.facts import ClusterFacts, shares_defaults
from tests.support.broker_log_lines import logged
from tests.support.detection import judged_window, statements, windows
from tests.support.scenario import elr_levels, evidence, ms, newer, offsets_table, sessions, states, together, up
from tests.support.window_table import Entry, beside, entries, set_to


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_window(entry: Entry) -> None:
    entry.check()


ALONE = sessions(*up(1, 2, 3), "18 fence 2", "18 fence 3", "50 fence 1", "55 unfence 2")
LATER = ("20 isr=1", "50 isr= leader=-1", "60 isr=2 leader=2 recovering", "80 isr=2,3 recovered")
LINE, BELOW = "70 b2 e0@0 e2@80", "30 b1 isr=1 under=1 leo=80"

CONFIGS = ("min.insync.replicas", "unclean.leader.election.enable", "leader.replication.throttled.rate")


@pytest.mark.parametrize("layer", ["topic", "cluster"])
@pytest.mark.parametrize("refused", [None, "", "1"])
def test_a_broker_that_cannot_apply_one_default_of_the_cluster_applies_none(layer: str, refused: str | None) -> None:
    changes = [ConfigChange(0, BROKER, "", name, "2") for name in CONFIGS]
    # Nor beside a config of its own that it cannot apply: after a start more than twice as many threads as in its file.
    changes += [] if refused is None else [ConfigChange(0, BROKER, refused, "num.io.threads", "32")]
    history = (f"10 isr=1,2,3 source={layer}", *LATER)
    found = judged_window(history, BELOW, LINE, brokers=newer(ALONE), shares_defaults=shares_defaults(changes))
    assert ("ceiling_below_min_isr" in statements(found)) == (layer == "topic" or refused is None)


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
    known_to = {"request_threads": {1: 4}, "broker_min_isr": own, "logs": logged("b1 stays e0 p1 hw=0 t=30 utc=30")}
    found = judged_window(history, *shown, brokers=ALONE, **known_to)
    assert ("floor_lone_leaders_log" in statements(found)) == known
