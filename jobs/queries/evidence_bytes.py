"""The bytes that support a finding: commands that show them, and the bytes from the capture. Needs no Spark.

Based on Kafka's DumpLogSegments: with a decoder it prints every record, with or without `--print-data-log`. A record is
a line `| offset: N`; a batch is a line `baseOffset: N` with its `position: P` in the file. Records of a snapshot are
numbered from 0.
"""

import shlex
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from evidence import kinds
from evidence.broker_logs.streams import lines_at
from evidence.capture.files import Capture, EvidenceFile, open_capture
from evidence.capture.remote import Location
from evidence.errors import DecodeError
from evidence.redaction import is_redacted, may_hold_secrets
from evidence.wire.batches import HEAD_BYTES, Batch, read_head
from evidence.wire.schema import read_varint
from jobs.config.settings import load_settings
from jobs.console.output import Row

SHOWN_BYTES = 64
SHOWN_CHARACTERS = 200
SHOWN_LOG_BYTES = 500
_LOGS = (kinds.METADATA_SEGMENT, kinds.METADATA_CHECKPOINT, kinds.BOOTSTRAP_CHECKPOINT)
# Tables whose rows have everything that is in their bytes: numbers and names, no secrets.
_OPEN_TABLES = ("log_end_offsets", "described_partitions", "quorum_reports")


def commands(row: Mapping[str, Any]) -> list[str]:
    """Shell commands, to run in the capture's folder, that show a piece of evidence. row: as in
    `finding.Explained.evidence`."""
    path, position, kind = row["path"], row["position"], row["file_kind"]
    if path is None or position is None:
        return []
    file = shell_word(path)
    if kind in _LOGS:
        return [*_dump_log(row, file), _od(file, position, SHOWN_BYTES)]
    if kind == kinds.REPLICA_SEGMENT:
        # Show the batch's line and header only: the records are the site's own data.
        return [f"kafka-dump-log.sh --files {file} | grep ' position: {position} '", _od(file, position, HEAD_BYTES)]
    if kind in (None, kinds.OTHER):
        return [_od(file, position, SHOWN_BYTES)]
    if kind in kinds.BROKER_LOGS and path.endswith((".gz", ".zst")):
        return [f"{'gzip' if path.endswith('.gz') else 'zstd'} -dc {file} | tail -c +{position + 1} | head -n 1"]
    return [f"tail -c +{position + 1} {file} | head -n 1"]


def _od(file: str, position: int, count: int) -> str:
    return f"od -A d -t x1 -j {position} -N {count} {file}"


def _dump_log(row: Mapping[str, Any], file: str) -> list[str]:
    """Commands that print a record or batch with kafka-dump-log, which rejects segments not named by their base offset
    and stops at damaged bytes."""
    record, path = row["record"], PurePosixPath(row["path"])
    if row["table"] == "quarantine":
        return []
    if row["file_kind"] == kinds.METADATA_SEGMENT and not kinds.is_segment(path):
        return [f"kraft-forensics inspect {file}" + (f" | grep '\"offset\":{record['offset']},'" if record else "")]
    command = f"kafka-dump-log.sh --cluster-metadata-decoder --print-data-log --files {file}"
    if row["table"] == "log_batches":
        return [f"{command} | grep '^baseOffset: {row['offset']} '"]
    return [f"{command} | grep '^| offset: {record['offset']} '" if record else command]


def shell_word(path: str) -> str:
    """Quote a path as one word of a shell command that is also safe to print on a terminal."""
    path = f"./{path}" if path.startswith("-") else path
    if path.isprintable():
        return shlex.quote(path)
    escaped = (c if c.isprintable() and c not in "'\\" else _escaped(c) for c in path)
    return f"$'{''.join(escaped)}'"


def _escaped(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def with_bytes(evidence: Sequence[Row], location: Location) -> list[Row]:
    """Add `bytes` to each piece of evidence: the bytes at its position in a capture (`_shown`). Each file is read once.

    Errors: CaptureError, as `open_capture`.
    """
    result = [dict(row) for row in evidence]
    with open_capture(location, load_settings().limits.of_captures()) as capture:
        rows_of: dict[str, list[Row]] = defaultdict(list)
        for row in result:
            file, note = _find(capture, row)
            row["bytes"] = _of_bytes(note)
            if file is not None:
                rows_of[file.path].append(row)
        for file in (file for file in capture.files if file.path in rows_of):
            own = rows_of[file.path]
            if file.kind in kinds.BROKER_LOGS:  # positions are those in the unpacked text
                with file.unchanged():
                    lines = lines_at(file.local, (row["position"] or 0 for row in own), SHOWN_LOG_BYTES)
                found = [_line(row, lines.get(row["position"]), SHOWN_LOG_BYTES) for row in own]
            else:
                data = file.read()
                found = [_shown(row, data) for row in own]
            for row, shown in zip(own, found, strict=True):
                row["bytes"] = shown | {"file": file.path, "sha256": file.sha256}
    return result


def _of_bytes(note: str | None = None, hexed: list[str] | None = None, text: str | None = None) -> Row:
    return {"file": None, "sha256": None, "note": note, "hex": hexed, "text": text}


def _find(capture: Capture, row: Row) -> tuple[EvidenceFile | None, str | None]:
    """(file, None) for the file with the evidence's SHA-256, at its path or else another; or (None, reason)."""
    if row["sha256"] is None:
        return None, "this evidence has no file"
    same = [f for f in capture.files if f.sha256 == row["sha256"]]
    at_path = next((f for f in capture.files if f.path == row["path"]), None)
    if same:
        return (at_path if at_path in same else same[0]), None
    if at_path is None:
        return None, f"{capture.name} has no such file; the evidence is from capture {row['capture']}"
    message = f"the file's SHA-256 is {at_path.sha256}: this is not the file that was ingested, so it is not shown"
    return None, message


def _shown(row: Row, data: bytes) -> Row:
    """The bytes of a piece of evidence. hex: lines of a dump; text: a line of the file; note: why neither is shown."""
    position, kind = row["position"], row["file_kind"]
    if position is None or position >= len(data):
        return _line(row, None)
    if kind in (*_LOGS, kinds.REPLICA_SEGMENT, kinds.OTHER, None):
        # The header of a batch has no user data.
        is_batch = kind == kinds.REPLICA_SEGMENT or isinstance(read_head(data, position), Batch)
        raw = data[position : position + HEAD_BYTES] if is_batch else _stretch(row, data)
        if not is_batch and _is_secret(row, raw):
            return _of_bytes("not shown: these bytes may contain a secret")
        return _of_bytes(hexed=hex_lines(raw[:SHOWN_BYTES], position))
    end = data.find(b"\n", position)
    return _line(row, data[position : len(data) if end < 0 else end].rstrip(b"\r"))


def _line(row: Row, line: bytes | None, most: int = SHOWN_CHARACTERS) -> Row:
    """A line of the file; None: there is none at the position."""
    if line is None:
        return _of_bytes("the file has no byte at that position")
    if _is_secret(row, line):
        return _of_bytes("not shown: this line may contain a secret")
    return _of_bytes(text=line.decode("utf-8", "backslashreplace")[:most])


def _stretch(row: Row, data: bytes) -> bytes:
    """The bytes of the record or of the quarantined stretch."""
    position = row["position"]
    if row["table"] == "quarantine" and row["row"]:
        return data[position : position + max(row["row"]["length_bytes"], 1)]
    try:
        length, begin = read_varint(data, position)
    except DecodeError:
        return data[position : position + SHOWN_BYTES]
    return data[position : begin + max(length, 0)]


def _is_secret(row: Row, raw: bytes) -> bool:
    if row["record"]:
        return is_redacted(row["record"]["payload"])
    is_known = row["table"] in _OPEN_TABLES and row["row"] is not None
    return not is_known and may_hold_secrets(raw)


def hex_lines(raw: bytes, position: int) -> list[str]:
    """A hex dump with 16 bytes per line: decimal position, bytes, ASCII."""
    lines = []
    for begin in range(0, len(raw), 16):
        row = raw[begin : begin + 16]
        text = "".join(chr(b) if 0x20 <= b < 0x7F else "." for b in row)
        lines.append(f"{position + begin:08d}  {row.hex(' '):<47}  |{text}|")
    return lines
