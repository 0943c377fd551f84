"""Checks of the captured metadata log: files, batches, records, snapshots and quarantined bytes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quality.check import Check, Kind, Limits, Scope, Violations, broken
from quality.checks.holes import HOLES, Holes
from quality.columns import Array, Rows, Tables, numbers, places, unknown
from quality.digests import BATCH_ROWS

_FILE = ("capture", "path", "sha256")
_BATCH = ("epoch", "base_offset", "crc")
_OF_BATCH = ("epoch", "batch_base_offset", "batch_crc")
_PARTITION_RECORDS = ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD")
_AGAIN = "Ingest the capture into a new lake. If it happens again, report it with the capture."


def checks() -> Iterator[Check]:
    yield Check(
        "evidence_files",
        "every_byte",
        Kind.RECONCILIATION,
        "parsed_bytes + quarantined_bytes + trailing_bytes = size_bytes.",
        _AGAIN,
        _every_byte,
        {"evidence_files": (*_FILE, "size_bytes", "parsed_bytes", "quarantined_bytes", "trailing_bytes")},
        _FILE[:2],
        Scope.ROWS,
    )
    yield Check(
        "evidence_files",
        "offsets_held",
        Kind.RECONCILIATION,
        "log_batches has every metadata offset of a segment, unless bytes of it are in quarantine.",
        "Records of the file are missing from the lake: " + _AGAIN[0].lower() + _AGAIN[1:],
        _offsets_held,
        {
            "evidence_files": (*_FILE, "kind", "base_offset", "end_offset", "quarantined_bytes"),
            "log_batches": ("base_offset", "last_offset"),
        },
        _FILE[:2],
    )
    yield Check(
        "evidence_files",
        "quarantine_listed",
        Kind.RECONCILIATION,
        "A file with quarantined_bytes has rows in quarantine.",
        _AGAIN,
        _listed,
        {"evidence_files": (*_FILE, "quarantined_bytes"), "quarantine": ("sha256",)},
        (*_FILE[:2], "quarantined_bytes"),
    )
    yield Check(
        "quarantine",
        "within_file",
        Kind.RECONCILIATION,
        "The quarantined bytes of a file end where it does, or before, unless it is compressed.",
        _AGAIN,
        _within_file,
        {
            "quarantine": (*_FILE, "position", "length_bytes", "reason"),
            "evidence_files": (*_FILE, "size_bytes"),
        },
        ("path", "position", "reason"),
    )
    yield Check(
        "log_batches",
        "offsets_dense",
        Kind.COMPLETENESS,
        "A batch has one record for each of its offsets: record_count = last_offset - base_offset + 1.",
        _AGAIN,
        _dense,
        {"log_batches": (*_BATCH, "last_offset", "record_count")},
        _BATCH,
        Scope.ROWS,
    )
    yield Check(
        "log_batches",
        "no_gap",
        Kind.COMPLETENESS,
        "In the surviving log each batch begins where the one before ends, unless a finding or snapshot says why not.",
        "Rows of log_batches are missing: ingest the capture of every controller. Until then the history is not whole.",
        _no_gap,
        {"log_batches": (*_BATCH, "last_offset", "commit_state"), **HOLES},
        _BATCH[:2],
    )
    yield Check(
        "log_batches",
        "epochs_rise",
        Kind.CONSISTENCY,
        "The epoch of committed batches does not fall as offsets rise.",
        "Two clusters were ingested under one id, or files were altered: compare the SHA-256 of both batches' files.",
        _epochs_rise,
        {"log_batches": (*_BATCH, "commit_state")},
        _BATCH[:2],
    )
    yield Check(
        "log_batches",
        "records_decoded",
        Kind.RECONCILIATION,
        "metadata_records has record_count rows for every batch, or an unreadable_record is found or quarantined.",
        "Records are missing, or there twice: ingest the capture again; an interrupted ingest is completed.",
        _decoded,
        {
            "log_batches": (*_BATCH, "last_offset", "record_count"),
            BATCH_ROWS: (*_BATCH, "rows"),
            "quarantine": ("offset",),
        },
        _BATCH,
    )
    yield Check(
        "metadata_records",
        "batch_known",
        Kind.VALIDITY,
        "The batch of a record is in log_batches, with the same commit_state, and its offset is in the batch.",
        "Ingest the capture again; an interrupted ingest is completed.",
        _in_batch,
        {
            "metadata_records": ("offset", *_OF_BATCH, "commit_state"),
            "log_batches": (*_BATCH, "last_offset", "commit_state"),
        },
        ("offset", "epoch", "batch_crc"),
        Scope.ROWS,
    )
    for table in ("metadata_records", "snapshot_records"):
        yield Check(
            table,
            "fields_typed",
            Kind.VALIDITY,
            "A record has partition_change if it is a PARTITION_RECORD or PARTITION_CHANGE_RECORD, and only then.",
            _AGAIN,
            lambda tables, _, table=table: _typed(tables[table]),
            {table: ("offset", "epoch", "type", "partition_change.partition")},
            ("offset", "epoch", "type"),
            Scope.ROWS,
        )
    yield Check(
        "snapshot_records",
        "numbered",
        Kind.COMPLETENESS,
        "The records of a snapshot are numbered from 0, without a gap, unless bytes of its file are in quarantine.",
        "Records of the snapshot are missing: " + _AGAIN[0].lower() + _AGAIN[1:],
        _numbered,
        {"snapshot_records": ("path", "sha256", "offset"), "quarantine": ("sha256",)},
        ("path", "offset"),
    )


def _every_byte(tables: Tables, _: Limits) -> Violations:
    files = tables["evidence_files"]
    used = sum(files.ints(f"{name}_bytes") for name in ("parsed", "quarantined", "trailing"))
    return broken(files, used != files.ints("size_bytes"))


def _offsets_held(tables: Tables, _: Limits) -> Violations:
    files, batches = tables["evidence_files"], tables["log_batches"]
    files = files.where(files.in_set("kind", ("metadata_segment",)) & files.valid("base_offset"))
    gaps = _gaps(batches.ints("base_offset"), batches.ints("last_offset") + 1)
    starts, ends = np.array([g[0] for g in gaps], dtype=np.int64), np.array([g[1] for g in gaps], dtype=np.int64)
    begin, end = files.ints("base_offset"), files.ints("end_offset")
    missing = np.searchsorted(ends, begin, "right") < np.searchsorted(starts, end, "left")
    return broken(files, missing & (files.ints("quarantined_bytes") == 0))


def _gaps(starts: Array, ends: Array) -> list[tuple[int, int]]:
    """The ranges that no interval covers, before, between and after them."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order]) if len(ends) else ends
    before = np.append(np.iinfo(np.int64).min, ends)
    after = np.append(starts, np.iinfo(np.int64).max)
    return [(int(a), int(b)) for a, b in zip(before, after, strict=True) if a < b]


def _listed(tables: Tables, _: Limits) -> Violations:
    files = tables["evidence_files"]
    unlisted = unknown(files, ("sha256",), (tables["quarantine"], ("sha256",)))
    return broken(files, unlisted & (files.ints("quarantined_bytes", 0) > 0))


def _within_file(tables: Tables, _: Limits) -> Violations:
    rows, files = tables["quarantine"], tables["evidence_files"]
    of_row, of_file = numbers(rows.columns(*_FILE), files.columns(*_FILE))
    size = dict(zip(of_file.tolist(), files.ints("size_bytes").tolist(), strict=True))
    ends = rows.ints("position", 0) + rows.ints("length_bytes", 0)
    over = [number in size and end > size[number] for number, end in zip(of_row.tolist(), ends.tolist(), strict=True)]
    packed = [str(path).endswith((".gz", ".zst")) for path in rows.table["path"].to_pylist()]
    return broken(rows, np.array(over, dtype=bool) & ~np.array(packed, dtype=bool))


def _dense(tables: Tables, _: Limits) -> Violations:
    rows = tables["log_batches"]
    return broken(rows, rows.ints("last_offset") - rows.ints("base_offset") + 1 != rows.ints("record_count"))


def _no_gap(tables: Tables, _: Limits) -> Violations:
    rows = tables["log_batches"]
    rows = rows.where(~rows.in_set("commit_state", ("uncommitted",)))
    rows = rows.sorted_by(rows.ints("base_offset"), rows.ints("epoch"))
    start, reached = rows.ints("base_offset"), np.maximum.accumulate(rows.ints("last_offset") + 1)
    before = reached[:-1]
    gap = np.append(False, start[1:] > before) if len(rows) else np.zeros(0, dtype=bool)
    known = Holes(tables)
    for number in np.flatnonzero(gap):
        gap[number] = not known.explain(int(before[number - 1]))
    return broken(rows, gap, lambda number: f"the one before ends at {before[number - 1] - 1}")


def _epochs_rise(tables: Tables, _: Limits) -> Violations:
    rows = tables["log_batches"]
    rows = rows.where(rows.in_set("commit_state", ("committed",)))
    rows = rows.sorted_by(rows.ints("base_offset"), rows.ints("epoch"))
    epoch = rows.ints("epoch")
    return broken(rows, np.append(False, epoch[1:] < epoch[:-1]) if len(rows) else np.zeros(0, dtype=bool))


def _decoded(tables: Tables, _: Limits) -> Violations:
    batches, found = tables["log_batches"], tables[BATCH_ROWS]
    count = np.append(found.ints("rows"), 0)[places(batches, _BATCH, found)]
    bad = np.sort(tables["quarantine"].ints("offset"))
    first, last = (batches.ints(name) for name in ("base_offset", "last_offset"))
    excused = np.searchsorted(bad, last, "right") - np.searchsorted(bad, first, "left")
    expected = batches.ints("record_count")
    wrong = (count > expected) | (count + excused < expected)
    return broken(batches, wrong, lambda number: f"record_count={expected[number]}, rows={count[number]}")


def _in_batch(tables: Tables, _: Limits) -> Violations:
    records, batches = tables["metadata_records"], tables["log_batches"]
    base, of_batches = records.ints("batch_base_offset"), batches.ints("base_offset")
    if len(base):
        batches = batches.where((of_batches >= base.min()) & (of_batches <= base.max()))
    strange = unknown(records, (*_OF_BATCH, "commit_state"), (batches, (*_BATCH, "commit_state")))
    of_record, of_batch = numbers(records.columns(*_OF_BATCH), batches.columns(*_BATCH))
    order = np.argsort(of_batch, kind="stable")
    last = batches.ints("last_offset")
    if len(order):
        place = order[np.minimum(np.searchsorted(of_batch[order], of_record), len(order) - 1)]
        strange |= records.valid("offset") & (records.ints("offset") > last[place])
    return broken(records, strange | (records.ints("offset", 1 << 62) < records.ints("batch_base_offset")))


def _typed(rows: Rows) -> Violations:
    return broken(rows, rows.valid("partition_change") != rows.in_set("type", _PARTITION_RECORDS))


def _numbered(tables: Tables, _: Limits) -> Violations:
    rows = tables["snapshot_records"]
    rows = rows.where(unknown(rows, ("sha256",), (tables["quarantine"], ("sha256",))))
    (file,) = numbers(rows.columns("path", "sha256"))
    rows, file = rows.sorted_by(file, rows.ints("offset")), np.sort(file, kind="stable")
    offset = rows.ints("offset")
    first = np.append(True, file[1:] != file[:-1])[: len(file)]
    follows = np.append(False, offset[1:] == offset[:-1] + 1)[: len(file)]
    return broken(rows, np.where(first, offset != 0, ~follows))
