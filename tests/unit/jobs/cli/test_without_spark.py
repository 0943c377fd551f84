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
from tests.support.paths import ORACLE, ROOT
from tests.support.report_rows import evidence_file, lake_of
from tests.support.small_captures import with_rounds


def test_inspect_prints_one_json_object_a_record() -> None:
    result = CliRunner().invoke(app, ["inspect", str(ORACLE / "every-record.log")])
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0
    assert len(rows) == 740
    assert list(rows[0]) == ["offset", "timestamp", "leaderEpoch", "type", "version", "data", "file", "position"]


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


def test_inspect_of_a_missing_file_is_an_error_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jobs.cli", "inspect", str(tmp_path / "gone.log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"error: {tmp_path / 'gone.log'}: cannot be read: No such file or directory\n"


@pytest.mark.parametrize("words", [["inspect", "--help"], ["config", "show"], ["coordinator", "x"]])
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


def test_the_local_engine_needs_no_java(tmp_path: Path) -> None:
    """The whole job, with an environment in which Spark cannot start."""
    words = ["run", with_rounds("elr", tmp_path, 2), "--lake", tmp_path / "lake", "--engine", "local"]
    command = [sys.executable, "-m", "jobs.cli", *words]
    environment = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no window was flagged" in done.stdout
    assert (tmp_path / "lake" / "report.html").exists()


def test_doctor_checks_java_jars_disk_and_permissions(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["doctor", "--lake", str(tmp_path), "--format", "json"])
    checks = {row["check"]: row["ok"] for row in json.loads(result.stdout)}
    assert {"Java", "Delta's jars", "disk", "permissions", "pyspark"} <= set(checks)
    assert checks["pyspark"] == "ok"
    assert result.exit_code == (0 if set(checks.values()) == {"ok"} else 1)


def test_commands_that_only_read_import_neither_spark_nor_the_compiler(tmp_path: Path) -> None:
    row = {"finding_id": "abcdef12", "kind": "leaderless", "verdict": "proven", "severity": "low", "topic": "t"}
    lake = lake_of(tmp_path / "lake", "c1", findings=[row], evidence_files=[evidence_file()])
    words = [["explain", "abcdef12"], ["windows"], ["findings"], ["describe"], ["verdict"], ["report"]]
    words.append(["whatif", "--min-isr", "1"])  # there is no history to simulate
    commands = [["inspect", str(ORACLE / "every-record.log")], *([*each, "--lake", str(lake.root)] for each in words)]
    code = (
        "import json, sys; from typer.testing import CliRunner; from jobs.cli import app\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    print(words[0], CliRunner().invoke(app, words).exit_code)\n"
        "print([m for m in ('pyspark', 'delta', 'great_expectations', 'numba') if m in sys.modules])"
    )
    command = [sys.executable, "-c", code, json.dumps(commands)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*(f"{words[0]} {int(words[0] == 'whatif')}" for words in commands), "[]"]
