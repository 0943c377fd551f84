"""Arrow schemas of the tables that `evidence` produces; the Delta tables are created from them.

Null always means that the source does not give the value. Times are milliseconds since the Unix epoch (UTC), offsets
and byte positions are int64, replica lists keep Kafka's order.
"""

from __future__ import annotations

import pyarrow as pa

INT32_LIST = pa.list_(pa.int32())
STRING_LIST = pa.list_(pa.string())


def column(name: str, dtype: pa.DataType, comment: str) -> pa.Field:
    """A nullable Arrow field with a comment; the comment is also that of the Delta column."""
    return pa.field(name, dtype, metadata={"comment": comment})


# Where a row comes from: each claim can be traced to its bytes.
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

# The fields of a PartitionRecord or PartitionChangeRecord; null: the record does not change the field.
PARTITION_CHANGE = pa.struct(
    [
        pa.field("topic_id", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("replicas", INT32_LIST),
        pa.field("isr", INT32_LIST),
        pa.field("elr", INT32_LIST),
        pa.field("last_known_elr", INT32_LIST),
        pa.field("removing_replicas", INT32_LIST),
        pa.field("adding_replicas", INT32_LIST),
        pa.field("directories", STRING_LIST),
        pa.field("leader", pa.int32()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("partition_epoch", pa.int32()),
        pa.field("leader_recovery_state", pa.int8()),
    ]
)

EVIDENCE_FILES = pa.schema(
    [
        column("capture", pa.string(), "capture that the row was first read from"),
        column("path", pa.string(), "file inside the capture"),
        column("kind", pa.string(), "kind of the file, e.g. metadata_segment, metadata_checkpoint, leader_epoch"),
        column("sha256", pa.string(), "SHA-256 of that file, hex"),
        column("size_bytes", pa.int64(), "length of the file"),
        column("node_id", pa.int32(), "node that the file was copied from"),
        column("captured_at_ms", pa.int64(), "when it was read, at the earliest"),
        column(
            "uncertainty_ms",
            pa.int64(),
            "it was read within this many ms after captured_at_ms",
        ),
        column(
            "last_timestamp_ms",
            pa.int64(),
            "largest timestamp of the metadata log in it, by the active controller's clock",
        ),
        column("base_offset", pa.int64(), "first metadata offset in the file"),
        column("end_offset", pa.int64(), "metadata offset after the last one in the file (exclusive)"),
        column("status", pa.string(), "ok, note, quarantined (partly or wholly), registered (hashed, not parsed)"),
        column("parsed_bytes", pa.int64(), "bytes that were parsed"),
        column("quarantined_bytes", pa.int64(), "bytes that could not be used; see quarantine"),
        column(
            "trailing_bytes",
            pa.int64(),
            "bytes with nothing to read: a torn tail, zeros, a file that is only registered",
        ),
        column("note", pa.string(), "remark on this file"),
    ]
)

QUARANTINE = pa.schema(
    [
        *PROVENANCE,
        column("node_id", pa.int32(), "node that the file was copied from"),
        column("length_bytes", pa.int64(), "number of quarantined bytes"),
        column("offset", pa.int64(), "metadata offset at that position"),
        column("reason", pa.string(), "short code, e.g. crc_mismatch, torn_batch, not_a_segment"),
        column("message", pa.string(), "the full error, with file, byte position and offset"),
        column("raw", pa.binary(), "the quarantined bytes, at most 1 MiB; null if they may hold a secret"),
    ]
)

LOG_BATCHES = pa.schema(
    [
        column("base_offset", pa.int64(), "first offset of the batch"),
        column("last_offset", pa.int64(), "last offset of the batch (inclusive)"),
        column("epoch", pa.int32(), "controller epoch that wrote it (partitionLeaderEpoch)"),
        column("base_timestamp_ms", pa.int64(), "timestamp of the first record"),
        column("max_timestamp_ms", pa.int64(), "largest timestamp in the batch"),
        column("crc", pa.int64(), "CRC32C as stored, checked"),
        column("record_count", pa.int32(), "number of records"),
        column("is_control", pa.bool_(), "true for a batch of control records"),
        column("codec", pa.string(), "none, gzip, snappy, lz4 or zstd"),
        column("size_bytes", pa.int32(), "length of the batch with its 61-byte head"),
        column("nodes", INT32_LIST, "nodes whose log holds this batch, ascending"),
        *PROVENANCE,
    ]
)

_RECORD = [
    column("offset", pa.int64(), "offset of the record"),
    column("epoch", pa.int32(), "controller epoch that wrote it (partitionLeaderEpoch)"),
    column("timestamp_ms", pa.int64(), "timestamp of the record"),
    column(
        "type", pa.string(), "Kafka's name, e.g. PARTITION_CHANGE_RECORD or LEADER_CHANGE; UNKNOWN_<key> if unknown"
    ),
    column("version", pa.int16(), "record version"),
    column("is_control", pa.bool_(), "true for a control record"),
    column("payload", pa.string(), "the record in Kafka's JSON form, secrets redacted"),
    column("partition_change", PARTITION_CHANGE, "typed fields of a partition record; null for every other type"),
    column("batch_base_offset", pa.int64(), "base offset of the record's batch"),
    column("batch_crc", pa.int64(), "CRC32C of the record's batch"),
    *PROVENANCE,
]

METADATA_RECORDS = pa.schema(_RECORD)

SNAPSHOT_RECORDS = pa.schema(
    [
        column(
            "snapshot_end_offset",
            pa.int64(),
            "metadata offset of the snapshot (exclusive); null for bootstrap.checkpoint",
        ),
        column("snapshot_epoch", pa.int32(), "epoch in the snapshot's name"),
        *_RECORD,
    ]
)

LOG_END_OFFSETS = pa.schema(
    [
        column("broker_id", pa.int32(), "broker (or controller) that has the replica"),
        column("topic", pa.string(), "topic name in the source; null if it gives only the id"),
        column(
            "topic_id",
            pa.string(),
            "topic id, from the source or the partition.metadata next to it",
        ),
        column("partition", pa.int32(), "partition"),
        column("source", pa.string(), "kind of the file, e.g. jmx_exporter, replication_offset, replica_segment"),
        column(
            "captured_at_ms",
            pa.int64(),
            "when it was read, at the earliest; in a second row of a high watermark that was read long after it was "
            "written: when that was",
        ),
        column("uncertainty_ms", pa.int64(), "it was read, or written, within this many ms after captured_at_ms"),
        column("log_end_offset", pa.int64(), "log end offset of the replica"),
        column("high_watermark", pa.int64(), "high watermark known to this replica"),
        column("log_start_offset", pa.int64(), "log start offset of the replica"),
        column("recovery_point_offset", pa.int64(), "offset up to which the replica's log was flushed"),
        column("leader_epoch", pa.int32(), "an epoch in the replica's leader-epoch-checkpoint"),
        column("epoch_start_offset", pa.int64(), "first offset of that epoch: its leader's log end at its election"),
        column("last_written_leader_epoch", pa.int32(), "leader epoch of the last batch in the replica's log"),
        column(
            "last_batch_offsets",
            pa.list_(pa.int64()),
            "replica_segment, batch_heads: base offsets of its last batches, ascending, at most 32",
        ),
        column("current_leader_epoch", pa.int32(), "latest leader epoch that the replica knew"),
        column(
            "broker_epoch",
            pa.int64(),
            "broker epoch. For a replica_segment or recovery_point that of the session that last wrote it and stopped "
            "cleanly, from .kafka_cleanshutdown in the log directory",
        ),
        column(
            "offset_lag",
            pa.int64(),
            "log_dirs, describe_log_dirs: by how much the log is shorter than the high watermark",
        ),
        column(
            "size_bytes",
            pa.int64(),
            "listing, log_dirs, describe_log_dirs: bytes of the replica's segments",
        ),
        column(
            "in_sync_replicas_count",
            pa.int32(),
            "jmx_exporter: size of the ISR by this broker, which leads; never 0",
        ),
        column(
            "under_min_isr",
            pa.bool_(),
            "jmx_exporter: whether the leader counts fewer in-sync replicas than min.insync.replicas",
        ),
        column(
            "process_start_ms",
            pa.int64(),
            "jmx_exporter: when the process started, by its own clock",
        ),
        *PROVENANCE,
    ]
)

DESCRIBED_PARTITIONS = pa.schema(
    [
        column("source", pa.string(), "topics_describe or describe_topic_partitions"),
        column("captured_at_ms", pa.int64(), "when it was read, at the earliest"),
        column("uncertainty_ms", pa.int64(), "it was read within this many ms after captured_at_ms"),
        column("topic", pa.string(), "topic name"),
        column("topic_id", pa.string(), "topic id"),
        column("partition", pa.int32(), "partition"),
        column("leader", pa.int32(), "leader; -1 for none"),
        column("leader_epoch", pa.int32(), "leader epoch"),
        column("replicas", INT32_LIST, "replicas, in the printed order"),
        column("isr", INT32_LIST, "in-sync replicas"),
        column("elr", INT32_LIST, "eligible leader replicas"),
        column("last_known_elr", INT32_LIST, "last known ELR"),
        *PROVENANCE,
    ]
)

QUORUM_REPORTS = pa.schema(
    [
        column("source", pa.string(), "quorum_state, quorum_status or describe_quorum"),
        column("node_id", pa.int32(), "node whose view this is"),
        column("captured_at_ms", pa.int64(), "when it was read, at the earliest"),
        column("uncertainty_ms", pa.int64(), "it was read within this many ms after captured_at_ms"),
        column("quorum_cluster_id", pa.string(), "cluster id in the source"),
        column("leader_id", pa.int32(), "leader of the metadata quorum; -1 for none"),
        column("leader_epoch", pa.int32(), "epoch of that leader"),
        column("voted_id", pa.int32(), "candidate that this node voted for in leader_epoch; -1 for none"),
        column("high_watermark", pa.int64(), "metadata offsets below this are committed"),
        column("voters", INT32_LIST, "voters, ascending"),
        column("observers", INT32_LIST, "observers, ascending"),
        *PROVENANCE,
    ]
)

CAPTURES = pa.schema(
    [
        column(
            "kafka_release",
            pa.string(),
            "Kafka release, from the manifest; all if manifests named several (4.0.2, 4.1.0)",
        ),
        column("clock_error_ms", pa.int64(), "largest difference between the capturer's clock and the controllers'"),
        column("snapshot_duration_ms", pa.int64(), "how long one round of copying took; null: the setting applies"),
        column("files", pa.int64(), "number of its files: its rows in evidence_files"),
        column("size_bytes", pa.int64(), "length of all of them"),
        column("digest", pa.string(), "SHA-256 of the list of its files: path, SHA-256 and length of each"),
        column("nodes", INT32_LIST, "nodes that they were copied from, ascending"),
        column("first_captured_ms", pa.int64(), "the least captured_at_ms of them"),
        column("last_captured_ms", pa.int64(), "the largest captured_at_ms of them"),
        column(
            "last_timestamp_ms",
            pa.int64(),
            "largest timestamp of the metadata log in them",
        ),
        column("ingested_ms", pa.int64(), "when files of it were ingested last; our clock"),
        column("ingested_with", pa.string(), "program that did so, with its version"),
        column("capture", pa.string(), "name of the capture (folder or archive)"),
        column("path", pa.string(), "its manifest, inside the capture"),
        column("sha256", pa.string(), "SHA-256 of that file, hex"),
        column("position", pa.int64(), "0, if there is a manifest"),
    ]
)

OUT_OF_SYNC = pa.list_(
    pa.struct(
        [
            pa.field("broker_id", pa.int32()),
            pa.field("log_end_offset", pa.int64()),
            pa.field("last_caught_up_ms", pa.int64()),
        ]
    )
)

BROKER_LOG_EVENTS = pa.schema(
    [
        column("node_id", pa.int32(), "node that wrote the line"),
        column("logged_at_ms", pa.int64(), "when, as printed: the node's wall clock in ms, as if its zone were UTC"),
        column("logged_at_utc_ms", pa.int64(), "when, by the node's clock, if its zone is known (node_clocks)"),
        column("level", pa.string(), "level, e.g. INFO"),
        column("logger", pa.string(), "logger"),
        column("kind", pa.string(), "which message it is, e.g. leader_started (docs/broker_logs.md)"),
        column("topic", pa.string(), "topic"),
        column("partition", pa.int32(), "partition"),
        column("topic_id", pa.string(), "topic id, where the line names it"),
        column("broker_id", pa.int32(), "broker that the line is about, where it is not the one that wrote it"),
        column("leader", pa.int32(), "leader: elected, followed or fetched from; -1 for none"),
        column("leader_epoch", pa.int32(), "leader epoch"),
        column("partition_epoch", pa.int32(), "partition epoch"),
        column("controller_epoch", pa.int32(), "controller epoch"),
        column("previous_leader", pa.int32(), "as printed; followers of 3.9 to 4.1 print the new leader; -1 for none"),
        column("previous_leader_epoch", pa.int32(), "as printed; followers of 3.9 to 4.1 print the new epoch"),
        column("isr", INT32_LIST, "in-sync replicas, or what the leader asked for (isr_shrinking)"),
        column("previous_isr", INT32_LIST, "in-sync replicas before"),
        column("under_min_isr", pa.bool_(), "whether the leader prints that the ISR is below min.insync.replicas"),
        column("out_of_sync", OUT_OF_SYNC, "isr_shrinking: the replicas that lag, as the leader sees them"),
        column("log_start_offset", pa.int64(), "log start offset"),
        column("log_end_offset", pa.int64(), "log end offset of the replica that wrote the line"),
        column(
            "leader_end_offset", pa.int64(), "where the leader's log ends in leader_epoch, as it answered a follower"
        ),
        column("high_watermark", pa.int64(), "high watermark as that replica had it"),
        column("previous_high_watermark", pa.int64(), "high watermark before it was set back"),
        column("truncated_to", pa.int64(), "offset that the log was cut to, or was to be cut to"),
        column("broker_epoch", pa.int64(), "broker epoch"),
        column("incarnation_id", pa.string(), "id of the broker's process, as it registers"),
        column("directory", pa.string(), "log directory"),
        column("count", pa.int64(), "how many logs, partitions or records"),
        column("duration_ms", pa.int64(), "how long it took"),
        column("printed_at_ms", pa.int64(), "kafka_start_time, by the node's clock"),
        column("detail", pa.string(), "error, state, signal, version or kind of election, as printed, redacted"),
        column("message", pa.string(), "the message, its first 2,000 characters, redacted"),
        column("length_bytes", pa.int64(), "length of the line; position and length are of the unpacked text"),
        column(
            "file_is_whole",
            pa.bool_(),
            "true: no line is missing between two rows of the file (docs/broker_logs.md)",
        ),
        *PROVENANCE,
    ]
)

NODE_BOOTS = pa.schema(
    [
        column("node_id", pa.int32(), "node"),
        column("begins_in_file", pa.bool_(), "false: the process may have begun before the file does"),
        column("start_time_ms", pa.int64(), "Kafka startTimeMs: when the server was up, by its own clock"),
        column("zone_ms", pa.int64(), "wall clock less UTC, by that time and the time of its line"),
        column("kafka_version", pa.string(), "Kafka release that the process printed"),
        column("incarnation_id", pa.string(), "id of the broker's process, as it registers"),
        column("broker_epoch", pa.int64(), "broker epoch"),
        column("previous_shutdown", pa.string(), "how the process before it stopped: clean, or unclean in a directory"),
        column("clean_directories", STRING_LIST, "log directories with a clean shutdown file"),
        column("unclean_directories", STRING_LIST, "log directories with logs and without that file"),
        column("load_ms", pa.int64(), "how long loading and recovering its logs took"),
        column("stopped", pa.string(), "complete (shut down completed), signal (only that it was asked to), or null"),
        column("stopped_at_ms", pa.int64(), "wall-clock time of the last `shut down completed`"),
        column("first_event_ms", pa.int64(), "wall-clock time of its first event in the file"),
        column("last_event_ms", pa.int64(), "wall-clock time of its last event in the file"),
        column(
            "whole_until_ms",
            pa.int64(),
            "the file has all that the node had logged up to then: copied whole, nothing rotated away",
        ),
        column("first_position", pa.int64(), "byte position of the first event"),
        column("last_position", pa.int64(), "byte position of the last event"),
        *PROVENANCE,
    ]
)

BOOT_IDS = pa.schema(
    [
        column("node_id", pa.int32(), "node"),
        column(
            "boot_id",
            pa.string(),
            "boot id of its machine, new whenever it starts; null: only its uptime",
        ),
        column(
            "captured_at_ms",
            pa.int64(),
            "when it was read, at the earliest",
        ),
        column("uncertainty_ms", pa.int64(), "it was read within this many ms after captured_at_ms"),
        column(
            "booted_by_ms",
            pa.int64(),
            "when the machine had started, at the latest: when its uptime was read, less the uptime",
        ),
        column("booted_after_ms", pa.int64(), "and at the earliest, if the machine was never paused"),
        column("machine_id", pa.string(), "digest of the machine's id; null in a container"),
        column("node_name", pa.string(), "Kubernetes node, host of the container, or host name of the machine"),
        column(
            "local_disks",
            pa.bool_(),
            "whether every log directory is on a disk of that machine",
        ),
        *PROVENANCE,
    ]
)

NODE_CLOCKS = pa.schema(
    [
        column("node_id", pa.int32(), "node"),
        column("from_ms", pa.int64(), "wall-clock time of the first line that shows it"),
        column("to_ms", pa.int64(), "wall-clock time of the last such line"),
        column(
            "offset_lower_ms", pa.int64(), "the wall clock is at least this far ahead of the controllers' clock, UTC"
        ),
        column("offset_upper_ms", pa.int64(), "and at most this far"),
        column("zone_ms", pa.int64(), "the zone's part of that: wall clock less UTC"),
        column(
            "zone_source", pa.string(), "printed (or in the manifest), start_time (a line with both times), or anchors"
        ),
        column("error_lower_ms", pa.int64(), "the node's clock is at least this far ahead of the controllers'"),
        column("error_upper_ms", pa.int64(), "and at most this far"),
        column("lower_anchors", pa.int64(), "lines that were logged before a record that they name"),
        column("upper_anchors", pa.int64(), "lines that were logged after one"),
    ]
)
