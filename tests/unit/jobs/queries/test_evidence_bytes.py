"""The commands that show evidence, and the bytes that a capture has there."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evidence import kinds
from evidence.errors import CaptureError
from jobs.queries.evidence_bytes import commands, hex_lines, shell_word, with_bytes
from tests.support import writer

SEGMENT = f"{0:020d}.log"


def evidence(kind: str | None, path: str, position: int = 0, **more: Any) -> dict[str, Any]:
    row = {"file_kind": kind, "path": path, "position": position, "table": "partition_history", "record": None}
    return {**row, "row": None, "offset": None, "sha256": None, "capture": "c", **more}


def record(offset: int, payload: str = "{}") -> dict[str, Any]:
    return {"offset": offset, "payload": payload}


DUMP = "kafka-dump-log.sh --cluster-metadata-decoder --print-data-log --files"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            evidence(kinds.METADATA_SEGMENT, f"m/{SEGMENT}", 70, record=record(107)),
            [f"{DUMP} m/{SEGMENT} | grep '^| offset: 107 '", f"od -A d -t x1 -j 70 -N 64 m/{SEGMENT}"],
        ),
        (
            evidence(kinds.METADATA_SEGMENT, f"m/{SEGMENT}", 9, table="log_batches", offset=40),
            [f"{DUMP} m/{SEGMENT} | grep '^baseOffset: 40 '", f"od -A d -t x1 -j 9 -N 64 m/{SEGMENT}"],
        ),
        (
            evidence(kinds.METADATA_SEGMENT, "copied.log", 70, record=record(107)),
            ["kraft-forensics inspect copied.log | grep '\"offset\":107,'", "od -A d -t x1 -j 70 -N 64 copied.log"],
        ),
        (
            evidence(kinds.METADATA_SEGMENT, f"m/{SEGMENT}", 70, table="quarantine"),
            [f"od -A d -t x1 -j 70 -N 64 m/{SEGMENT}"],
        ),
        (
            evidence(kinds.REPLICA_SEGMENT, f"t-0/{SEGMENT}", 70, table="log_end_offsets"),
            [
                f"kafka-dump-log.sh --files t-0/{SEGMENT} | grep ' position: 70 '",
                f"od -A d -t x1 -j 70 -N 61 t-0/{SEGMENT}",
            ],
        ),
        (evidence(kinds.LEADER_EPOCH, "a b/leader-epoch", 4), ["tail -c +5 'a b/leader-epoch' | head -n 1"]),
        (evidence(None, "what", 4), ["od -A d -t x1 -j 4 -N 64 what"]),
        (evidence(kinds.DUMP_LOG, "", 0) | {"path": None}, []),
    ],
)
def test_commands(row: dict[str, Any], expected: list[str]) -> None:
    assert commands(row) == expected


@pytest.mark.parametrize(
    "name", ["plain", "two words", "it's", "$(reboot)", "-rf", "esc\x1b[31m\n'\\end", "\u202e.txt"]
)
def test_a_path_is_one_word_to_the_shell_and_plain_to_the_terminal(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("found")
    word = shell_word(name)
    assert word.isprintable()
    done = subprocess.run(["bash", "-c", f"cat {word}"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "found"


def test_a_dump_is_what_od_prints(tmp_path: Path) -> None:
    data = bytes(range(256))
    (tmp_path / "data").write_bytes(data)
    (command,) = commands(evidence(None, "data", 100))
    printed = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    expected = [line.split()[1:] for line in printed.splitlines() if " " in line]
    lines = hex_lines(data[100:164], 100)
    assert [line[10:57].split() for line in lines] == expected
    assert lines[0] == "00000100  64 65 66 67 68 69 6a 6b 6c 6d 6e 6f 70 71 72 73  |defghijklmnopqrs|"


HELD_BACK = "not shown: these bytes may contain a secret"


def text(shown: dict[str, Any]) -> str:
    """What the right column of a dump says."""
    return "".join(line.split("|", 1)[1][:-1] for line in shown["hex"])


def in_capture(folder: Path, name: str, data: bytes) -> str:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def test_lines_of_compressed_logs_are_shown_out_of_their_text(tmp_path: Path) -> None:
    path = "logs/broker-1/server.log.1.gz"
    log = b"[2026-11-21 00:00:00,000] INFO one (a.B)\n[2026-11-21 00:00:00,001] INFO two (a.B)\n"
    sha256 = in_capture(tmp_path, path, gzip.compress(log))
    row = evidence(kinds.SERVER_LOG, path, 41, sha256=sha256, table="broker_log_events", row={"kind": "truncated"})
    (shown,) = with_bytes([row], tmp_path)
    assert shown["bytes"]["text"] == "[2026-11-21 00:00:00,001] INFO two (a.B)"
    assert commands(row) == [f"gzip -dc {path} | tail -c +42 | head -n 1"]


def test_a_file_that_was_altered_is_not_shown(tmp_path: Path) -> None:
    path = "broker-1/replication-offset-checkpoint"
    in_capture(tmp_path, path, b"0\n1\nt 0 999\n")
    row = evidence(kinds.REPLICATION_OFFSET, path, 4, sha256="0" * 64, table="log_end_offsets", row={"value": 1})
    (shown,) = with_bytes([row], tmp_path)
    assert "not the file that was ingested" in shown["bytes"]["note"]
    assert (shown["bytes"]["hex"], shown["bytes"]["text"]) == (None, None)


def test_a_file_that_moved_is_found_by_its_bytes(tmp_path: Path) -> None:
    sha256 = in_capture(tmp_path, "elsewhere/copy", b"0\n1\nt 0 150\n")
    row = evidence(kinds.REPLICATION_OFFSET, "broker-1/x", 4, sha256=sha256, table="log_end_offsets", row={"value": 1})
    (shown,) = with_bytes([row], tmp_path)
    assert (shown["bytes"]["file"], shown["bytes"]["text"]) == ("elsewhere/copy", "t 0 150")


def test_what_is_not_in_the_capture_is_said(tmp_path: Path) -> None:
    in_capture(tmp_path, "something", b"else")
    rows = [evidence(kinds.LEADER_EPOCH, "gone", sha256="0" * 64), evidence(None, "")]
    notes = [row["bytes"]["note"] for row in with_bytes(rows, tmp_path)]
    assert "has no such file" in notes[0]
    assert notes[1] == "this evidence has no file"
    with pytest.raises(CaptureError):
        with_bytes(rows, tmp_path / "nowhere")


def test_records_and_heads_of_batches_are_shown_and_secrets_are_not(tmp_path: Path) -> None:
    secret = "hunter2-planted"
    values = [writer.config("retention.ms", "1000", "t"), writer.config("my.password", secret, "")]
    data = writer.batch(values)
    sha256 = in_capture(tmp_path, f"controllers/3000/__cluster_metadata-0/{SEGMENT}", data)
    path = f"controllers/3000/__cluster_metadata-0/{SEGMENT}"
    second = 61 + len(writer.record(values[0]))
    rows = [
        evidence(kinds.METADATA_SEGMENT, path, 61, sha256=sha256, record=record(0, '{"value":"1000"}')),
        evidence(kinds.METADATA_SEGMENT, path, second, sha256=sha256, record=record(1, '{"value":"[redacted]"}')),
        evidence(kinds.METADATA_SEGMENT, path, second, sha256=sha256),
        evidence(kinds.METADATA_SEGMENT, path, 0, sha256=sha256, table="log_batches", offset=0),
        evidence(kinds.METADATA_SEGMENT, path, len(data), sha256=sha256),
    ]
    first, hidden, unknown, head, behind = (row["bytes"] for row in with_bytes(rows, tmp_path))
    assert "retention.ms" in text(first)
    assert len(first["hex"]) == 2
    assert text(head) == text({"hex": hex_lines(data[:61], 0)})
    assert [(shown["note"], shown["hex"]) for shown in (hidden, unknown)] == [(HELD_BACK, None)] * 2
    assert behind["note"] == "the file has no byte at that position"
    (whole,) = with_bytes([{**rows[1], "record": record(1)}], tmp_path)
    assert secret in text(whole["bytes"])
