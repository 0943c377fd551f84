"""Copies of /proc/sys/kernel/random/boot_id -> tables.BOOT_IDS. Linux makes a new id whenever the machine starts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from evidence import kinds, tables
from evidence.capture.accounts import Account, provenance
from evidence.capture.files import EvidenceFile
from evidence.errors import Damage

_BOOT_ID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\n?")
_MOST_BYTES = 37


@dataclass(frozen=True, slots=True)
class BootIds:
    """rows: tables.BOOT_IDS. accounts: of every file read."""

    rows: pa.Table
    accounts: dict[str, Account]


def read_boot_ids(capture: str, files: Iterable[EvidenceFile], uncertainty_ms: int) -> BootIds:
    """Read every boot_id file. uncertainty_ms: how long one round of capturing may have taken if neither the manifest
    nor an archive gives it; the clock's error widens the time on both sides."""
    rows = []
    accounts = {}
    for file in files:
        if file.kind != kinds.BOOT_ID:
            continue
        text = file.read() if file.size_bytes <= _MOST_BYTES else b""
        damage = _damage(file, text)
        size = file.size_bytes
        accounts[file.path] = Account(0 if damage else size, size if damage else 0, 0, None, damage)
        within_ms, error_ms = file.read_within_ms(uncertainty_ms), file.clock_error_ms
        at_ms = file.captured_at_ms
        if not damage:
            row = {"node_id": file.node_id, "boot_id": text.decode().strip(), **provenance(capture, file, 0)}
            if at_ms is not None and within_ms is not None:
                row |= {"captured_at_ms": at_ms - error_ms, "uncertainty_ms": within_ms + 2 * error_ms}
            rows.append(row)
    return BootIds(pa.Table.from_pylist(rows, schema=tables.BOOT_IDS), accounts)


def _damage(file: EvidenceFile, text: bytes) -> list[Damage]:
    if _BOOT_ID.fullmatch(text) is None:
        return [Damage(0, file.size_bytes, None, "bad_boot_id", "not a boot id: Linux writes a UUID and a line end")]
    if file.node_id is None:
        message = "unknown node: put its meta.properties next to the file, or name the folder broker-<id>"
        return [Damage(0, len(text), None, "unknown_node", message)]
    return []
