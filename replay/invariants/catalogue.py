"""The catalogue of invariants that recorded state and the metadata log must satisfy: names, severities, meanings.

The names are stable; docs/invariants.md and quality/checks/partition_history use the same ones. What the evidence does
not show (min ISR without its configs, a broker or a feature level that no record names) violates nothing.

Sources: KIP-966 (section "ELR invariants"), KIP-704, KIP-595, KIP-858, and Kafka's classes as each entry names them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from replay.arrow.schemas import INT32_LIST, PARTITION_HISTORY, column

CRITICAL, HIGH, MEDIUM, LOW = "critical", "high", "medium", "low"

# The maximum number of evidence_offsets in a row of INVARIANT_VIOLATIONS.
MOST_EVIDENCE = 8


@dataclass(frozen=True, slots=True)
class Invariant:
    """definition: what must hold. meaning: what a violation means to an operator. source: where Kafka guarantees it.
    shows: the columns of the partition's state that a violation's `detail` quotes."""

    name: str
    severity: str
    definition: str
    meaning: str
    source: str
    shows: tuple[str, ...] = ()


_ENTRIES = (
    Invariant(
        "isr_and_elr_disjoint",
        HIGH,
        "No replica is in both the ISR and the ELR.",
        "One copy is counted twice: fewer replicas hold the data than ISR and ELR suggest.",
        "KIP-966, ELR invariants; PartitionChangeBuilder.maybePopulateTargetElr",
        ("isr", "elr"),
    ),
    Invariant(
        "elr_empty_at_min_isr",
        HIGH,
        "While the ISR has at least min ISR members, the ELR is empty.",
        "The high watermark advances without the ELR members, which may still be elected: acknowledged records may be "
        "lost.",
        "KIP-966, ELR invariants; PartitionChangeBuilder.maybePopulateTargetElr",
        ("isr", "elr", "min_isr"),
    ),
    Invariant(
        "isr_within_replicas",
        HIGH,
        "Every member of the ISR is a replica.",
        "A broker that is not assigned the partition counts towards min ISR and may be elected.",
        "PartitionRegistration; ReplicationControlManager.validateAlterPartitionData",
        ("isr", "replicas"),
    ),
    Invariant(
        "elr_within_replicas",
        MEDIUM,
        "Every member of the ELR is a replica.",
        "The ELR counts a broker without the partition: there are fewer eligible leaders than it lists.",
        "KIP-966, ELR invariants; PartitionChangeBuilder.maybePopulateTargetElr",
        ("elr", "replicas"),
    ),
    Invariant(
        "last_known_elr_within_replicas",
        MEDIUM,
        "Every broker in the last known ELR is a replica.",
        "The last known leader is gone from the assignment: waiting for it to come back recovers nothing.",
        "KIP-966, Unclean recovery; PartitionChangeBuilder.canElectLastKnownLeader",
        ("last_known_elr", "replicas"),
    ),
    Invariant(
        "isr_plus_elr_not_below_min_isr",
        HIGH,
        "With the ELR feature on, ISR and ELR together do not fall below min ISR, unless the same event registered the "
        "lost members again or unregistered them, they are no longer replicas, a ClearElrRecord removed them, or a "
        "leader was elected uncleanly.",
        "A complete copy of the acknowledged records was given up without a reason in the log.",
        "KIP-966, ELR invariants",
        ("isr", "elr", "min_isr"),
    ),
    Invariant(
        "partition_epoch_by_one",
        HIGH,
        "The partition epoch rises by one with every change, and does not fall across a hole in the log.",
        "Changes are missing from the log, or a record was written from another state: the history is incomplete here.",
        "PartitionRegistration.merge",
        ("partition_epoch",),
    ),
    Invariant(
        "leader_epoch_never_falls",
        CRITICAL,
        "The leader epoch of a partition is never lower than it was before.",
        "Replicas distinguish records of old and new leaders by this epoch: they may keep records that they should "
        "truncate.",
        "KIP-101, Leader Epoch; PartitionRegistration.merge",
        ("leader_epoch", "leader"),
    ),
    Invariant(
        "leader_in_isr",
        CRITICAL,
        "A partition's leader is in its ISR.",
        "The leader may lack acknowledged records.",
        "PartitionChangeBuilder.electLeader; KIP-704, Proposed Changes",
        ("leader", "isr"),
    ),
    Invariant(
        "last_known_elr_at_most_one",
        MEDIUM,
        "The last known ELR has at most one member: released Kafka stores the last known leader in it.",
        "With more than one member the last known leader is not elected: automatic recovery does not happen.",
        "PartitionChangeBuilder.canElectLastKnownLeader",
        ("last_known_elr",),
    ),
    Invariant(
        "last_known_elr_never_minus_one",
        HIGH,
        "The last known ELR does not hold -1.",
        "Recovery waits for a broker that does not exist: the partition stays leaderless until someone elects one.",
        "PartitionChangeBuilder.maybeUpdateLastKnownLeader",
        ("last_known_elr", "leader"),
    ),
    Invariant(
        "elr_cleared_while_leaderless",
        HIGH,
        "A partition without a leader and with an empty ISR does not lose its whole ELR and its last known leader, "
        "unless they restarted uncleanly.",
        "The metadata no longer shows who holds the data: no leader comes back by itself, only an unclean election "
        "ends this.",
        "KIP-966, Unclean recovery; ReplicationControlManager.replay(ClearElrRecord)",
        ("leader", "isr", "elr", "last_known_elr"),
    ),
    Invariant(
        "unregistered_broker_in_elr",
        MEDIUM,
        "No unregistered broker is in the ELR.",
        "The ELR waits for a broker that was removed for good: there are fewer eligible leaders than it lists.",
        "KIP-966, ELR invariants; ReplicationControlManager.handleBrokerUnregistered",
        ("elr",),
    ),
    Invariant(
        "min_isr_layers_disagree",
        MEDIUM,
        "The controller's effective min ISR, min(config of the active controller, replicas of partition 0), equals the "
        "leader's, min(config of the broker, the partition's own replicas).",
        "Leader and controller require different ISR sizes: the leader acknowledges records that the ELR does not "
        "cover, or refuses records needlessly.",
        "KIP-966, Additional High Watermark advancement requirement; "
        "ReplicationControlManager.getTopicEffectiveMinIsr, Partition.effectiveMinIsr",
    ),
    Invariant(
        "recovering_isr_is_leader",
        HIGH,
        "While the leader recovery state is RECOVERING, the ISR has at most one member: the leader.",
        "Followers count as in sync before the leader has finished recovering from its unclean election.",
        "KIP-704, Proposed Changes",
        ("leader_recovery_state", "isr", "leader"),
    ),
    Invariant(
        "unclean_without_mark",
        HIGH,
        "With metadata.version 3.2-IV0 or above, a leader from outside the ISR, the ELR and the last known leader is "
        "marked RECOVERING.",
        "Records may be lost although the partition's state does not show it, and the leader does not recover.",
        "KIP-704, Proposed Changes; PartitionReassignmentRevert",
        ("leader", "isr", "elr", "leader_recovery_state"),
    ),
    Invariant(
        "replicas_distinct",
        HIGH,
        "No broker is in the replicas twice.",
        "There are fewer copies than the replication factor suggests.",
        "ReplicationControlManager.validateManualPartitionAssignment",
        ("replicas",),
    ),
    Invariant(
        "directories_match_replicas",
        MEDIUM,
        "There is one log directory for every replica.",
        "A replica's directory is unknown: its failure would go unnoticed, and Kafka refuses the record.",
        "KIP-858, Directory IDs; PartitionRegistration",
        ("replicas", "directories"),
    ),
    Invariant(
        "log_offsets_dense",
        CRITICAL,
        "Batches of the surviving log do not overlap (missing offsets are the finding offset_gap).",
        "Two batches claim one offset: the files are from different clusters, or one was altered.",
        "KIP-595, Fetch; KafkaRaftClient",
    ),
    Invariant(
        "log_epochs_never_decrease",
        HIGH,
        "In the segments of one node's folder, no batch has a lower epoch than an earlier one.",
        "The folder was altered, or copied while the node truncated its log: its tail was never committed.",
        "KIP-595, Fetch",
    ),
    Invariant(
        "epoch_begins_with_leader_change",
        HIGH,
        "The first record of every epoch of the surviving log is a LeaderChangeMessage.",
        "Records have an epoch that no leader opened: the log was altered.",
        "KIP-595, LeaderChangeMessage; LeaderState.appendStartOfEpochControlRecords",
    ),
    Invariant(
        "one_leader_per_epoch",
        CRITICAL,
        "All LeaderChangeMessages of an epoch name the same leader.",
        "Two controllers were active at once, or the captures are from different clusters.",
        "KIP-595, Vote",
    ),
    Invariant(
        "leader_is_voter",
        HIGH,
        "The leader that a LeaderChangeMessage names is among its voters.",
        "A node without a vote leads the quorum.",
        "KIP-595, LeaderChangeMessage",
    ),
    Invariant(
        "committed_entries_survive",
        CRITICAL,
        "No epoch replaces entries below a captured snapshot's end, or entries that a majority of the voters of their "
        "epoch held.",
        "Committed metadata is gone: the cluster's state differs from what brokers had applied before.",
        "KIP-595, Fetch; KIP-630, Snapshot",
    ),
)

INVARIANTS: dict[str, Invariant] = {entry.name: entry for entry in _ENTRIES}

INVARIANT_VIOLATIONS = pa.schema(
    [
        column("invariant", pa.string(), "the violated invariant: a name in docs/invariants.md"),
        column("severity", pa.string(), "critical, high, medium or low"),
        *(PARTITION_HISTORY.field(name) for name in ("topic_id", "topic", "partition")),
        column("start_offset", pa.int64(), "metadata offset of the record from which it is violated"),
        column("start_timestamp_ms", pa.int64(), "timestamp of that record"),
        column(
            "end_offset",
            pa.int64(),
            "metadata offset from which it holds again or is unknown; null = never in this log",
        ),
        column("end_timestamp_ms", pa.int64(), "timestamp of the record at end_offset"),
        column("rows", pa.int64(), "number of consecutive states (batches or records of the log) that violate it"),
        column("brokers", INT32_LIST, "brokers (controllers, for the log) concerned, ascending"),
        column("detail", pa.string(), "the state at the start of the violation; before->after for a change"),
        column(
            "evidence_offsets",
            pa.list_(pa.int64()),
            "metadata offsets of the records that show it, the first 8",
        ),
        *(PARTITION_HISTORY.field(name) for name in ("capture", "path", "sha256", "position")),
    ]
)
