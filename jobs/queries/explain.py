"""`explain`: load a finding, its counterfactuals and the rows and commands for each piece of its evidence; print that.
Also the bytes that support it: commands that show them, and, of a capture, the bytes. Needs no Spark.

On a terminal facts, bounds, assumptions, meanings and predictions have separate headings
(jobs/report/templates/explain.txt.j2).

Based on Kafka's DumpLogSegments: with a decoder it prints every record, with or without `--print-data-log`. A record is
a line `| offset: N`; a batch is a line `baseOffset: N` with its `position: P` in the file. Records of a snapshot are
numbered from 0.
"""

import json
import shlex
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from pathlib import PurePosixPath
from typing import Any

import pyarrow.compute as pc

from evidence import kinds
from evidence.broker_logs.events import KINDS as LOG_EVENTS
from evidence.broker_logs.streams import lines_at
from evidence.capture.files import Capture, EvidenceFile, open_capture
from evidence.capture.remote import Location
from evidence.errors import DecodeError
from evidence.metadata_log.record_text import with_text
from evidence.redaction import is_redacted, may_hold_secrets
from evidence.wire.batches import HEAD_BYTES, Batch, read_head
from evidence.wire.schema import read_varint
from jobs.config.settings import load_settings
from jobs.console.options import DocumentFormat
from jobs.console.output import Format, print_rows, utc
from jobs.incident.document import load_causes
from jobs.incident.lookup import among, load_deleted
from jobs.lake.lake import Lake, Row
from jobs.lake.tables import TABLES
from jobs.queries.listing import find_finding
from jobs.report.rendering import for_terminal, rendered
from jobs.report.rows import same_answers
from replay.arrow.runs import groups

SHOWN_BYTES = 64
SHOWN_CHARACTERS = 200
SHOWN_LOG_BYTES = 500
_LOGS = (kinds.METADATA_SEGMENT, kinds.METADATA_CHECKPOINT, kinds.BOOTSTRAP_CHECKPOINT)
# Tables whose rows have everything that is in their bytes: numbers and names, no secrets.
_OPEN_TABLES = ("log_end_offsets", "described_partitions", "quorum_reports")


def commands(row: Mapping[str, Any]) -> list[str]:
    """Shell commands, to run in the capture's folder, that show a piece of evidence. row: as in
    `explain`."""
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
    with open_capture(location, load_settings().limits) as capture:
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


# The source of a piece of evidence is a table, a kind of file, or a kind of line in a node's log. These are the tables
# for kinds of files.
_TABLE_OF_KIND = {
    kinds.TOPICS_DESCRIBE: "described_partitions",
    kinds.DESCRIBE_TOPIC_PARTITIONS: "described_partitions",
    kinds.QUORUM_STATE: "quorum_reports",
    kinds.QUORUM_STATUS: "quorum_reports",
}
# The tables with the records of a file, by kind of file.
_RECORDS = {
    kinds.METADATA_SEGMENT: ("metadata_records",),
    kinds.METADATA_CHECKPOINT: ("snapshot_records",),
    kinds.BOOTSTRAP_CHECKPOINT: ("snapshot_records",),
    kinds.DUMP_LOG: ("metadata_records", "snapshot_records"),
}
_NO_RECORD = ("log_batches", "quarantine")
_RECORD = ("offset", "epoch", "timestamp_ms", "type", "version", "payload", "batch_base_offset")
# Columns that must be equal in a piece of evidence and its row, if both have a value.
_PLACE = ("sha256", "path", "position")
_SAME = (*_PLACE, "offset", "broker_id", "topic_id", "topic", "partition")
_NOT_SHOWN = ("cluster_id", "raw", "partition_change")


def explain(lake: Lake, wanted: str, cluster: str | None = None, capture: Location | None = None) -> Row:
    """The finding with that id, or the only one whose id starts with it: a row of findings, and what is about it.

    causes: the chain of causes (replay/incident/causes.py); empty unless a loss is proven. deleted: the topic's row of
    `load_deleted`; None if it was not deleted in the captured log. counterfactuals: about its election. evidence: for
    each piece, a schemas.EVIDENCE_ROW plus `table`, `row` (of that table; None if it is missing), `file_kind`, `record`
    (of the metadata log; None for other bytes), `commands` (to show the bytes), and `bytes` if a capture is given.
    commands: of all pieces.

    cluster: search only this one. capture: where to read the bytes of the evidence.

    Errors: KraftForensicsError if no finding, or more than one, matches; CaptureError.
    """
    finding = find_finding(lake, wanted, cluster)
    cluster = finding["cluster_id"]
    rows = [dict(r) for r in finding.pop("evidence") or []]
    about = pc.field("finding_id") == finding["finding_id"]
    if finding["policy"] is not None and finding["election_offset"] is not None:  # a prediction: all of its election
        place = {"topic_id": "topic_id", "partition": "partition", "offset": "election_offset"}
        about |= reduce(and_, (pc.field(column) == finding[name] for column, name in place.items()))
    policies = lake.read("counterfactuals", cluster, where=about).sort_by("policy")
    evidence = _looked_up(lake, cluster, finding, rows)
    causes = load_causes(lake, cluster, [finding]).get(finding["finding_id"], [])
    gone = next((row for row in load_deleted(lake, cluster) if row["topic_id"] == finding["topic_id"]), None)
    return finding | {
        "causes": causes,
        "deleted": gone,
        "counterfactuals": policies.drop_columns("cluster_id").to_pylist(),
        "evidence": with_bytes(evidence, capture) if capture else evidence,
        "commands": list(dict.fromkeys(command for row in evidence for command in row["commands"])),
    }


def _looked_up(lake: Lake, cluster: str, finding: Row, evidence: list[Row]) -> list[Row]:
    """Add to each piece of evidence its row, its record and the commands that show its bytes."""
    files = _rows(lake, "evidence_files", cluster, _in(evidence, ("sha256", "path")))
    kind_of = {(f["sha256"], f["path"]): f["kind"] for f in files}
    result: list[Row] = []
    for row in evidence:
        kind = kind_of.get((row["sha256"], row["path"]))
        result.append({**row, "table": _table(row["source"]), "row": None, "file_kind": kind, "record": None})
    for name in sorted({r["table"] for r in result}):
        of_table = [r for r in result if r["table"] == name]
        rows = _rows(lake, name, cluster, _in(of_table, _PLACE))
        for row in of_table:
            row["row"] = _matching_row(rows, {**finding, **row})
    records = [r for r in result if r["table"] not in _NO_RECORD]
    for name in ("metadata_records", "snapshot_records"):
        of_table = [r for r in records if r["record"] is None and name in _RECORDS.get(r["file_kind"], ())]
        rows = _rows(lake, name, cluster, _in(of_table, _PLACE)) if of_table else []
        for row in of_table:
            row["record"] = _record(rows, row, name)
    for row in result:
        row["commands"] = commands(row)
    return result


def _table(source: str) -> str:
    if source in LOG_EVENTS:
        return "broker_log_events"
    return source if source in TABLES else _TABLE_OF_KIND.get(source, "log_end_offsets")


def _rows(lake: Lake, name: str, cluster: str, where: pc.Expression) -> list[Row]:
    names = TABLES[name].schema.names
    shown = [column for column in names if column not in _NOT_SHOWN]
    if "payload" not in names:
        return lake.rows(name, cluster, shown, where)
    found = lake.read(name, cluster, [*shown, "partition_change"], where)
    return [row for batch in found.to_batches() for row in with_text(batch).select(shown).to_pylist()]


def _in(rows: Sequence[Row], names: Sequence[str]) -> pc.Expression:
    """Condition for rows whose values each occur in `rows`; it selects a few more than the matching ones."""
    return reduce(and_, (among(name, (row[name] for row in rows)) for name in names))


def _matching_row(rows: Sequence[Row], evidence: Row) -> Row | None:
    def same(row: Row) -> bool:
        # A state may break several invariants: the finding's rule names the one it is about.
        pairs = [(row.get(name), evidence.get(name)) for name in _SAME]
        pairs.append((row.get("invariant"), evidence["rule"]))
        return all(a == b for a, b in pairs if a is not None and b is not None)

    return next((row for row in rows if same(row)), None)


def _record(rows: Sequence[Row], evidence: Row, table: str) -> Row | None:
    """The record at the position of the evidence; None if that is ambiguous. Records of a compressed batch share a
    position: the offset selects one. The offset is not compared for snapshots, whose records have their own numbers."""
    found = [r for r in rows if all(r[name] == evidence[name] for name in _PLACE)]
    if table == "metadata_records":
        found = [r for r in found if evidence["offset"] in (None, r["offset"])]
    record = found[0] if len(found) == 1 else None
    return {name: record[name] for name in _RECORD} if record else None


_PROVENANCE = ("capture", "path", "sha256", "position", "batch_base_offset", "topic_id", "topic", "partition")
# The columns to show for a row, by table; default: all.
_SHOWN = {
    "partition_history": (
        *("offset", "leader", "leader_epoch", "partition_epoch", "replicas", "isr", "elr", "last_known_elr"),
        *("leader_recovery_state", "min_isr", "unclean_leader_election_enable", "removed"),
    )
}
_TIMES = ("timestamp_ms", "captured_at_ms")


def print_explained(found: Row, form: DocumentFormat) -> None:
    """Print to stdout. json: one array of one object. found: of `explain`."""
    if form == "json":
        print_rows([], [found], Format.JSON)
        return
    at = {row["offset"]: row["captured_at_ms"] for row in found["evidence"] if row["table"] == "partition_history"}
    # Pieces of evidence with the same row and value are one entry, with all their roles.
    same = groups(found["evidence"], lambda r: json.dumps({k: v for k, v in r.items() if k != "role"}, default=str))
    text = rendered(
        "explain.txt.j2",
        for_terminal,
        finding=found,
        elected_ms=at.get(found["election_offset"]),
        entries=[([row["role"] or "evidence" for row in rows], rows[0]) for rows in same.values()],
        answers=same_answers(found["counterfactuals"]),
        fields=_fields,
    )
    sys.stdout.write(text.rstrip("\n") + "\n")


def _fields(row: Row) -> str:
    """The non-null columns of the row of a piece of evidence, with their names."""
    found: Mapping[str, Any] | None = row["row"]
    if not found:
        return "this row is not in the lake"
    names = _SHOWN.get(row["table"]) or [n for n in found if n not in (*_PROVENANCE, *_TIMES)]
    values = [f"{n} {_value(found[n])}" for n in names if found.get(n) is not None]
    times = [utc(found[n]) for n in _TIMES if found.get(n) is not None]
    return "; ".join([", ".join(values), *times])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
