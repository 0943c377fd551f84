"""Defects in tables of evidence, each with the expectation that is meant for it."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from tests.support.planting import Plant, Tables, any_row, column, has, of_kind, partition_record


def _lost_batch(tables: Tables) -> None:
    tables.drop("log_batches", tables.at("log_batches", lambda row: row["base_offset"] > 20))


def _old_reading(tables: Tables) -> None:
    number = tables.at("log_end_offsets", has("captured_at_ms"))
    tables.copy("log_end_offsets", number, source="jmx_tool", captured_at_ms=1)


def _no_readings(tables: Tables) -> None:
    """Of the first window's partition only readings from long before it remain, of one source."""
    window = tables.row("findings", tables.at("findings", of_kind("hwm_regression")))
    readings = tables["log_end_offsets"]
    rows = readings.to_pylist()
    kept = [r for r in rows if (r["topic"], r["partition"]) != (window["topic"], window["partition"])]
    one = next(r for r in rows if r["captured_at_ms"] is not None and r["broker_id"] is not None)
    one |= {"topic": window["topic"], "partition": window["partition"]}
    kept += [{**one, "captured_at_ms": at} for at in range(1, 5)]
    tables["log_end_offsets"] = pa.Table.from_pylist(kept, schema=readings.schema)


def _late_clock(tables: Tables) -> None:
    logged_at_ms = tables.row("broker_log_events", 0)["logged_at_ms"]
    tables.put("broker_log_events", 0, logged_at_utc_ms=logged_at_ms - 420_000)


def _second_boot(tables: Tables) -> None:
    boot = tables.row("node_boots", 0)
    tables.copy("node_boots", 0, position=boot["position"] + 1, first_position=boot["last_position"])


def _file_of_another(table: str) -> Callable[[Tables], None]:
    return lambda tables: tables.put(table, 0, node_id=987)


def _late_state(tables: Tables) -> None:
    printed = tables.at("described_partitions", lambda row: bool(row["isr"]))
    tables.put("described_partitions", printed, leader=4242)


def _other_leader(tables: Tables) -> None:
    tables.put("quorum_reports", tables.at("quorum_reports", of_kind("quorum_state", "source")), leader_id=3001)


def _later_commit(tables: Tables) -> None:
    number = tables.at("log_batches", lambda row: row["base_offset"] > 50)
    tables.put("log_batches", number, epoch=0)


def _lost_snapshot_record(tables: Tables) -> None:
    tables.drop("snapshot_records", tables.at("snapshot_records", lambda row: row["offset"] == 1))


def _strange_topic(table: str) -> Callable[[Tables], None]:
    return column(table, "topic", lambda _: "no such topic", has("topic"))


PLANTED = (
    Plant(
        "evidence_files.every_byte",
        "a byte more was parsed",
        column("evidence_files", "parsed_bytes", lambda n: n + 1, any_row),
    ),
    Plant("evidence_files.offsets_held", "a batch of a segment is missing", _lost_batch),
    Plant(
        "quarantine.within_file",
        "a row goes on after the end of its file",
        column("quarantine", "length_bytes", lambda n: n + 1, any_row),
    ),
    Plant(
        "evidence_files.quarantine_listed",
        "a file has quarantined bytes that quarantine does not list",
        column("evidence_files", "quarantined_bytes", lambda _: 5, any_row),
    ),
    Plant(
        "log_batches.offsets_dense",
        "`record_count` is one more",
        column("log_batches", "record_count", lambda n: n + 1, any_row),
    ),
    Plant("log_batches.no_gap", "a batch is missing", _lost_batch),
    Plant("log_batches.epochs_rise", "a later batch has epoch 0", _later_commit),
    Plant("log_batches.records_decoded", "a record is missing", lambda t: t.drop("metadata_records", 5)),
    Plant(
        "metadata_records.batch_known",
        "a record has the CRC of no batch",
        column("metadata_records", "batch_crc", lambda n: n + 1, any_row),
    ),
    Plant(
        "metadata_records.fields_typed",
        "a partition record has no fields",
        column("metadata_records", "partition_change", lambda _: None, partition_record),
    ),
    Plant(
        "metadata_records.fields_typed",
        "another record has no text",
        column("metadata_records", "payload", lambda _: None, has("payload")),
    ),
    Plant(
        "snapshot_records.fields_typed",
        "a partition record has no fields",
        column("snapshot_records", "partition_change", lambda _: None, partition_record),
    ),
    Plant("snapshot_records.numbered", "a record of a snapshot is missing", _lost_snapshot_record),
    Plant("broker_log_events.zone_possible", "a line's UTC time is 7 minutes off", _late_clock),
    Plant("node_boots.apart", "two processes share lines of a file", _second_boot),
    Plant("boot_ids.is_uuid", "a boot id is `linux`", column("boot_ids", "boot_id", lambda _: "linux", any_row)),
    Plant("boot_ids.node_of_file", "`node_id` is not that of the file", _file_of_another("boot_ids")),
    Plant("static_configs.node_of_file", "`node_id` is not that of the file", _file_of_another("static_configs")),
    Plant(
        "node_clocks.bounds_agree",
        "the bound of a clock's error is a second off",
        column("node_clocks", "error_lower_ms", lambda n: n + 1000, has("error_lower_ms")),
    ),
    Plant(
        "captures.is_manifest",
        "the row's file is a server.properties",
        lambda t: t.put("evidence_files", t.at("evidence_files", of_kind("manifest")), kind="server_properties"),
    ),
    Plant(
        "captures.files_counted",
        "a file is counted that evidence_files does not have",
        column("captures", "files", lambda n: n + 1, any_row),
    ),
    Plant(
        "captures.files_counted",
        "its last file was captured a second later",
        column("captures", "last_captured_ms", lambda n: n + 1000, has("last_captured_ms")),
    ),
    Plant("evidence_files.capture_listed", "the capture has no row", lambda t: t.drop("captures", 0)),
    Plant(
        "log_end_offsets.watermark_in_log",
        "a high watermark is above the log end",
        column("log_end_offsets", "high_watermark", lambda _: 1 << 40, has("log_end_offset")),
    ),
    Plant(
        "log_end_offsets.topic_known",
        "a reading is of a topic that the log does not have",
        _strange_topic("log_end_offsets"),
    ),
    Plant("log_end_offsets.windows_covered", "a window's partition was read only long before it", _no_readings),
    Plant("log_end_offsets.fresh", "a source's newest reading is years old", _old_reading),
    Plant(
        "described_partitions.state_possible",
        "the ISR has a broker that is no replica",
        column("described_partitions", "isr", lambda isr: [*isr, 99], any_row),
    ),
    Plant("described_partitions.agrees_with_history", "the printed leader never led", _late_state),
    Plant(
        "quorum_reports.leader_is_voter",
        "the leader is not among the voters",
        column("quorum_reports", "leader_id", lambda _: 99, has("voters")),
    ),
    Plant("quorum_reports.agrees_with_history", "another leader for the epoch", _other_leader),
)
