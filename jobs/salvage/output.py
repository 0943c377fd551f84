"""Write salvaged records: Parquet, JSON lines and Kafka's own batches. Only this module and produce.py give payloads
out, into files of mode 0600."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from evidence.capture.files import sha256_of
from evidence.wire.data_batches import DataBatch, SegmentBytes
from jobs.salvage.compare import Comparison, first_offset, only_old
from jobs.salvage.live import SalvageError

RECORDS, LINES, SUMMARY = "records.parquet", "records.jsonl", "salvage.json"
_FACTS = (
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp_ms", pa.int64()),
    ("leader_epoch", pa.int32()),
    ("producer_id", pa.int64()),
    ("producer_epoch", pa.int16()),
    ("sequence", pa.int32()),
    ("transaction", pa.string()),
    ("high_watermark", pa.string()),
    ("newer_offset", pa.int64()),
    ("sent_again_offset", pa.int64()),
)
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA = pa.schema([*_FACTS, ("key", pa.binary()), ("value", pa.binary()), ("headers", pa.list_(_HEADER))])
_AT_ONCE, _BYTES_AT_ONCE = 4096, 32 << 20


def make_folder(path: Path) -> None:
    """Errors: SalvageError if it exists or cannot be made."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError as error:
        raise SalvageError(f"{path}: exists already. Salvaged records are never changed: name a new folder.") from error
    except OSError as error:
        raise SalvageError(f"{path}: cannot be made: {error.strerror}") from error


def private(path: Path) -> BinaryIO:
    """A new file that only its owner can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


class Writer:
    """Of one partition: Parquet and JSON lines."""

    def __init__(self, parquet: pq.ParquetWriter, lines: BinaryIO) -> None:
        self._parquet, self._lines = parquet, lines
        self._rows: list[dict[str, Any]] = []
        self._bytes = 0

    def add(self, row: dict[str, Any]) -> None:
        """row: of SCHEMA."""
        self._lines.write(json.dumps(_as_text(row), ensure_ascii=False).encode() + b"\n")
        self._rows.append(row)
        self._bytes += len(row["key"] or b"") + len(row["value"] or b"")
        if len(self._rows) >= _AT_ONCE or self._bytes >= _BYTES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._parquet.write_batch(pa.RecordBatch.from_pylist(self._rows, SCHEMA))
        self._rows, self._bytes = [], 0


@contextmanager
def writer(folder: Path) -> Iterator[Writer]:
    """folder: of the partition, which is made."""
    folder.mkdir(mode=0o700)
    with ExitStack() as stack:
        lines = stack.enter_context(private(folder / LINES))
        parquet = stack.enter_context(private(folder / RECORDS))
        opened = Writer(stack.enter_context(pq.ParquetWriter(parquet, SCHEMA, compression="zstd")), lines)
        yield opened
        opened.flush()


def write_segment(folder: Path, found: Comparison) -> None:
    """The batches as they are on the old leader's disk, without control batches. A batch that holds the first salvaged
    offset may begin before it. No file without a batch."""
    batches = (at for at in only_old(found) if not at[1].is_control)
    if (first := next(batches, None)) is None:
        return
    with private(folder / f"{min(first[1].base_offset, first_offset(found)):020}.log") as stream:
        stream.write(_bytes_of(*first))
        for data, batch in batches:
            stream.write(_bytes_of(data, batch))


def _bytes_of(data: SegmentBytes, batch: DataBatch) -> bytes:
    return data[batch.position : batch.end]


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """salvage.json, with size and SHA-256 of every other file; it has no key, value or header."""
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    with private(folder / SUMMARY) as stream:
        stream.write(json.dumps({**summary, "files": files}, indent=1).encode() + b"\n")


def _as_text(row: dict[str, Any]) -> dict[str, Any]:
    """The row for JSON: bytes as text if they are UTF-8, else {"base64": ...}."""
    headers = [{"key": header["key"], "value": _text(header["value"])} for header in row["headers"]]
    return {**row, "key": _text(row["key"]), "value": _text(row["value"]), "headers": headers}


def _text(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
