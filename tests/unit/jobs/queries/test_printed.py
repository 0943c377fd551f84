"""What people and programs read of `explain`, `whatif` and `conformance`, besides what the golden files of
tests/unit/test_terminal.py have."""

import gzip
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from evidence import kinds
from evidence.errors import CaptureError, KraftForensicsError
from jobs.console.output import Format
from jobs.queries.conformance import check_cases
from jobs.queries.explain import commands, hex_lines, print_explained, shell_word, with_bytes
from jobs.queries.whatif import print_differences
from replay.whatif.comparison import WHATIF
from tests.support import writer
from tests.support.invoked import invoke
from tests.support.paths import ORACLE
from tests.support.report_rows import finding as finding_row

FINDING = {"cluster_id": "c", **finding_row(unacked_min=1, unacked_max=90)}
EVIDENCE = {
    "role": "window_start",
    "source": "partition_history",
    "broker_id": -1,
    "value": None,
    "leader_epoch": 1,
    "offset": 91,
    "captured_at_ms": 1_795_221_565_233,
    "capture": "tuesday",
    "path": "log",
    "sha256": "f" * 64,
    "position": 7508,
    "table": "partition_history",
    "row": {"offset": 91, "leader": -1, "isr": [], "elr": [3], "topic_id": "T", "timestamp_ms": 1_795_221_565_233},
    "file_kind": "metadata_segment",
    "record": {"type": "PARTITION_CHANGE_RECORD", "payload": '{"isr":[]}', "batch_base_offset": 90},
    "commands": ["first log", "second log"],
}


def explained(
    finding: dict[str, Any], counterfactuals: list[dict[str, Any]], evidence: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    found = {"causes": [], "deleted": None, "counterfactuals": counterfactuals, "evidence": evidence, "commands": []}
    return finding | found | more


def printed(capsys: pytest.CaptureFixture[str], finding: dict[str, Any], *evidence: dict[str, Any]) -> list[str]:
    print_explained(explained(finding, [], list(evidence)), "table")
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0, None, "nothing is proven; no upper bound is known"),
        (0, 7, "nothing is proven; at most 7"),
        (0, 0, "nothing"),
        (5, 5, "5"),
        (5, 7, "at least 5; at most 7"),
        (None, 7, "nothing is proven; at most 7"),
    ],
)
def test_bounds(capsys: pytest.CaptureFixture[str], low: int | None, high: int | None, said: str) -> None:
    finding = FINDING | {"loss_min": low, "loss_max": high, "first_lost_offset": None, "unacked_min": None}
    lines = printed(capsys, finding | {"unacked_max": None})
    assert f"   lost      acks=all: {said}" in lines
    assert "             acks=0 or 1: no bound is known" in lines
    assert lines[-1] == "Evidence: none besides the explanation"


@pytest.mark.parametrize(
    ("after", "text"),
    [
        ({"next_id": None, "next_ms": None}, "no topic has its name since"),
        ({"next_id": "S", "next_ms": 1_795_221_575_000}, "since 2026-11-21 00:39:35 another topic has its name (id S)"),
    ],
)
def test_a_topic_that_was_deleted_says_so(capsys: pytest.CaptureFixture[str], after: dict[str, Any], text: str) -> None:
    gone = {"topic": "orders", "topic_id": "T", "deleted_ms": 1_795_221_570_000, **after}
    found = explained({**FINDING, "topic_id": "T"}, [], [], deleted=gone)
    print_explained(found, "table")
    assert f"id T, deleted at 2026-11-21 00:39:30 UTC; {text}" in capsys.readouterr().out
    print_explained(found, "json")
    assert json.loads(capsys.readouterr().out)[0]["deleted"] == gone


def test_names_do_not_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "orders\x1b[31m\u202e\r\x9b"
    row = EVIDENCE | {"path": evil, "capture": evil, "row": {"leader": evil}, "bytes": {"note": None, "hex": None}}
    row["bytes"] |= {"text": evil, "file": "copy"}
    row["record"] = EVIDENCE["record"] | {"payload": evil}
    unread = EVIDENCE | {"bytes": {"note": "the file was altered", "hex": None, "text": None, "file": None}}
    print_explained(explained(FINDING | {"topic": evil, "explanation": evil}, [], [row, unread]), "table")
    out = capsys.readouterr().out
    assert "   bytes     from copy, which has this SHA-256:\n             orders" in out
    assert "   bytes     the file was altered\n" in out
    assert out.count("orders\\u001b[31m\\u202e") >= 6
    assert all(c.isprintable() or c == "\n" for c in out)


def test_programs_get_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    found = explained(FINDING, [{"policy": "p", "leader": 3}], [EVIDENCE, EVIDENCE])
    print_explained(found, "json")
    assert json.loads(capsys.readouterr().out) == [found]


ROW = dict.fromkeys(WHATIF.names, 0) | {"topic_id": "T" * 22, "topic": "orders", "undetermined_offset": None}
SAME = ROW | {"first_difference_offset": None, "first_difference_timestamp_ms": None}


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=WHATIF)


def test_what_is_not_known_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    print_differences(table(SAME, SAME), Format.TABLE)
    assert capsys.readouterr().out == "none of 2 partitions would differ\n"
    differs = ROW | {"recorded_leader": 1, "loss_min_recorded": 70, "loss_max_recorded": 75, "loss_max_would_be": None}
    unknown = SAME | {"partition": 2, "undetermined_offset": 9, "elections_would_be": None}
    print_differences(table(SAME, differs, unknown), Format.TABLE)
    shown = capsys.readouterr()
    assert [line.split()[0] for line in shown.out.splitlines() if "orders-" in line] == ["orders-0", "orders-2"]
    assert "70 to 75 -> ?" in shown.out
    assert "1 partitions: the policy needs log ends that were not captured" in shown.err


CASES = ORACLE / "policy-4.3.1.jsonl.gz"


def lines() -> list[bytes]:
    return gzip.decompress(CASES.read_bytes()).splitlines(keepends=True)


def test_kafkas_cases_match() -> None:
    done = invoke(["conformance", str(CASES)])
    assert (done.exit_code, done.stdout) == (0, "3000 matched, 0 differ\n")


def test_cases_that_differ_give_exit_code_1_and_are_named(tmp_path: Path) -> None:
    case = json.loads(lines()[0])
    case["state_after"]["leader_epoch"] += 1
    file = tmp_path / "cases.jsonl"
    file.write_bytes(lines()[1] + json.dumps(case).encode() + b"\n")
    done = invoke(["conformance", str(file)])
    assert (done.exit_code, done.stdout) == (1, "1 matched, 1 differ\n")
    assert f"{file}: line 2: " in done.stderr


def test_other_rules_differ() -> None:
    done = invoke(["conformance", str(CASES), "--profile", "4.0"])
    assert done.exit_code == 1
    assert "0 differ" not in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"not json\n", "line 2, byte {first}: not JSON"),
        (b"[]\n", "line 2, byte {first}: expected a JSON object, not list"),
        (b'{"kafka": "4.3.1"}\n', "line 2, byte {first}: a case cannot be read"),
        (b'{"kafka": "0.8"}\n', "line 2, byte {first}: no profile for Kafka '0.8'"),
    ],
)
def test_a_line_that_is_no_case_is_named_with_its_place(tmp_path: Path, text: bytes, message: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_bytes(lines()[0] + text)
    with pytest.raises(KraftForensicsError, match=message.format(first=len(lines()[0]))):
        check_cases(file, None)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes(CASES.read_bytes()[:5000])
    for file in (torn, tmp_path / "missing.jsonl"):
        with pytest.raises(KraftForensicsError, match=f"{file.name}: cannot be read"):
            check_cases(file, None)


SEGMENT = f"{0:020d}.log"


def evidence(kind: str | None, path: str, position: int = 0, **more: Any) -> dict[str, Any]:
    row = {"file_kind": kind, "path": path, "position": position, "table": "partition_history", "record": None}
    return {**row, "row": None, "offset": None, "sha256": None, "capture": "c", **more}


def record(offset: int, payload: str = "{}") -> dict[str, Any]:
    return {"offset": offset, "payload": payload}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            evidence(kinds.METADATA_SEGMENT, "copied.log", 70, record=record(107)),
            ["kraft-forensics inspect copied.log | grep '\"offset\":107,'", "od -A d -t x1 -j 70 -N 64 copied.log"],
        ),
        (
            evidence(kinds.METADATA_SEGMENT, f"m/{SEGMENT}", 70, table="quarantine"),
            [f"od -A d -t x1 -j 70 -N 64 m/{SEGMENT}"],
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
