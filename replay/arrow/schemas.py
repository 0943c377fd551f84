"""Arrow schemas of everything that `replay` produces. Null means "not known from the evidence"."""

from __future__ import annotations

import pyarrow as pa

INT32_LIST = pa.list_(pa.int32())


def column(name: str, dtype: pa.DataType, comment: str) -> pa.Field:
    """A nullable Arrow field that carries its documentation; the comment becomes the Delta column's comment."""
    return pa.field(name, dtype, metadata={"comment": comment})


# One statement of a finding's `reason`. value: a count, a partition offset or milliseconds, depending on the code;
# offset: a metadata offset; text: a name.
STATEMENT = pa.struct(
    [
        pa.field("code", pa.string()),
        pa.field("nature", pa.string()),
        pa.field("brokers", pa.list_(pa.int32())),
        pa.field("offset", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("value", pa.int64()),
        pa.field("text", pa.string()),
    ]
)

PARTITION = [
    column("topic_id", pa.string(), "topic id: the identity of the topic"),
    column("topic", pa.string(), "topic name at that time"),
    column("partition", pa.int32(), "partition"),
]

PARTITION_KEY = ["topic_id", "partition"]

PROVENANCE = [
    column("capture", pa.string(), "capture that the row was first read from"),
    column("path", pa.string(), "file inside the capture"),
    column("sha256", pa.string(), "SHA-256 of that file, hex"),
    column(
        "position",
        pa.int64(),
        "byte position in that file: of the line, section, batch or record (of its batch if compressed)",
    ),
]

# The columns that locate a record: those of PROVENANCE, and the same with the base offset of the record's batch.
PROVENANCE_NAMES = tuple(field.name for field in PROVENANCE)
BATCH_AND_PROVENANCE = ("batch_base_offset", *PROVENANCE_NAMES)

# The first and the last columns of every history.
_CHANGE = [
    column("offset", pa.int64(), "metadata offset of the record that made this state"),
    column("timestamp_ms", pa.int64(), "timestamp of that record"),
    column("controller_epoch", pa.int32(), "controller epoch that wrote it"),
]
_VALIDITY = [
    column("origin", pa.string(), "log, or checkpoint where history starts from a snapshot"),
    column("end_offset", pa.int64(), "offset from which this no longer holds; null = still valid at the log's end"),
    column("end_timestamp_ms", pa.int64(), "timestamp of the record at end_offset; null if a hole in the log follows"),
    column("batch_base_offset", pa.int64(), "base offset of the record's batch"),
    *PROVENANCE,
]

PARTITION_HISTORY = pa.schema(
    [
        *_CHANGE,
        *PARTITION,
        column("replicas", INT32_LIST, "assigned replicas, in assignment order"),
        column("isr", INT32_LIST, "in-sync replicas"),
        column("elr", INT32_LIST, "eligible leader replicas (KIP-966): a set, in no particular order"),
        column("last_known_elr", INT32_LIST, "LastKnownElr; in released Kafka it holds the last known leader"),
        column("removing_replicas", INT32_LIST, "replicas a reassignment is removing"),
        column("adding_replicas", INT32_LIST, "replicas a reassignment is adding"),
        column("directories", pa.list_(pa.string()), "log directory id of each replica"),
        column("leader", pa.int32(), "leader; -1 = none"),
        column("leader_epoch", pa.int32(), "leader epoch"),
        column("partition_epoch", pa.int32(), "partition epoch"),
        column("leader_recovery_state", pa.string(), "RECOVERED or RECOVERING (KIP-704)"),
        column("min_isr", pa.int32(), "effective min ISR: min(min.insync.replicas, replicas of partition 0)"),
        column(
            "min_isr_source",
            pa.string(),
            "its layer: topic, broker, cluster, static, default; assumed_default where no captured server.properties "
            "of the active controller shows that it is not set there",
        ),
        column("unclean_leader_election_enable", pa.bool_(), "effective unclean.leader.election.enable"),
        column("unclean_leader_election_enable_source", pa.string(), "its layer: as min_isr_source"),
        column("removed", pa.bool_(), "true on the row of the topic's removal, where the state columns are null"),
        *_VALIDITY,
    ]
)

_HISTORY_ORDER = [("topic_id", "ascending"), ("partition", "ascending"), ("offset", "ascending")]


def sorted_history(history: pa.Table) -> pa.Table:
    """Sort PARTITION_HISTORY rows by topic id, partition and offset, the order that vectorised code requires."""
    history = history.combine_chunks()
    return history if _is_sorted(history) else history.sort_by(_HISTORY_ORDER).combine_chunks()


def _is_sorted(history: pa.Table) -> bool:
    topics = history["topic_id"].combine_chunks().dictionary_encode()
    names = topics.dictionary.to_pylist()
    topic, partition, offset = topics.indices.to_numpy(), *(history[n].to_numpy() for n in ("partition", "offset"))
    rises = [(values[1:] > values[:-1], values[1:] == values[:-1]) for values in (topic, partition, offset)]
    (of_topic, same_topic), (of_partition, same_partition), (of_offset, same_offset) = rises
    in_partition = of_partition | (same_partition & (of_offset | same_offset))
    return names == sorted(names) and bool((of_topic | (same_topic & in_partition)).all())


FEATURE_HISTORY = pa.schema(
    [
        *_CHANGE,
        column("name", pa.string(), "feature, e.g. metadata.version, eligible.leader.replicas.version"),
        column("level", pa.int16(), "finalized level; 0 = off"),
        *_VALIDITY,
    ]
)

CONFIG_HISTORY = pa.schema(
    [
        *_CHANGE,
        column("resource_type", pa.string(), "topic, broker, broker_logger, client_metrics, group"),
        column("resource_name", pa.string(), "topic or node id; empty for the cluster-wide default of brokers"),
        column("name", pa.string(), "config name"),
        column("value", pa.string(), "value set on it, secrets redacted; null = not set, deleted, or topic removed"),
        column("effective_value", pa.string(), "effective for the topic; only for the two configs that elections use"),
        column("source", pa.string(), "its layer: as min_isr_source of partition_history"),
        *_VALIDITY,
    ]
)

# A part of a controller's log that another epoch replaced (KIP-595): offsets base_offset to last_offset, which only
# `nodes` hold. diverging_epoch: the last epoch that both logs share; -1 if nothing before this part was captured.
REPLACED_SUFFIX = pa.struct(
    [
        pa.field("nodes", INT32_LIST),
        pa.field("epoch", pa.int32()),
        pa.field("base_offset", pa.int64()),
        pa.field("last_offset", pa.int64()),
        pa.field("diverging_epoch", pa.int32()),
    ]
)

QUORUM_HISTORY = pa.schema(
    [
        *_CHANGE,
        column("leader_id", pa.int32(), "active controller from here on"),
        column("voters", INT32_LIST, "voters, ascending"),
        column("kraft_version", pa.int16(), "finalized kraft.version"),
        column("controllers", INT32_LIST, "registered controllers, ascending"),
        column(
            "replaced_suffixes",
            pa.list_(REPLACED_SUFFIX),
            "parts of other controllers' logs that this leader's epoch replaced: never committed, not applied",
        ),
        *_VALIDITY,
    ]
)

BROKER_HISTORY = pa.schema(
    [
        *_CHANGE,
        column("broker_id", pa.int32(), "broker"),
        column(
            "incarnation_id",
            pa.string(),
            "id of the broker's process; null, as all columns below: not registered from here on",
        ),
        column("broker_epoch", pa.int64(), "broker epoch"),
        column("fenced", pa.bool_(), "may not lead or join an ISR; every session begins fenced"),
        column("in_controlled_shutdown", pa.bool_(), "the broker asked the controller to move its leaderships away"),
        column("rack", pa.string(), "rack"),
        column(
            "log_dirs",
            pa.list_(pa.string()),
            "ids of its online log directories (KIP-858)",
        ),
        column(
            "restart_class",
            pa.string(),
            "how the previous session ended, as the controller treated it: clean, unclean, unknown; first = there was "
            "none",
        ),
        column(
            "restart_evidence",
            pa.list_(pa.int64()),
            "metadata offsets of the changes that prove restart_class, at most 32; empty where a file proves it",
        ),
        column(
            "clean_shutdown_broker_epoch",
            pa.int64(),
            "epoch of the previous session, from a captured .kafka_cleanshutdown of the broker",
        ),
        column("clean_shutdown_capture", pa.string(), "capture that holds that file"),
        column("clean_shutdown_path", pa.string(), "path of that file"),
        column("clean_shutdown_sha256", pa.string(), "SHA-256 of that file, hex"),
        *_VALIDITY,
    ]
)

CLUSTER_METRICS = pa.schema(
    [
        *_CHANGE,
        column("metric", pa.string(), "KIP-966's name; docs/metrics.md defines each in terms of recorded state"),
        column("topic_id", pa.string(), "topic id; null for the whole cluster's metrics"),
        column("topic", pa.string(), "topic name at that time"),
        column("partition", pa.int32(), "partition"),
        column("value", pa.int64(), "value from this offset on"),
        *_VALIDITY,
    ]
)

# One profile's prediction for a leader change. leader: -1 = no leader; null = the log shows no possible trigger.
ELECTION_PREDICTION = pa.struct(
    [
        pa.field("profile", pa.string()),
        pa.field("rule_fingerprint", pa.string()),
        pa.field("leader", pa.int32()),
        pa.field("as_recorded", pa.bool_()),
    ]
)

ELECTIONS = pa.schema(
    [
        column("offset", pa.int64(), "metadata offset of the leader change"),
        *_CHANGE[1:],
        *PARTITION,
        column("leader_epoch", pa.int32(), "leader epoch that the change started"),
        column("previous_leader", pa.int32(), "the last leader before the change (leaderless states are skipped)"),
        column("leader", pa.int32(), "leader after the change; -1 = leaderless"),
        column(
            "cause",
            pa.string(),
            "isr, elr, last_known_leader, unclean_by_config (the config allows it; an administrator may have asked, "
            "too), unclean_by_administrator (the config forbids it), unclean (which of the two is unknown), "
            "preferred, reassignment, cancelled_reassignment, directory_failure (the leader's directory failed, an "
            "ISR member took over), leaderless (nobody was elected)",
        ),
        column(
            "hidden_unclean",
            pa.bool_(),
            "the winner was not in the ISR or the ELR and not the last known leader, yet is not marked RECOVERING "
            "(metadata.version below 3.2-IV0 never marks)",
        ),
        column(
            "actor",
            pa.string(),
            "what made the controller act: fence, controlled_shutdown, registration (a new incarnation of the broker "
            "that left), unregister, unfence, directory_offline, alter_partition (the leader's request), reassignment "
            "and elect_leaders (an administrator's), preferred_election (an administrator's, or the periodic one); "
            "null = the log does not show it",
        ),
        column(
            "actor_offset",
            pa.int64(),
            "metadata offset of the record that shows the actor, in the same batch",
        ),
        column("leader_recovery_state", pa.string(), "RECOVERED or RECOVERING after the change"),
        column("isr_before", INT32_LIST, "ISR before the change"),
        column("elr_before", INT32_LIST, "ELR before the change"),
        column("last_known_elr_before", INT32_LIST, "LastKnownElr before the change"),
        column("candidates", INT32_LIST, "replicas on brokers that were registered, unfenced and not shutting down"),
        column(
            "predictions",
            pa.list_(ELECTION_PREDICTION),
            "the leader predicted by each rule profile that the active controller may have run (docs/rules.md); "
            "as_recorded: the whole predicted state is the recorded one",
        ),
        column(
            "difference",
            pa.string(),
            "as_predicted, or as in rule_differences; null if nothing was predicted",
        ),
        *PROVENANCE,
    ]
)

COUNTERFACTUALS = pa.schema(
    [
        column("finding_id", pa.string(), "id of the finding"),
        *PARTITION,
        column("offset", pa.int64(), "metadata offset of the recorded election"),
        column(
            "policy",
            pa.string(),
            "profile_4.3, before_elr, min_isr_2, unclean_recovery_balanced, ...; docs/findings.md lists them",
        ),
        column("outcome", pa.string(), "elected, waits, or undetermined: a prediction, never a fact"),
        column("leader", pa.int32(), "leader that the policy would pick"),
        column("last_written_leader_epoch", pa.int32(), "that replica's last written leader epoch, as last observed"),
        column("log_end_offset", pa.int64(), "that replica's log end offset, as last observed"),
        column("loss_min", pa.int64(), "at least this many acknowledged offsets would be lost"),
        column("loss_max", pa.int64(), "at most this many offsets; null = no upper bound is known"),
        column("differs", pa.bool_(), "the policy picks another leader than the recorded one"),
        column("explanation", pa.string(), "why, in a sentence"),
    ]
)

# One piece of evidence of a finding: enough to find the row in its table and the bytes in the capture.
EVIDENCE_ROW = pa.struct(
    [
        pa.field("role", pa.string()),
        pa.field("source", pa.string()),
        pa.field("broker_id", pa.int32()),
        pa.field("value", pa.int64()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("captured_at_ms", pa.int64()),
        *(pa.field(field.name, field.type) for field in PROVENANCE),
    ]
)

FINDINGS = pa.schema(
    [
        column("finding_id", pa.string(), "id of the finding"),
        column("kind", pa.string(), "hwm_regression, snapshot_mismatch, ...; docs/findings.md lists all"),
        *PARTITION,
        column("start_offset", pa.int64(), "metadata offset of the record that exposed the partition"),
        column(
            "end_offset", pa.int64(), "metadata offset after which |ISR| >= min ISR again; null = never in this log"
        ),
        column("start_timestamp_ms", pa.int64(), "timestamp at start_offset"),
        column("end_timestamp_ms", pa.int64(), "timestamp at end_offset"),
        column("election_offset", pa.int64(), "metadata offset of the leader change that is judged"),
        column("verdict", pa.string(), "proven, possible, excluded or undetermined"),
        column("severity", pa.string(), "critical, high, medium, low or info"),
        column("loss_min", pa.int64(), "at least this many offsets below the high watermark were lost"),
        column("loss_max", pa.int64(), "at most this many offsets; null = no upper bound is known"),
        column("first_lost_offset", pa.int64(), "first offset that was lost"),
        column(
            "unacked_min",
            pa.int64(),
            "at least this many offsets of the old leader's log are gone, acknowledged by all replicas or not: what "
            "producers with acks=0 or 1 lost",
        ),
        column("unacked_max", pa.int64(), "at most this many offsets; null = no upper bound is known"),
        column(
            "likely",
            pa.string(),
            "lost, kept or unknown: which way an open window leans (docs/findings.md); no verdict",
        ),
        column("likely_rule", pa.string(), "rule that `likely` comes from"),
        column("likely_right", pa.int32(), "in how many windows of known truth that rule was right"),
        column("likely_of", pa.int32(), "of how many"),
        column("recorded_leader", pa.int32(), "leader the log says was elected"),
        column("would_be_leader", pa.int32(), "leader that `policy` would have picked, where it differs"),
        column("policy", pa.string(), "the policy that would pick would_be_leader: a prediction"),
        column(
            "high_watermark_min",
            pa.int64(),
            "windows: the high watermark had reached at least this; loss_min is this less log_end_max",
        ),
        column("log_end_max", pa.int64(), "windows: the new leader's log ended at most there"),
        column("clock_error_ms", pa.int64(), "windows and cut logs: clocks are assumed to be off by at most this"),
        column("lasted_ms", pa.int64(), "exposures: how long it lasted, by record timestamps"),
        column("lasted_at_least", pa.bool_(), "exposures: lasted_ms is a lower bound: begin or end is unknown"),
        column(
            "end_reason",
            pa.string(),
            "exposures: elected_from_isr, elected_from_elr, elected_outsider, more_replicas, no_replica_left, "
            "single_replica or removed; log_end = it had not ended there, hole = the log has a gap after it",
        ),
        column(
            "waits_for",
            pa.list_(pa.int32()),
            "leaderless: brokers of whom one has to come back (ISR, else ELR, else last known leader); empty = only an "
            "unclean election ends it",
        ),
        column("ticket", pa.string(), "rule_mismatch: the ticket of the known bug that explains the change"),
        column("broker_id", pa.int32(), "cut logs: the broker whose replica lost something"),
        column("value_before", pa.int64(), "cut logs: the log end, or high watermark, that the replica had shown"),
        column("value_after", pa.int64(), "cut logs: what it showed later, or where a later leader epoch began"),
        column("rule", pa.string(), "rule that gave the verdict"),
        column("rule_version", pa.int32(), "version of that rule"),
        column("evidence", pa.list_(EVIDENCE_ROW), "the rows and bytes that the verdict rests on"),
        column(
            "reason",
            pa.list_(STATEMENT),
            "why, as statements: code, nature and figures (docs/findings.md)",
        ),
        column("explanation", pa.string(), "the reason in prose"),
    ]
)

LIST_COLUMNS = ("replicas", "isr", "elr", "last_known_elr", "removing_replicas", "adding_replicas", "directories")


def _plain(*names: str) -> list[pa.Field]:
    """Fields as in PARTITION_HISTORY, without comments."""
    return [pa.field(name, PARTITION_HISTORY.field(name).type) for name in names]


# A flattened PartitionRecord (full is true) or PartitionChangeRecord. Rows from a snapshot have origin "checkpoint" and
# the offset before the snapshot's end.
CHANGES = pa.schema(
    [
        *_plain("offset", "timestamp_ms", "controller_epoch"),
        pa.field("full", pa.bool_()),
        *_plain("origin", *PARTITION_KEY, *LIST_COLUMNS, "leader", "leader_epoch", "partition_epoch"),
        pa.field("leader_recovery_state", pa.int8()),
        *_plain(*BATCH_AND_PROVENANCE),
    ]
)

# ClearElrRecords and RemoveTopicRecords, one row for each topic that they touch.
TOPIC_EVENTS = pa.schema(
    [
        *_plain("offset", "timestamp_ms", "controller_epoch", "topic_id"),
        pa.field("removes", pa.bool_()),
        *_plain(*BATCH_AND_PROVENANCE),
    ]
)

PREDICTED_STATE = pa.struct(_plain("leader", "isr", "elr", "last_known_elr", "leader_recovery_state"))

RULE_DIFFERENCES = pa.schema(
    [
        column("offset", pa.int64(), "metadata offset of the partition change"),
        *_CHANGE[1:],
        *PARTITION,
        column(
            "trigger",
            pa.string(),
            "what made the controller write it, as far as the log shows (docs/rules.md)",
        ),
        column("trigger_offset", pa.int64(), "metadata offset of the record that shows the trigger"),
        column("profiles", pa.list_(pa.string()), "rule profiles that the active controller may have run"),
        column(
            "difference",
            pa.string(),
            "profiles_disagree (only some of the possible profiles predict it), known_bug (Kafka has fixed it since), "
            "unknown_input (an input that the evidence lacks would explain it), unexplained",
        ),
        column("reason", pa.string(), "the profiles that predict it, the bug's ticket, or the unknown input"),
        column("differs_in", pa.list_(pa.string()), "fields in which recorded and predicted state differ"),
        column("profile", pa.string(), "the profile that gives `predicted`"),
        column("rule_fingerprint", pa.string(), "fingerprint of that profile's rules"),
        column(
            "predicted", PREDICTED_STATE, "the state that the profile predicts; partition_history has the recorded one"
        ),
        *PROVENANCE,
    ]
)
