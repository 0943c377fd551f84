"""Checks of what nodes' own files say: lines of logs, processes, machines, clocks, configs and manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from quality.check import Check, Kind, Limits, Scope, Violations, broken
from quality.columns import NULL, Rows, Tables, numbers, places, unknown

_QUARTER_MS, _DAY_MS = 15 * 60_000, 24 * 3_600_000
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_PLACE = ("path", "position")
_AGAIN = "Ingest the capture into a new lake. If it happens again, report it with the capture."
_FILE = ("capture", "path", "sha256")
_TIMES = ("captured_at_ms", "last_timestamp_ms")
# Columns of captures, and what gives them.
_OF_FILES = {
    "files": ([], "count_all"),
    "size_bytes": ("size_bytes", "sum"),
    "first_captured_ms": ("captured_at_ms", "min"),
    "last_captured_ms": ("captured_at_ms", "max"),
    "last_timestamp_ms": ("last_timestamp_ms", "max"),
}


def checks() -> Iterator[Check]:
    yield Check(
        "broker_log_events",
        "zone_possible",
        Kind.CONSISTENCY,
        "logged_at_ms and logged_at_utc_ms differ by whole quarters of an hour, and by less than a day.",
        "The zone of the node is wrong: name it in the capture's manifest, and ingest into a new lake.",
        _zone,
        {"broker_log_events": (*_PLACE, "node_id", "logged_at_ms", "logged_at_utc_ms")},
        ("node_id", *_PLACE),
        Scope.ROWS,
    )
    yield Check(
        "node_boots",
        "apart",
        Kind.CONSISTENCY,
        "The processes in one file follow one another: each begins after the last event of the one before.",
        _AGAIN,
        _boots_apart,
        {"node_boots": (*_FILE, "position", "node_id", "first_position", "last_position")},
        ("node_id", "path", "first_position"),
    )
    yield Check(
        "boot_ids",
        "is_uuid",
        Kind.VALIDITY,
        "A boot id is a UUID, as Linux writes it.",
        "The file is not /proc/sys/kernel/random/boot_id: capture it again.",
        _boot_id,
        {"boot_ids": (*_PLACE, "node_id", "boot_id")},
        ("node_id", *_PLACE),
        Scope.ROWS,
    )
    yield Check(
        "node_clocks",
        "bounds_agree",
        Kind.CONSISTENCY,
        "The bounds of a clock's error are those of its offset less the zone.",
        "Run detect again on a lake of this release.",
        _clock,
        {
            "node_clocks": (
                *("node_id", "from_ms", "zone_ms", "offset_lower_ms", "offset_upper_ms"),
                *("error_lower_ms", "error_upper_ms"),
            )
        },
        ("node_id", "from_ms"),
        Scope.ROWS,
    )
    for table, column in (("static_configs", "node_id"), ("boot_ids", "node_id")):
        yield Check(
            table,
            "node_of_file",
            Kind.CONSISTENCY,
            "The node is the one that evidence_files names for the file.",
            _AGAIN,
            lambda tables, _, table=table, column=column: _node(tables[table], tables["evidence_files"], column),
            {table: (*_FILE, "position", column), "evidence_files": (*_FILE, "node_id")},
            (column, *_PLACE),
        )
    yield Check(
        "captures",
        "is_manifest",
        Kind.VALIDITY,
        "A row that names a file names a manifest of that capture.",
        _AGAIN,
        _manifest,
        {"captures": _FILE, "evidence_files": (*_FILE, "kind")},
        _FILE[:2],
    )
    yield Check(
        "captures",
        "files_counted",
        Kind.RECONCILIATION,
        "The number of files, their length and the times of a capture are those that evidence_files gives.",
        _AGAIN,
        _counted,
        {"captures": ("capture", *_OF_FILES), "evidence_files": (*_FILE, "size_bytes", *_TIMES)},
        ("capture",),
    )
    yield Check(
        "evidence_files",
        "capture_listed",
        Kind.COMPLETENESS,
        "The capture of a file has its row in captures.",
        "Ingest the captures of the cluster into a new lake.",
        lambda tables, _: broken(
            tables["evidence_files"],
            unknown(tables["evidence_files"], _FILE[:1], (tables["captures"], _FILE[:1])),
        ),
        {"evidence_files": _FILE, "captures": _FILE[:1]},
        _FILE[:2],
    )


def _zone(tables: Tables, _: Limits) -> Violations:
    rows = tables["broker_log_events"]
    local, utc = rows.ints("logged_at_ms"), rows.ints("logged_at_utc_ms")
    both = (local != NULL) & (utc != NULL)
    zone = np.where(both, local - np.where(both, utc, local), 0)
    return broken(rows, (zone % _QUARTER_MS != 0) | (np.abs(zone) >= _DAY_MS))


def _boots_apart(tables: Tables, _: Limits) -> Violations:
    rows = tables["node_boots"]
    (file,) = numbers(rows.columns(*_FILE))
    first = rows.ints("first_position")
    rows, file = rows.sorted_by(file, first), np.sort(file, kind="stable")
    first, last = rows.ints("first_position"), rows.ints("last_position")
    overlaps = np.append(False, (file[1:] == file[:-1]) & (first[1:] <= last[:-1]))[: len(rows)]
    return broken(rows, overlaps)


def _boot_id(tables: Tables, _: Limits) -> Violations:
    rows = tables["boot_ids"]
    values = rows.table["boot_id"].to_pylist()
    return broken(rows, np.array([v is not None and not _UUID.fullmatch(v) for v in values], dtype=bool))


def _clock(tables: Tables, _: Limits) -> Violations:
    rows = tables["node_clocks"]
    zone, wrong = rows.ints("zone_ms"), np.zeros(len(rows), dtype=bool)
    for side in ("lower", "upper"):
        offset, error = rows.ints(f"offset_{side}_ms"), rows.ints(f"error_{side}_ms")
        known = (offset != NULL) & (error != NULL) & (zone != NULL)
        wrong |= known & (error != np.where(known, offset, 0) - np.where(known, zone, 0))
    return broken(rows, wrong)


def _node(rows: Rows, files: Rows, column: str) -> Violations:
    at, node = places(rows, _FILE, files), files.ints("node_id")
    of_file = node[at] if len(node) else np.full(len(rows), NULL)
    return broken(rows, (at >= 0) & (of_file != NULL) & (of_file != rows.ints(column)))


def _manifest(tables: Tables, _: Limits) -> Violations:
    rows, files = tables["captures"], tables["evidence_files"]
    at, is_manifest = places(rows, _FILE, files), files.in_set("kind", ("manifest",))
    return broken(rows, rows.valid("path") & (at >= 0) & ~(is_manifest[at] if len(files) else False))


def _counted(tables: Tables, _: Limits) -> Violations:
    rows, files = tables["captures"], tables["evidence_files"].table
    given = {name: files[name] for name in ("size_bytes", *_TIMES)}
    own, of_file = numbers(rows.columns("capture"), [files["capture"]])
    found = Rows(pa.table({"capture": of_file, **given}).group_by("capture").aggregate(list(_OF_FILES.values())))
    at = places(Rows(pa.table({"capture": own})), ("capture",), found)
    wrong = at < 0
    for name, (column, sum_of) in _OF_FILES.items():
        values = found.ints(f"{column}_{sum_of}" if column else sum_of)
        wrong |= np.append(values, NULL)[at] != rows.ints(name)
    return broken(rows, wrong)
