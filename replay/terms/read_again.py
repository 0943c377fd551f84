"""Lines about a state of a partition that a later process may have logged, when it read the metadata log again.

A process publishes what it has read of the metadata log piece by piece, as soon as it has read up to the high watermark
that it knows, which is never above its own log's end. A power failure may take that log's end, a new disk all of it. So
what is logged after that may be about a state from long before, that an earlier process knew; what it says of the log
is of the time at which it was logged.

Sources: KafkaRaftClient.updateFollowerHighWatermark (the lower of the leader's high watermark and the own log end),
appendAsFollower (brokers that are no controllers do not flush), buildFetchRequest (8 MiB up to 4.2.0; 1 MiB,
controller.quorum.fetch.max.bytes, in 4.3.1), MetadataLoader.stillNeedToCatchUp, BrokerMetadataPublisher.
"""

from replay.cluster.boots import is_same_boot
from replay.cluster.facts import ClusterFacts
from replay.offsets.broker_lines import SOON_MS
from replay.offsets.evidence import PROPAGATION_MS
from replay.terms.facts import StateFacts
from replay.terms.liveness import Sessions


def is_first(
    facts: StateFacts, sessions: Sessions, cluster: ClusterFacts, broker: int, row: int, at_ms: int | None
) -> bool:
    """Whether no process of the broker but the one that ran at a time (UTC, in ms) knew the state in a row of the
    history: no other one had begun since, or the machine had not started again and kept its directories, without an
    error of a disk, and so its copy of the metadata log. at_ms None: unknown, but in the known log."""
    if none_began(facts, sessions, cluster, broker, row, at_ms):
        return True
    end_ms = cluster.end_ms(facts.timestamp_ms) if at_ms is None else at_ms
    return kept_its_end(cluster, broker, int(facts.timestamp_ms[row]), end_ms)


def none_began(
    facts: StateFacts, sessions: Sessions, cluster: ClusterFacts, broker: int, row: int, at_ms: int | None
) -> bool:
    """Whether no process of the broker had begun from the state in a row to a time (UTC, in ms; None: unknown)."""
    session, error_ms = sessions.at(broker, int(facts.batch[row])), cluster.clock.error_ms
    if at_ms is not None and at_ms + error_ms <= int(facts.timestamp_ms[row]) + SOON_MS:
        return True
    return at_ms is not None and session is not None and session.was_alone_until(at_ms + error_ms)


def kept_its_end(cluster: ClusterFacts, broker: int, begin_ms: int, at_ms: int) -> bool:
    """Whether the broker's copy of the metadata log lost nothing from begin_ms to at_ms: its machine did not start
    again, either."""
    until_ms = at_ms + PROPAGATION_MS
    kept = kept_its_copy(cluster, broker, begin_ms, until_ms)
    return kept and is_same_boot(cluster.boots.get(broker, ()), begin_ms, until_ms, cluster.clock.error_ms)


def kept_its_copy(cluster: ClusterFacts, broker: int, since_ms: int, until_ms: int) -> bool:
    """Whether the broker's copy of the metadata log lost nothing from since_ms to until_ms if its machine ran on: its
    directories stayed, and no disk failed."""
    failed = cluster.disk_failed(broker, since_ms - PROPAGATION_MS, until_ms + PROPAGATION_MS)
    may_have_lost = failed or cluster.may_have_new_copy(broker, since_ms, until_ms)
    return not may_have_lost and cluster.brokers.kept_log_dirs(broker, since_ms, until_ms)
