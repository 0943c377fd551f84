"""Commands that start no JVM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobs.cli import app
from tests.support.invoked import printed_by_main
from tests.support.paths import ORACLE, capture
from tests.support.report_rows import evidence_file, lake_of


def test_inspect_redacts_secrets_unless_told_otherwise() -> None:
    log = str(ORACLE / "every-record.log")
    hidden, shown = (CliRunner().invoke(app, ["inspect", log, *extra]).stdout for extra in ([], ["--show-secrets"]))
    scram = [json.loads(line)["data"] for line in shown.splitlines() if '"USER_SCRAM_CREDENTIAL_RECORD"' in line]
    secrets = {row[name] for row in scram for name in ("salt", "storedKey", "serverKey")} - {""}
    assert len(secrets) > 20
    assert not [s for s in secrets if s in hidden]


def test_inspect_says_when_a_file_is_no_log(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("this is not a log, whatever its name says\n" * 5)
    result = CliRunner().invoke(app, ["inspect", str(file)])
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["reason"] == "not_a_segment"
    assert str(file) in result.stderr


def test_a_missing_file_or_capture_is_an_error_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone.log"
    assert printed_by_main("inspect", gone) == (1, "", f"error: {gone}: cannot be read: No such file or directory\n")
    what = "no such file or folder. Name a capture: a folder, an archive or a log segment."
    error = f"error: no such {{{{ capture }}}}: {what}\n"
    assert printed_by_main("run", "no such {{ capture }}", "--lake", tmp_path / "lake") == (1, "", error)


@pytest.mark.parametrize("words", [["config", "show"], ["coordinator", "x"]])
def test_a_reader_that_has_gone_ends_a_command_as_it_ends_other_tools(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "jobs.cli", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_usage_errors_exit_with_2() -> None:
    assert CliRunner().invoke(app, ["run"]).exit_code == 2
    assert CliRunner().invoke(app, ["describe", "--at-time", "yesterday"]).exit_code == 2
    assert CliRunner().invoke(app, ["describe", "--at-time", "2026-11-21", "--at-offset", "1"]).exit_code == 2


@pytest.mark.parametrize("given", [["--cluster", "c1"], ["select 1"]])
def test_statements_for_a_catalog_are_of_the_whole_lake(given: list[str], tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", "c1")
    result = CliRunner().invoke(app, ["sql", *given, "--ddl", "d", "--lake", str(lake.root)])
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize("command", [["doctor"], ["quality"], ["run", "capture"]])
def test_a_lake_is_in_no_other_store(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--lake", "hdfs://name:secret@host/lake"])
    assert result.exit_code == 1
    assert str(result.exception) == (
        "hdfs://host/lake: a lake cannot be there. Give a folder, or a URL with s3, gs, abfs, abfss."
    )


def test_doctor_checks_java_jars_disk_and_permissions(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--lake", str(tmp_path), "--format", "json"])
    checks = {row["check"]: row["ok"] for row in json.loads(result.stdout)}
    assert {"Java", "Delta's jars", "disk", "permissions", "pyspark"} <= set(checks)
    assert checks["pyspark"] == "ok"
    assert result.exit_code == (0 if set(checks.values()) == {"ok"} else 1)


def test_what_a_command_does_not_need_is_not_imported(tmp_path: Path) -> None:
    """Neither Spark nor the compiler by commands that only read, nor by what decodes little; no client of a store for
    files on this machine."""
    row = {"finding_id": "abcdef12", "kind": "leaderless", "verdict": "proven", "severity": "low", "topic": "t"}
    lake = lake_of(tmp_path / "lake", "c1", findings=[row], evidence_files=[evidence_file()])
    words = [["explain", "abcdef12"], ["windows"], ["findings"], ["describe"], ["verdict"], ["report"]]
    words.append(["whatif", "--min-isr", "1"])  # there is no history to simulate
    log = str(ORACLE / "every-record.log")
    commands = [["inspect", log], *([*each, "--lake", str(lake.root)] for each in words)]
    code = (
        "import json, sys; from pathlib import Path; from typer.testing import CliRunner; from jobs.cli import app\n"
        "from evidence.capture.files import open_capture; from evidence.metadata_log.columns import decode_arrow\n"
        "from evidence.metadata_log.rows import ByteRange\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    print(words[0], CliRunner().invoke(app, words).exit_code)\n"
        "with open_capture(Path(sys.argv[2])) as found: print(len(found.files))\n"
        "data = Path(sys.argv[3]).read_bytes()\n"
        "whole = ByteRange('l', 'l', '0', 'metadata_segment', 0, len(data))\n"
        "print(sum(map(len, decode_arrow(data, whole, 'c'))))\n"
        "print([m for m in ('pyspark', 'delta', 'great_expectations', 'numba', 'fsspec', 's3fs', 'botocore', 'aiohttp')"
        " if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, json.dumps(commands), str(capture("jbod-4.1.1")), log]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ended = [f"{words[0]} {int(words[0] == 'whatif')}" for words in commands]
    assert done.stdout.splitlines() == [*ended, "5", "740", "[]"]
