"""`inspect`: the records of metadata files as JSON objects, without a JVM; damage as objects with `error`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evidence.batches import scan_batches
from evidence.errors import Damage, KraftForensicsError
from evidence.records import read_records


def inspect_file(path: Path, show_secrets: bool = False) -> Iterator[dict[str, Any]]:
    """One dict a record, in file order: offset, timestamp (ms), leaderEpoch, type, version, data (Kafka's own JSON
    field names and forms), file, position (bytes); damage in its place: file, position, offset, error, reason.

    Errors: KraftForensicsError when the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KraftForensicsError(f"{path}: cannot be read: {error.strerror}") from error
    scan = scan_batches(data)
    waiting = list(scan.damage)
    for batch in scan.batches:
        while waiting and waiting[0].position < batch.position:
            yield _damage(path, waiting.pop(0))
        for item in read_records(data, batch, show_secrets):
            if isinstance(item, Damage):
                yield _damage(path, item)
                continue
            yield {
                "offset": item.offset,
                "timestamp": item.timestamp_ms,
                "leaderEpoch": item.epoch,
                "type": item.type,
                "version": item.version,
                "data": item.data,
                "file": str(path),
                "position": item.position,
            }
    for damage in waiting:
        yield _damage(path, damage)


def _damage(path: Path, damage: Damage) -> dict[str, Any]:
    return {
        "file": str(path),
        "position": damage.position,
        "offset": damage.offset,
        "length": damage.length_bytes,
        "error": damage.describe(str(path)),
        "reason": damage.reason,
    }
