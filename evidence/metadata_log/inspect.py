"""`inspect`: the records of metadata files as JSON objects, without a JVM; damage as objects with `error`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence import kinds
from evidence.capture.sniff import HEAD_BYTES, sniff
from evidence.dump_log.records import read_dumped, read_unplaced
from evidence.dump_log.scan import scan_dump
from evidence.errors import Damage, KraftForensicsError
from evidence.wire.batches import Batch, scan_batches
from evidence.wire.records import Record, read_records

Row = dict[str, Any]


def inspect_file(path: Path, show_secrets: bool = False) -> Iterator[Row]:
    """One dict per record, in file order: offset, timestamp (ms), leaderEpoch, type, version, data (Kafka's JSON field
    names and forms), file, position (bytes). A damage, in its place: file, position, offset, error, reason.

    The file is a segment, a snapshot, or the text of kafka-dump-log; offset, timestamp and leaderEpoch are None for
    bare payload lines.
    Errors: KraftForensicsError when the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KraftForensicsError(f"{path}: cannot be read: {error.strerror}") from error
    is_text = sniff(data[:HEAD_BYTES]) == kinds.DUMP_LOG
    for item in _of_text(data, show_secrets) if is_text else _of_bytes(data, show_secrets):
        if isinstance(item, Damage):
            yield _damage(path, item)
        elif isinstance(item, Record):
            place = (item.offset, item.timestamp_ms, item.epoch)
            yield _row(path, *place, item.type, item.version, item.data, item.position)
        else:
            position, name, version, found = item
            yield _row(path, None, None, None, name, version, found, position)


_Item = Record | Damage | tuple[int, str, int, Row]


def _of_bytes(data: bytes, show_secrets: bool) -> Iterator[_Item]:
    scan = scan_batches(data)
    for item in _in_order(scan.batches, scan.damage):
        if isinstance(item, Damage):
            yield item
        else:
            yield from read_records(data, item, show_secrets)


def _of_text(data: bytes, show_secrets: bool) -> Iterator[_Item]:
    scan = scan_dump(data)
    for item in _in_order([b for log in scan.logs for b in log.batches], scan.damage):
        if isinstance(item, Damage):
            yield item
        else:
            yield from read_dumped(data, item, show_secrets)
    if scan.unplaced:
        yield from read_unplaced(data, *scan.unplaced, show_secrets)


def _in_order(batches: list[Batch], damage: list[Damage]) -> list[Batch | Damage]:
    items: list[Batch | Damage] = [*batches, *damage]
    return sorted(items, key=lambda item: item.position)


def _row(
    path: Path,
    offset: int | None,
    timestamp: int | None,
    epoch: int | None,
    name: str,
    version: int,
    data: Row,
    position: int,
) -> Row:
    place = {"offset": offset, "timestamp": timestamp, "leaderEpoch": epoch}
    return {**place, "type": name, "version": version, "data": data, "file": str(path), "position": position}


def _damage(path: Path, damage: Damage) -> Row:
    return {
        "file": str(path),
        "position": damage.position,
        "offset": damage.offset,
        "length": damage.length_bytes,
        "error": damage.describe(str(path)),
        "reason": damage.reason,
    }
