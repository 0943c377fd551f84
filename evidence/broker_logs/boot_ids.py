"""Copies of /proc/sys/kernel/random/boot_id, and what the manifest says of nodes' machines -> tables.BOOT_IDS.

Linux makes a new boot id whenever the machine starts. When it started is the time at which its uptime was read, less
the uptime: unlike `btime` in /proc/stat, which is wall-clock time and moves when the clock is set, the uptime (Linux:
fs/proc/uptime.c, CLOCK_BOOTTIME) needs no clock of the node. It may only run too fast or too slow.

An entry of systemd's journal says the same of the run that wrote it, up to that entry: its boot id, CLOCK_REALTIME, and
CLOCK_MONOTONIC, which stands still while the machine sleeps: the run seems to begin later (systemd.journal-fields(7)).
So lost entries and runs only make less known. Entries of other disks than the log directories' may be of a machine that
got these disks later.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from evidence import kinds, tables
from evidence.capture.accounts import UNKNOWN_NODE, Account, provenance, read_when
from evidence.capture.files import Capture, EvidenceFile
from evidence.capture.manifest import CapturedNode
from evidence.errors import Damage

_BOOT_ID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\n?")
_MOST_BYTES = 37
# How far Linux may slew a clock, 500 ppm (include/linux/timex.h, MAXFREQ): in ms for each second of uptime.
_SLEWED_MS_PER_S = 0.5
# A machine that has run so long has set its clock: before that, it may show when the machine ran last
# (systemd-timesyncd(8)). That clock, which a later start may have corrected, is taken to be off by less than a minute.
_CLOCK_IS_SET_S, _CLOCK_ERROR_MS = 600, 60_000


@dataclass(frozen=True, slots=True)
class BootIds:
    """rows: tables.BOOT_IDS. accounts: of every file read."""

    rows: pa.Table
    accounts: dict[str, Account]


def read_boot_ids(capture: Capture, uncertainty_ms: int) -> BootIds:
    """Read every boot_id file, and the manifest's nodes. uncertainty_ms: how long one round of capturing may have taken
    if neither the manifest nor an archive gives it; the clock's error widens the time on both sides."""
    rows = []
    accounts = {}
    nodes = capture.manifest.nodes if capture.manifest else ()
    # By the path of the boot id that was read with the rest; a made-up one for a node without a folder.
    paths = (f"/{n}" if node.path is None else str(PurePosixPath(node.path, "boot_id")) for n, node in enumerate(nodes))
    machines = dict(zip(paths, nodes, strict=True))
    for file in capture.files:
        if file.kind != kinds.BOOT_ID:
            continue
        text = file.read() if file.size_bytes <= _MOST_BYTES else b""
        damage = _damage(file, text)
        size = file.size_bytes
        accounts[file.path] = Account(0 if damage else size, size if damage else 0, 0, None, damage)
        if not damage:
            row = {"node_id": file.node_id, "boot_id": text.decode().strip(), **provenance(capture.name, file, 0)}
            row |= read_when(file.captured_at_ms, file.read_within_ms(uncertainty_ms), file.clock_error_ms)
            if (node := machines.pop(file.path, None)) is not None:
                row |= _machine(node, *_round(capture, node, file.captured_at_ms, uncertainty_ms))
            rows.append(row)
    rows += [_without_id(capture, node, uncertainty_ms) for node in machines.values() if node.uptime_s is not None]
    rows += [row for node in nodes for row in _before(capture, node)]
    return BootIds(pa.Table.from_pylist(rows, schema=tables.BOOT_IDS), accounts)


def _round(
    capture: Capture, node: CapturedNode, captured_at_ms: int | None, assumed_ms: int
) -> tuple[int | None, int, int]:
    """(when reading the node began, how long it took at most until its uptime was read, the clock's error); ms."""
    facts = (node, capture.manifest or node)
    began = captured_at_ms
    took = next((f.snapshot_duration_ms for f in facts if f.snapshot_duration_ms is not None), assumed_ms)
    if began is not None and node.uptime_read_by is not None and node.uptime_read_by >= began:
        took = node.uptime_read_by - began
    return began, took, next((f.clock_error_ms for f in facts if f.clock_error_ms is not None), 0)


def _machine(node: CapturedNode, began_ms: int | None, took_ms: int, error_ms: int) -> dict[str, Any]:
    """What is known of the machine. Both bounds of its start hold for a clock that was slewed all the time; the lower
    one not for a virtual machine that was paused: its uptime stood still."""
    row: dict[str, Any] = {"machine_id": node.machine_id, "node_name": node.node_name, "local_disks": node.local_disks}
    if began_ms is not None and node.uptime_s is not None:
        least_s, most_s = node.uptime_s, node.uptime_s + 1
        row["booted_by_ms"] = began_ms + took_ms + error_ms - int(least_s * (1000 - _SLEWED_MS_PER_S))
        row["booted_after_ms"] = began_ms - error_ms - int(most_s * (1000 + _SLEWED_MS_PER_S)) - 1
    return row


def _without_id(capture: Capture, node: CapturedNode, assumed_ms: int) -> dict[str, Any]:
    """The row of a machine of which only the manifest tells."""
    in_path = None if node.path is None else kinds.captured_at(PurePosixPath(node.path, "boot_id"))
    given = (in_path, node.captured_at, capture.manifest.captured_at if capture.manifest else None)
    times = _round(capture, node, next((at for at in given if at is not None), None), assumed_ms)
    return _by_manifest(capture, node, times)


def _before(capture: Capture, node: CapturedNode) -> Iterator[dict[str, Any]]:
    """A row for each run of the machine that its journal knows, if all log directories lie on the journal's disks."""
    if node.local_disks and all(disk.is_system_disk for disk in node.disks):
        *_, error_ms = _round(capture, node, None, 0)
        for boot in node.boots:
            read = node.by_capturer(boot.at)
            if read is not None and boot.uptime_s >= _CLOCK_IS_SET_S:
                run = node.model_copy(update={"uptime_s": boot.uptime_s})
                yield _by_manifest(capture, run, (*read, error_ms + _CLOCK_ERROR_MS)) | {"boot_id": boot.boot_id}


def _by_manifest(capture: Capture, node: CapturedNode, times: tuple[int | None, int, int]) -> dict[str, Any]:
    file = capture.manifest_file
    place = {} if file is None else provenance(capture.name, file, 0)
    return {"node_id": node.id, **place, **read_when(*times), **_machine(node, *times)}


def _damage(file: EvidenceFile, text: bytes) -> list[Damage]:
    if _BOOT_ID.fullmatch(text) is None:
        return [Damage(0, file.size_bytes, None, "bad_boot_id", "not a boot id: Linux writes a UUID and a line end")]
    if file.node_id is None:
        return [Damage(0, len(text), None, "unknown_node", UNKNOWN_NODE)]
    return []
