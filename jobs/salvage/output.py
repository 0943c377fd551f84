"""Write salvaged records: Parquet, JSON lines and Kafka's own batches. Only this module and produce.py give payloads
out, into files of mode 0600."""

import base64
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from evidence.capture.files import sha256_of
from jobs.lake.tables import schema_of
from jobs.salvage.compare import Comparison

RECORDS, LINES, SUMMARY = "records.parquet", "records.jsonl", "salvage.json"
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = schema_of("salvaged_records").append(pa.field("headers", _HEADERS))
_AT_ONCE, _BYTES_AT_ONCE = 4096, 32 << 20


def private(path: Path) -> BinaryIO:
    """A new file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


@contextmanager
def writer(folder: Path) -> Iterator[Callable[[dict[str, Any]], None]]:
    """What writes a row of SCHEMA as Parquet and as a line of JSON. folder: of the partition, which is made."""
    folder.mkdir(mode=0o700)
    rows: list[dict[str, Any]] = []
    size = 0

    with (
        private(folder / LINES) as lines,
        private(folder / RECORDS) as file,
        pq.ParquetWriter(file, SCHEMA, compression="zstd") as parquet,
    ):

        def write(row: dict[str, Any]) -> None:
            nonlocal size
            lines.write(json.dumps(row, ensure_ascii=False, default=_text).encode() + b"\n")
            rows.append(row)
            size += len(row["key"] or b"") + len(row["value"] or b"")
            if len(rows) >= _AT_ONCE or size >= _BYTES_AT_ONCE:
                parquet.write_batch(pa.RecordBatch.from_pylist(rows, SCHEMA))
                rows.clear()
                size = 0

        yield write
        if rows:
            parquet.write_batch(pa.RecordBatch.from_pylist(rows, SCHEMA))


def write_segment(folder: Path, found: Comparison) -> None:
    """The batches as they are on the old leader's disk, without control batches. A batch that holds the first salvaged
    offset may begin before it. No file without a batch."""
    batches = (at for at in found.only_old() if not at[1].is_control)
    if (first := next(batches, None)) is None:
        return
    with private(folder / f"{min(first[1].base_offset, found.first_offset):020}.log") as stream:
        for data, batch in chain([first], batches):
            stream.write(data[batch.position : batch.end])


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """salvage.json, with size and SHA-256 of every other file; it has no key, value or header."""
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    with private(folder / SUMMARY) as stream:
        stream.write(json.dumps({**summary, "files": files}, indent=1).encode() + b"\n")


def _text(data: bytes) -> str | dict[str, str]:
    """Bytes for JSON: text if they are UTF-8, else {"base64": ...}."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
