"""Every Delta table: its columns (from the Arrow schemas of evidence and replay), keys and comment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc

from evidence import tables as evidence
from evidence.tables import column
from replay.arrow import schemas as replay
from replay.arrow.schemas import RULE_DIFFERENCES
from replay.invariants.catalogue import INVARIANT_VIOLATIONS

# Raise this when the meaning of a column changes. New tables and columns change LAYOUT by themselves.
SCHEMA_VERSION = 3
CLUSTER_ID = "cluster_id"
APPEND_ONLY = "delta.appendOnly"
_CLUSTER = column(CLUSTER_ID, pa.string(), "Kafka cluster id; unknown-<capture> when no file names it")
_COMMIT = column("commit_state", pa.string(), "committed, uncommitted (cut off by a later epoch) or unknown")

STATIC_CONFIGS = pa.schema(
    [
        column("node_id", pa.int32(), "node whose server.properties this is"),
        column("name", pa.string(), "config name"),
        column("value", pa.string(), "value; secrets redacted"),
        *evidence.PROVENANCE,
    ]
)

QUALITY_RESULTS = pa.schema(
    [
        column("run_id", pa.string(), "which run"),
        column("run_at_ms", pa.int64(), "when that run ended"),
        column("suite", pa.string(), "expectation suite: the table's name"),
        column("suite_fingerprint", pa.string(), "what was expected of the table: changes with its suite"),
        column("table", pa.string(), "table that was checked"),
        column("expectation", pa.string(), "the expectation's name (docs/quality.md)"),
        column("kind", pa.string(), "completeness, validity, consistency, coverage, reconciliation or agreement"),
        column("column", pa.string(), "columns that name a row that breaks it, joined by a comma"),
        column("severity", pa.string(), "error, or warn: does not fail the run"),
        column("success", pa.bool_(), "whether the expectation was met"),
        column("unexpected_count", pa.int64(), "rows that broke it"),
        column("element_count", pa.int64(), "rows that were checked"),
        column("sample", evidence.STRING_LIST, "the first rows that broke it: their keys, and what is wrong"),
        column("action", pa.string(), "what to do if it is not met"),
        column("details", pa.string(), "figures that were measured, met or not, JSON"),
    ]
)

_FINDING_KEY = (
    column("finding_id", pa.string(), "id of the finding"),
    column("verdict", pa.string(), "proven, possible, excluded or undetermined"),
    column("severity", pa.string(), "critical, high, medium, low or info"),
)

KEPT_FINDINGS = "kept_findings"
KEPT = pa.schema(
    [
        *replay.FINDINGS,
        column("kept_ms", pa.int64(), "when its evidence was removed from the lake; our clock"),
    ]
)

FINDING_FIRST_SEEN = pa.schema(
    [
        *_FINDING_KEY,
        column("first_seen_ms", pa.int64(), "when the run ended that found it first; our clock"),
    ]
)

ACKNOWLEDGEMENTS = pa.schema(
    [
        *_FINDING_KEY,
        column("note", pa.string(), "why it needs no alarm"),
        column("acknowledged_by", pa.string(), "who acknowledged it, as given"),
        column("acknowledged_ms", pa.int64(), "when it was acknowledged; our clock"),
    ]
)

RUNS = pa.schema(
    [
        column("run_id", pa.string(), "which run"),
        column("command", pa.string(), "run, ingest, replay, detect, quality, report, maintain, ..."),
        column("started_ms", pa.int64(), "when it started; our clock"),
        column("ended_ms", pa.int64(), "when it ended; our clock"),
        column("outcome", pa.string(), "done, failed or stopped (by a signal); a killed run has no row"),
        column("exit_code", pa.int32(), "exit code of the command"),
        column("error", pa.string(), "the error that ended it"),
        column("valid", pa.string(), "true, false or unknown, as in verdict.json"),
        column("quality_failed", pa.int64(), "expectations that were not met"),
        column("captures", evidence.STRING_LIST, "names of the captures that it was given for the cluster"),
        column(
            "capture_digests",
            evidence.STRING_LIST,
            "for each of them SHA-256 of the list of its files, as in the manifest",
        ),
        column("evidence", pa.string(), "version and link of evidence_files' newest commit, at the end"),
        column("counts", pa.string(), "rows that it added or made, by table, JSON"),
        column("durations_ms", pa.string(), "how long each of its stages took, JSON"),
        column(
            "tasks",
            pa.string(),
            "by job the number of tasks, the slowest and the largest: rows, bytes, seconds and memory, JSON",
        ),
        column("engine", pa.string(), "what ran its tasks: Spark, its version and master, or local"),
        column("program", pa.string(), "version of this program"),
        column("code_version", pa.int32(), "version of what the stages write (jobs/provenance/fingerprint.py)"),
        column("rule_version", pa.string(), "version of the rules that judge windows"),
    ]
)


@dataclass(frozen=True, slots=True)
class Check:
    """A constraint on a table's rows. condition: in SQL, as Delta stores it; holds: the same for an Arrow table."""

    name: str
    condition: str
    holds: Callable[[pa.Table], pa.ChunkedArray]


@dataclass(frozen=True)
class Table:
    """A Delta table. file_schema: the columns in its files. key: the columns that, with cluster_id, identify a row.
    topics: path of the column with topic ids, for a table that tasks read by topics (jobs/lake/row_groups.py). bounded:
    the column whose least and largest values in a file its commit names; the last one of the key by default.
    """

    name: str
    comment: str
    file_schema: pa.Schema
    key: tuple[str, ...]
    append_only: bool = False
    checks: tuple[Check, ...] = ()
    topics: tuple[str, ...] = ()
    bounded: str = ""

    @property
    def bounds(self) -> str:
        """The name of the column `bounded`."""
        return self.bounded or self.key[-1]

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns: cluster_id, by which tables are partitioned, and those in the files."""
        return pa.schema([_CLUSTER, *self.file_schema])

    @property
    def properties(self) -> dict[str, str]:
        """The table's Delta properties. Commits are kept for ever: they hold the chain (jobs/lake/marks.py)."""
        properties = {"delta.enableExpiredLogCleanup": "false"}
        if self.append_only:
            properties[APPEND_ONLY] = "true"
        return {**properties, "delta.dataSkippingStatsColumns": self.bounds}


def _with_commit(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, _COMMIT])


def _every_byte(files: pa.Table) -> pa.ChunkedArray:
    used = pc.add(pc.add(files["parsed_bytes"], files["quarantined_bytes"]), files["trailing_bytes"])
    return pc.equal(used, files["size_bytes"])


_PLACE = ("sha256", "path", "position")
_OF_RECORD = ("partition_change", "topic_id")

_ALL = (
    Table(
        "evidence_files",
        "A file of a capture and how its bytes were used",
        evidence.EVIDENCE_FILES,
        ("capture", "path", "sha256"),
        append_only=True,
        checks=(Check("every_byte", "parsed_bytes + quarantined_bytes + trailing_bytes = size_bytes", _every_byte),),
    ),
    Table(
        "quarantine",
        "A stretch of bytes that could not be used",
        evidence.QUARANTINE,
        (*_PLACE, "offset", "reason"),
        append_only=True,
    ),
    Table(
        "broker_log_events",
        "A line of server.log, state-change.log or controller.log that shows a fact (docs/broker_logs.md)",
        evidence.BROKER_LOG_EVENTS,
        _PLACE,
        append_only=True,
    ),
    Table(
        "node_boots",
        "A process of a node, as its server.log shows it; one row for each file that shows it",
        evidence.NODE_BOOTS,
        _PLACE,
        append_only=True,
    ),
    Table(
        "boot_ids",
        "A reading of the boot id of a node's machine",
        evidence.BOOT_IDS,
        ("node_id", "captured_at_ms", *_PLACE),
        append_only=True,
    ),
    Table(
        "node_clocks",
        "How far a node's clock was ahead of the controllers', by lines of its logs about records of the metadata log",
        evidence.NODE_CLOCKS,
        ("node_id", "from_ms"),
    ),
    Table(
        "static_configs",
        "A line of a captured server.properties",
        STATIC_CONFIGS,
        ("node_id", "name", "value"),
        append_only=True,
    ),
    Table(
        "captures",
        "A capture that was ingested: what was found in it, and what its manifest says",
        evidence.CAPTURES,
        ("capture",),
        bounded="sha256",
    ),
    Table(
        "log_batches",
        "A distinct record batch of the metadata log and the nodes that hold it",
        _with_commit(evidence.LOG_BATCHES),
        ("epoch", "base_offset", "crc"),
    ),
    Table(
        "metadata_records",
        "A record of the metadata log; one row no matter how many nodes hold it",
        _with_commit(evidence.METADATA_RECORDS),
        ("epoch", "batch_crc", "offset"),
        topics=_OF_RECORD,
    ),
    Table(
        "snapshot_records",
        "A record of a metadata snapshot (.checkpoint), numbered from 0",
        evidence.SNAPSHOT_RECORDS,
        ("snapshot_end_offset", "snapshot_epoch", "sha256", "offset"),
        append_only=True,
        topics=_OF_RECORD,
    ),
    Table(
        "log_end_offsets",
        "A replica's log end, high watermark or epoch as one source reported it",
        evidence.LOG_END_OFFSETS,
        ("broker_id", "source", "captured_at_ms", "topic", "partition", "sha256", "position"),
        append_only=True,
    ),
    Table(
        "described_partitions",
        "A partition's state as one of Kafka's tools printed it",
        evidence.DESCRIBED_PARTITIONS,
        ("source", "captured_at_ms", "topic", "partition", "sha256", "position"),
        append_only=True,
    ),
    Table(
        "quorum_reports",
        "The metadata quorum as one node or tool reported it",
        evidence.QUORUM_REPORTS,
        ("source", "captured_at_ms", "node_id", "sha256", "position"),
        append_only=True,
    ),
    Table(
        "partition_history",
        "A partition's whole state after one record",
        replay.PARTITION_HISTORY,
        ("topic_id", "partition", "offset"),
        topics=("topic_id",),
    ),
    Table(
        "feature_history",
        "A feature's finalized level from one record on",
        replay.FEATURE_HISTORY,
        ("name", "offset"),
    ),
    Table(
        "config_history",
        "A config of one resource from one record on",
        replay.CONFIG_HISTORY,
        ("resource_type", "resource_name", "name", "offset"),
    ),
    Table(
        "broker_history",
        "A broker's registration from one record on, and how its session began",
        replay.BROKER_HISTORY,
        ("broker_id", "offset"),
    ),
    Table("quorum_history", "The controllers' quorum from one record on", replay.QUORUM_HISTORY, ("offset",)),
    Table(
        "cluster_metrics",
        "One of KIP-966's metrics from one record on",
        replay.CLUSTER_METRICS,
        ("metric", "topic_id", "partition", "offset"),
        topics=("topic_id",),
    ),
    Table(
        "elections",
        "A leader change",
        replay.ELECTIONS,
        ("topic_id", "partition", "offset"),
        topics=("topic_id",),
    ),
    Table(
        "rule_differences",
        "A partition change that is not what Kafka's rules predict, or a known bug of its release",
        RULE_DIFFERENCES,
        ("topic_id", "partition", "offset"),
        topics=("topic_id",),
    ),
    Table(
        "invariant_violations",
        "A stretch of states, or of the log, that breaks an invariant",
        INVARIANT_VIOLATIONS,
        ("invariant", "topic_id", "partition", "start_offset"),
    ),
    Table(
        "counterfactuals",
        "What a policy would have done in a window: a prediction",
        replay.COUNTERFACTUALS,
        ("finding_id", "policy"),
    ),
    Table("findings", "A flagged window or fault, with verdict and evidence", replay.FINDINGS, ("finding_id",)),
    Table(
        KEPT_FINDINGS,
        "A finding that was judged before its evidence was removed (`forget --older-than --keep-findings`)",
        KEPT,
        ("finding_id",),
    ),
    Table(
        "finding_first_seen",
        "A finding, by id, verdict and severity, that a run of detect has found, now or earlier",
        FINDING_FIRST_SEEN,
        ("finding_id", "verdict", "severity"),
    ),
    Table(
        "acknowledgements",
        "A finding, by id, verdict and severity, that somebody has acknowledged",
        ACKNOWLEDGEMENTS,
        ("finding_id", "verdict", "severity"),
    ),
    Table(
        "quality_results",
        "The outcome of an expectation in a run of quality",
        QUALITY_RESULTS,
        ("suite", "expectation", "run_id"),
    ),
    Table("runs", "What a run of a command did, for each cluster concerned (docs/operations.md)", RUNS, ("run_id",)),
)
TABLES = {t.name: t for t in _ALL}


def _layout() -> str:
    tables = [(t.name, t.key, t.properties, [(f.name, str(f.type)) for f in t.schema]) for t in _ALL]
    return f"{SCHEMA_VERSION}-{sha256(repr(tables).encode()).hexdigest()[:8]}"


# Of all tables. Every commit names it, and a lake of another layout is refused (jobs/lake/lake.py).
LAYOUT = _layout()

# The tables that each stage writes, the one that it writes last at the end.
INGESTED = (
    "quarantine",
    "snapshot_records",
    "quorum_reports",
    "metadata_records",
    "log_batches",
    "log_end_offsets",
    "described_partitions",
    "broker_log_events",
    "node_boots",
    "boot_ids",
    "static_configs",
    "captures",
    "evidence_files",
)
REPLAYED = (
    "partition_history",
    "cluster_metrics",
    "broker_history",
    "feature_history",
    "config_history",
    "quorum_history",
)
DETECTED = ("node_clocks", "elections", "rule_differences", "invariant_violations", "counterfactuals", "findings")
CHECKED = ("quality_results",)
STAGES = {"ingest": INGESTED, "replay": REPLAYED, "detect": DETECTED, "quality": CHECKED}
