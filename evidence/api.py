"""The public names of evidence/ (docs/api.md). They stay from release to release; all other names may change."""

from pathlib import Path

import pyarrow as pa

from evidence.capture.files import Capture, EvidenceFile, open_capture
from evidence.errors import CaptureError, Damage, DecodeError, KraftForensicsError
from evidence.metadata_log.columns import DECODED, decode_arrow
from evidence.metadata_log.inspect import inspect_file
from evidence.metadata_log.record_text import with_text
from evidence.metadata_log.rows import bytes_of, work_of
from evidence.metadata_log.scan import scan_files

__all__ = [
    "DECODED",
    "Capture",
    "CaptureError",
    "Damage",
    "DecodeError",
    "EvidenceFile",
    "KraftForensicsError",
    "inspect_file",
    "open_capture",
    "read_metadata",
]


def read_metadata(location: Path) -> pa.Table:
    """Read every distinct record of a capture's metadata logs and snapshots, in no particular order.

    location: a folder, an archive or a single file. The rows are DECODED: the columns of docs/tables.md,
    snapshot_records, where `snapshot_end_offset` is null for records of the log; `holds` is log, snapshot or payloads
    (records whose offsets are unknown); `damage` is null for a record, else what could not be read. All rows are in
    memory at once. Errors: as `open_capture`.
    """
    with open_capture(location) as capture:
        work = work_of(scan_files(capture.files))
        rows = [with_text(batch) for one in work for batch in decode_arrow(bytes_of(one), one, capture.name)]
    return pa.Table.from_batches(rows, DECODED)
