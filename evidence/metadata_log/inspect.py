"""`inspect`: the records of metadata files as JSON objects, without a JVM; damage as objects with `error`.

They are what evidence/metadata_log/columns.py decodes, in the order of the file.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evidence import kinds
from evidence.capture.files import EvidenceFile
from evidence.capture.sniff import HEAD_BYTES, sniff
from evidence.dump_log.scan import scan_dump
from evidence.errors import Damage, KraftForensicsError, spelled_out
from evidence.metadata_log.columns import decode_arrow, item_batches
from evidence.metadata_log.record_text import with_text
from evidence.metadata_log.rows import PAYLOADS, ByteRange, byte_ranges, to_json
from evidence.metadata_log.scan import batches_of
from evidence.tables import Row
from evidence.wire.batches import Batches, scan_batches

# Loading the compiled loops takes as long as printing some thousand records without them.
COMPILED_FROM_BYTES = 4 << 20
_SPLIT_BYTES = 4 << 20
# The fields of a line before `file` and `position`, and the columns of DECODED that they show.
_FIELDS = {
    '{"offset":': "offset",
    ',"timestamp":': "timestamp_ms",
    ',"leaderEpoch":': "epoch",
    ',"type":"': "type",
    '","version":': "version",
    ',"data":': "payload",
}


def inspect_file(path: Path, show_secrets: bool = False) -> Iterator[Row]:
    """One dict per record, in file order: offset, timestamp (ms), leaderEpoch, type, version, data (Kafka's JSON field
    names and forms), file, position (bytes). A damage, in its place: file, position, offset, error, reason.

    The file is a segment, a snapshot, or the text of kafka-dump-log; offset, timestamp and leaderEpoch are None for
    bare payload lines.
    Errors: KraftForensicsError when the file cannot be read.
    """
    for lines, _ in _chunks(path, show_secrets, COMPILED_FROM_BYTES):
        yield from map(json.loads, bytes(lines).splitlines())


def print_file(path: Path, out: BinaryIO, show_secrets: bool = False, compiled_from: int = COMPILED_FROM_BYTES) -> bool:
    """Write the rows of `inspect_file` as lines of JSON; returns whether the file has a record.

    Segments and snapshots of at least `compiled_from` bytes go through the compiled loops, and give the same lines.
    Errors: as `inspect_file`.
    """
    has_record = False
    for lines, with_record in _chunks(path, show_secrets, compiled_from):
        out.write(lines)
        has_record = has_record or with_record
    return has_record


def _chunks(path: Path, show_secrets: bool, compiled_from: int) -> Iterator[tuple[Any, bool]]:
    """(bytes of whole lines, whether a record is in them), in the order of the file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KraftForensicsError(f"{path}: cannot be read: {error.strerror}") from error
    damage, work = _work(path, data)
    from_bytes = 0 if len(data) >= compiled_from else len(data) + 1
    begins, printed = [found.position for found in damage], 0
    for one in (replace(each, show_secrets=show_secrets) for each in work):
        before = bisect_left(begins, one.end)
        beside = item_batches(damage[printed:before], data, one, "")
        decoded = chain(beside, decode_arrow(data, one, "", from_bytes))
        found = [(batch, *_lines(path, with_text(batch))) for batch in decoded]
        has_record = any(batch["position"].null_count < len(batch) for batch, *_ in found)
        texts, positions = [lines for _, lines, _ in found], [at for *_, at in found]
        at = np.concatenate([np.empty(0, dtype=np.int64), *positions])
        if (at[1:] < at[:-1]).any():
            texts = [pa.concat_arrays(texts).take(pa.array(np.argsort(at, kind="stable")))]
        for _, ends, text in (lines.buffers() for lines in texts):
            yield text[: np.frombuffer(ends, dtype=np.int32)[-1]], has_record
        printed = before


def _work(path: Path, data: bytes) -> tuple[list[Damage], list[ByteRange]]:
    """What is damaged beside the records of a file, and the ranges that have these; the last one is behind its end."""
    kind = sniff(data[:HEAD_BYTES]) or ""
    file = EvidenceFile(path, spelled_out(str(path)), kind, len(data), "", None, None)
    rest = ByteRange(path, file.path, "", "", len(data) + 1, len(data) + 1)
    if kind != kinds.DUMP_LOG:
        scan = scan_batches(data)
        return scan.damage, [*byte_ranges(batches_of(file, scan.batches), _SPLIT_BYTES), rest]
    dump = scan_dump(data)
    batches = Batches.of(batch for log in dump.logs for batch in log.batches)
    unplaced = [replace(rest, start=dump.unplaced[0], end=dump.unplaced[1], holds=PAYLOADS)] if dump.unplaced else []
    return dump.damage, [*byte_ranges(batches_of(file, batches), _SPLIT_BYTES), *unplaced, rest]


def _lines(path: Path, rows: pa.RecordBatch) -> tuple[pa.Array, Any]:
    """The line of each of the DECODED rows with text, and the position of what it shows."""
    end = f',"file":{_encoded(str(path))},"position":'
    parts: list[Any] = []
    for text, column in _FIELDS.items():
        parts += [text, pc.fill_null(rows[column].cast(pa.string()), "null")]
    lines = pc.binary_join_element_wise(*parts, end, rows["position"].cast(pa.string()), "}\n", "")
    damage = rows["damage"]
    if damage.null_count < len(damage):
        of_damage = [found and _encoded(_damage(path, found)) + "\n" for found in damage.to_pylist()]
        lines = pc.coalesce(lines, pa.array(of_damage, pa.string()))
    return lines, pc.coalesce(rows["position"], pc.struct_field(damage, "position")).to_numpy()


def _damage(path: Path, found: Row) -> Row:
    return {
        "file": str(path),
        "position": found["position"],
        "offset": found["offset"],
        "length": found["length_bytes"],
        "error": found["message"],
        "reason": found["reason"],
    }


def _encoded(value: Any) -> str:
    """JSON; half surrogates, as names that are not UTF-8 have them, as escapes."""
    return to_json(value).encode("utf-8", "backslashreplace").decode()
