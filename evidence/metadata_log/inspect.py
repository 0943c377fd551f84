"""`inspect`: the records of metadata files as JSON objects, without a JVM; damage as objects with `error`."""

import json
from collections.abc import Iterable, Iterator
from functools import partial
from heapq import merge
from pathlib import Path
from typing import Any, BinaryIO

from evidence import kinds
from evidence.capture.sniff import HEAD_BYTES, sniff
from evidence.dump_log.records import read_dumped, read_unplaced
from evidence.dump_log.scan import scan_dump
from evidence.errors import Damage, KraftForensicsError
from evidence.metadata_log.rows import to_json
from evidence.tables import Row
from evidence.wire.batches import Batch, Scan, scan_batches
from evidence.wire.records import Record, read_records

# Loading the compiled loops takes as long as printing some thousand records without them.
COMPILED_FROM_BYTES = 4 << 20


def inspect_file(path: Path, show_secrets: bool = False) -> Iterator[Row]:
    """One dict per record, in file order: offset, timestamp (ms), leaderEpoch, type, version, data (Kafka's JSON field
    names and forms), file, position (bytes). A damage, in its place: file, position, offset, error, reason.

    The file is a segment, a snapshot, or the text of kafka-dump-log; offset, timestamp and leaderEpoch are None for
    bare payload lines.
    Errors: KraftForensicsError when the file cannot be read.
    """
    return (_row(path, item) for item in _items(_bytes_of(path), show_secrets))


def print_file(path: Path, out: BinaryIO, show_secrets: bool = False, compiled_from: int = COMPILED_FROM_BYTES) -> bool:
    """Write the rows of `inspect_file` as lines of JSON; returns whether the file has a record.

    Segments and snapshots of at least `compiled_from` bytes go through the compiled loops, and give the same lines.
    Errors: as `inspect_file`.
    """
    data = _bytes_of(path)
    is_large = len(data) >= compiled_from and not _is_text(data)
    has_record = False
    for chunk, with_record in _compiled(path, data, show_secrets) if is_large else _plain(path, data, show_secrets):
        out.write(chunk)
        has_record = has_record or with_record
    return has_record


_Item = Record | Damage | tuple[int, str, int, Row]
# Bytes to print, and whether a record is in them.
_Chunk = tuple[Any, bool]


def _plain(path: Path, data: bytes, show_secrets: bool) -> Iterator[_Chunk]:
    for item in _items(data, show_secrets):
        yield _line(path, item), not isinstance(item, Damage)


def _compiled(path: Path, data: bytes, show_secrets: bool) -> Iterator[_Chunk]:
    from evidence.metadata_log.compiled_reader import CompiledReader
    from evidence.metadata_log.lines import range_lines

    end = f',"file":{json.dumps(str(path), ensure_ascii=False)},"position":'
    for item in _ranges(scan_batches(data)):
        if isinstance(item, Damage):
            yield _line(path, item), False
        else:
            reader = CompiledReader(data, *item, str(path))
            yield from range_lines(reader, _encoded(end), partial(_line, path), show_secrets)


def _ranges(scan: Scan) -> Iterator[tuple[int, int] | Damage]:
    """Each damage, and each range [start, end) of adjacent batches, in the order of the file."""
    start = end = 0
    for item in _in_order(scan.batches, scan.damage):
        if isinstance(item, Batch) and item.position == end:
            end = item.end
            continue
        if end > start:
            yield start, end
        start = end = item.position
        if isinstance(item, Batch):
            end = item.end
        else:
            yield item
    if end > start:
        yield start, end


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KraftForensicsError(f"{path}: cannot be read: {error.strerror}") from error


def _is_text(data: bytes) -> bool:
    return sniff(data[:HEAD_BYTES]) == kinds.DUMP_LOG


def _items(data: bytes, show_secrets: bool) -> Iterator[_Item]:
    dump = scan_dump(data) if _is_text(data) else None
    scan = dump or scan_batches(data)
    batches = scan.batches if isinstance(scan, Scan) else (batch for log in scan.logs for batch in log.batches)
    for item in _in_order(batches, scan.damage):
        if isinstance(item, Damage):
            yield item
        else:
            yield from (read_dumped if dump else read_records)(data, item, show_secrets)
    if dump and dump.unplaced:
        yield from read_unplaced(data, *dump.unplaced, show_secrets)


def _in_order(batches: Iterable[Batch], damage: list[Damage]) -> Iterator[Batch | Damage]:
    """The items of a file, each kind of which is in the order of the file."""
    return merge(batches, damage, key=lambda item: item.position)


def _line(path: Path, item: _Item) -> bytes:
    return _encoded(to_json(_row(path, item)) + "\n")


def _encoded(text: str) -> bytes:
    """UTF-8; half surrogates, as names that are not UTF-8 have them, as JSON escapes."""
    return text.encode("utf-8", "backslashreplace")


def _row(path: Path, item: _Item) -> Row:
    if isinstance(item, Damage):
        return _damage(path, item)
    if isinstance(item, Record):
        place: Row = {"offset": item.offset, "timestamp": item.timestamp_ms, "leaderEpoch": item.epoch}
        position, name, version, data = item.position, item.type, item.version, item.data
    else:
        place = dict.fromkeys(("offset", "timestamp", "leaderEpoch"))
        position, name, version, data = item
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
