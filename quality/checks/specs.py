"""What single values of every table must be: present, one of a set, not too small, in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Names that other packages define, too; tests/unit/quality/test_specs.py compares them.
COMMIT_STATES = ("committed", "uncommitted", "unknown")
RECOVERY_STATES = ("RECOVERED", "RECOVERING")
LAYERS = ("topic", "broker", "cluster", "static", "default", "assumed_default")
VERDICTS = ("proven", "possible", "excluded", "undetermined")
SEVERITIES = ("critical", "high", "medium", "low", "info")
DIFFERENCES = ("profiles_disagree", "known_bug", "unknown_input", "unexplained")
ORIGINS = ("log", "checkpoint")
CAUSES = (
    "isr",
    "elr",
    "last_known_leader",
    "unclean_by_config",
    "unclean_by_administrator",
    "unclean",
    "preferred",
    "reassignment",
    "cancelled_reassignment",
    "directory_failure",
    "leaderless",
)


@dataclass(frozen=True)
class Spec:
    """What a table's values must be. key: the columns that, with cluster_id, identify a row. present: columns without
    nulls. one_of: the values that a column may have. least: the least value of a column. ordered: pairs of columns, of
    which the first is not above the second. Nulls break none of the last three. place: whether the rows name the file
    that they are from."""

    key: tuple[str, ...]
    present: tuple[str, ...] = ()
    one_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    ordered: tuple[tuple[str, str], ...] = ()
    place: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        pairs = (name for pair in self.ordered for name in pair)
        return tuple(dict.fromkeys((*self.key, *self.present, *self.one_of, *self.least, *pairs)))


_PLACE = ("sha256", "path", "position")
_PARTITION = ("topic_id", "partition")
_RECORD = ("offset", "timestamp_ms", "controller_epoch")
_STATE = {
    "one_of": {"origin": ORIGINS},
    "ordered": (("offset", "end_offset"),),
}
_TIMES = {"captured_at_ms": 0, "uncertainty_ms": 0}

SPECS = {
    "evidence_files": Spec(
        ("capture", "path", "sha256"),
        ("kind", "size_bytes", "status", "parsed_bytes", "quarantined_bytes", "trailing_bytes"),
        {"status": ("ok", "note", "quarantined", "registered")},
        {"size_bytes": 0, "parsed_bytes": 0, "quarantined_bytes": 0, "trailing_bytes": 0, **_TIMES, "base_offset": 0},
        (("base_offset", "end_offset"),),
        place=False,
    ),
    "quarantine": Spec((*_PLACE, "offset", "reason"), ("reason", "message"), {}, {"position": 0, "length_bytes": 0}),
    "broker_log_events": Spec(
        _PLACE,
        ("kind", "logged_at_ms", "message"),
        {},
        {"partition": 0, "leader": -1, "leader_epoch": -1, "log_start_offset": 0, "length_bytes": 1, "position": 0},
    ),
    "node_boots": Spec(
        _PLACE,
        ("begins_in_file", "first_event_ms", "last_event_ms"),
        {"previous_shutdown": ("clean", "unclean"), "stopped": ("complete", "signal")},
        {"load_ms": 0, "first_position": 0},
        (("first_position", "last_position"),),
    ),
    "boot_ids": Spec(
        ("node_id", "captured_at_ms", *_PLACE),
        ("node_id",),
        {},
        {"position": 0, **_TIMES},
        (("booted_after_ms", "booted_by_ms"),),
    ),
    "node_clocks": Spec(
        ("node_id", "from_ms"),
        ("to_ms",),
        {"zone_source": ("printed", "start_time", "anchors")},
        {"lower_anchors": 0, "upper_anchors": 0},
        (("from_ms", "to_ms"), ("offset_lower_ms", "offset_upper_ms"), ("error_lower_ms", "error_upper_ms")),
        place=False,
    ),
    "static_configs": Spec(("node_id", "name", "value"), ("name", "node_id"), {}, {"position": 0}),
    "captures": Spec(
        ("capture",),
        ("capture", "files", "size_bytes", "digest", "nodes"),
        {},
        {"files": 1, "size_bytes": 0, "clock_error_ms": 0, "snapshot_duration_ms": 0, "position": 0},
        (("first_captured_ms", "last_captured_ms"),),
    ),
    "log_batches": Spec(
        ("epoch", "base_offset", "crc"),
        ("last_offset", "record_count", "is_control", "codec", "size_bytes", "nodes", "commit_state"),
        {"commit_state": COMMIT_STATES, "codec": ("none", "gzip", "snappy", "lz4", "zstd")},
        {"base_offset": 0, "epoch": 0, "record_count": 1, "size_bytes": 61, "position": 0},
        (("base_offset", "last_offset"),),
    ),
    "metadata_records": Spec(
        ("epoch", "batch_crc", "offset"),
        ("type", "is_control", "batch_base_offset", "commit_state"),
        {"commit_state": COMMIT_STATES},
        {"offset": 0, "epoch": 0, "version": 0, "position": 0},
        (("batch_base_offset", "offset"),),
    ),
    "snapshot_records": Spec(
        ("snapshot_end_offset", "snapshot_epoch", "sha256", "offset"),
        ("offset", "type", "is_control"),
        {},
        {"snapshot_end_offset": 0, "snapshot_epoch": 0, "offset": 0, "version": 0, "position": 0},
    ),
    "log_end_offsets": Spec(
        ("broker_id", "source", "captured_at_ms", "topic", "partition", "sha256", "position"),
        ("source",),
        {},
        {"partition": 0, "log_end_offset": 0, "log_start_offset": 0, "in_sync_replicas_count": 1, **_TIMES},
        (("log_start_offset", "log_end_offset"),),
    ),
    "described_partitions": Spec(
        ("source", "captured_at_ms", "topic", "partition", "sha256", "position"),
        ("topic", "partition", "leader"),
        {"source": ("topics_describe", "describe_topic_partitions")},
        {"partition": 0, "leader": -1, "leader_epoch": 0, **_TIMES},
    ),
    "quorum_reports": Spec(
        ("source", "captured_at_ms", "node_id", "sha256", "position"),
        ("source",),
        {"source": ("quorum_state", "quorum_status", "describe_quorum")},
        {"leader_id": -1, "leader_epoch": 0, "voted_id": -1, "high_watermark": -1, **_TIMES},
    ),
    "partition_history": Spec(
        (*_PARTITION, "offset"),
        ("topic_id", "topic", "partition", "offset", "removed"),
        {
            **_STATE["one_of"],
            "leader_recovery_state": RECOVERY_STATES,
            "min_isr_source": LAYERS,
            "unclean_leader_election_enable_source": LAYERS,
        },
        {"partition": 0, "leader": -1, "leader_epoch": 0, "partition_epoch": 0, "min_isr": 1},
        _STATE["ordered"],
    ),
    "feature_history": Spec(("name", "offset"), ("name", "level"), _STATE["one_of"], {"level": 0}, _STATE["ordered"]),
    "config_history": Spec(
        ("resource_type", "resource_name", "name", "offset"),
        ("resource_type", "resource_name", "name"),
        {**_STATE["one_of"], "source": LAYERS},
        {},
        _STATE["ordered"],
    ),
    "broker_history": Spec(
        ("broker_id", "offset"),
        ("broker_id",),
        {**_STATE["one_of"], "restart_class": ("first", "clean", "unclean", "unknown")},
        {"broker_id": 0, "broker_epoch": -1},
        (*_STATE["ordered"], ("broker_epoch", "offset")),
    ),
    "quorum_history": Spec(
        ("offset",), ("controller_epoch",), _STATE["one_of"], {"controller_epoch": 0, "leader_id": 0}, _STATE["ordered"]
    ),
    "cluster_metrics": Spec(
        ("metric", *_PARTITION, "offset"),
        ("metric",),
        {
            **_STATE["one_of"],
            "metric": (
                "electable_replicas_count",
                "global_under_min_isr_partition_count",
                "manual_leader_election_required_partition_count",
                "unclean_recovery_finished_count",
                "unclean_recovery_partitions_count",
            ),
        },
        {"value": 0},
        _STATE["ordered"],
    ),
    "elections": Spec(
        (*_PARTITION, "offset"),
        (*_RECORD, "topic", "leader_epoch", "leader", "cause", "hidden_unclean"),
        {
            "cause": CAUSES,
            "leader_recovery_state": RECOVERY_STATES,
            "difference": ("as_predicted", *DIFFERENCES),
        },
        {"leader": -1, "leader_epoch": 0},
    ),
    "rule_differences": Spec(
        (*_PARTITION, "offset"),
        (*_RECORD, "difference", "profiles"),
        {"difference": DIFFERENCES},
    ),
    "invariant_violations": Spec(
        ("invariant", *_PARTITION, "start_offset"),
        ("invariant", "start_offset", "rows"),
        {"severity": SEVERITIES},
        {"rows": 1},
        (("start_offset", "end_offset"),),
    ),
    "counterfactuals": Spec(
        ("finding_id", "policy"),
        ("finding_id", "policy", "outcome", "explanation"),
        {"outcome": ("elected", "waits", "undetermined")},
        {"loss_min": 0},
        (("loss_min", "loss_max"),),
        place=False,
    ),
    "findings": Spec(
        ("finding_id",),
        ("finding_id", "kind", "verdict", "severity", "rule", "rule_version", "explanation"),
        {"verdict": VERDICTS, "severity": SEVERITIES},
        {"loss_min": 0, "unacked_min": 0},
        (("start_offset", "end_offset"), ("loss_min", "loss_max"), ("unacked_min", "unacked_max")),
        place=False,
    ),
    "finding_first_seen": Spec(
        ("finding_id", "verdict", "severity"),
        ("finding_id", "first_seen_ms"),
        {"verdict": VERDICTS, "severity": SEVERITIES},
        {"first_seen_ms": 0},
        place=False,
    ),
    "acknowledgements": Spec(
        ("finding_id", "verdict", "severity"),
        ("finding_id", "note", "acknowledged_ms"),
        {"verdict": VERDICTS, "severity": SEVERITIES},
        {"acknowledged_ms": 0},
        place=False,
    ),
    "quality_results": Spec(
        ("suite", "expectation", "run_id"),
        ("run_id", "run_at_ms", "suite_fingerprint", "table", "expectation", "success"),
        {"severity": ("error", "warn")},
        {"unexpected_count": 0, "element_count": 0},
        place=False,
    ),
    "runs": Spec(
        ("run_id",),
        ("run_id", "command", "started_ms", "ended_ms", "outcome", "exit_code", "program"),
        {"outcome": ("done", "failed", "stopped"), "valid": ("true", "false", "unknown")},
        {"started_ms": 0, "exit_code": 0, "quality_failed": 0},
        (("started_ms", "ended_ms"),),
        place=False,
    ),
}
