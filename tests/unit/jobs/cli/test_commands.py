"""Help and examples, commands that start no JVM, errors of the command line."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from jobs.cli.commands import app
from jobs.console.options import EXAMPLES
from jobs.queries.describe import outside_log
from tests.support.invoked import invoke, printed_by_main
from tests.support.paths import ORACLE, ROOT, capture
from tests.support.report_rows import evidence_file, lake_of

COMMAND: Any = typer.main.get_command(app)
NAMES = [*(name for name in COMMAND.commands if name != "config"), "config show"]


def command_of(name: str) -> Any:
    found = COMMAND
    for word in name.split():
        found = found.commands[word]
    return found


def test_every_command_has_an_example_and_is_in_the_readme() -> None:
    assert set(EXAMPLES) == set(NAMES)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if not re.search(rf"`{name}[ `]", readme)] == []


@pytest.mark.parametrize("name", NAMES)
def test_help_shows_the_examples(name: str) -> None:
    result = CliRunner().invoke(app, [*name.split(), "-h"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0
    shown = " ".join(result.stdout.split())
    assert all(" ".join(example.split()) in shown for example in EXAMPLES[name])
    assert {"--log-format", "--help"} <= set(shown.split())


@pytest.mark.parametrize(("name", "example"), [(name, each) for name, some in EXAMPLES.items() for each in some])
def test_examples_are_parsed(name: str, example: str, tmp_path: Path) -> None:
    (ours,) = [part for part in re.split(r" [|>] ", example) if part.startswith("kraft-forensics ")]
    words = shlex.split(ours)
    assert words[: 1 + len(name.split())] == ["kraft-forensics", *name.split()]
    command_of(name).make_context(name, words[1 + len(name.split()) :])


def test_version() -> None:
    assert re.fullmatch(r"kraft-forensics \S+\n", CliRunner().invoke(app, ["--version"]).stdout)


def test_json_lines_of_a_command(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text("node.id=1\n")
    words = ["ingest", str(tmp_path), "--lake", str(tmp_path / "lake"), "--log-format", "json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stderr.splitlines()]
    assert "warning" in {row["level"] for row in rows}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    broker = tmp_path / "brokers" / "broker-1"
    broker.mkdir(parents=True)
    (broker / "replication-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    return broker.parent


def test_a_run_without_a_log_is_an_error(folder: Path, tmp_path: Path) -> None:
    result = invoke(["run", str(folder), "--lake", str(tmp_path / "lake")])
    assert result.exit_code == 1
    assert "brokers: cluster unknown-brokers has no metadata log" in str(result.exception)
    assert "__cluster_metadata-0" in str(result.exception)
    assert "no window was flagged" not in result.stdout


def test_detect_without_a_log_is_an_error_and_windows_does_not_say_that_all_is_well(
    folder: Path, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    assert invoke(["ingest", str(folder), "--lake", lake]).exit_code == 0
    assert invoke(["detect", "--lake", lake]).exit_code == 1
    shown = invoke(["windows", "--lake", lake]).stdout
    assert "no window could be judged, since nothing was replayed" in shown
    assert "no window was flagged" not in shown


def test_a_log_that_was_not_captured_has_no_end() -> None:
    log = {"first_offset": None, "last_offset": None, "from_ms": None, "until_ms": None}
    assert "no batch of the metadata log was captured" in str(outside_log(log, 5, None))
    assert outside_log(log, None, None) is None


def test_of_many_damaged_lines_the_terminal_shows_a_hundred(folder: Path, tmp_path: Path) -> None:
    lines = b"0\n150\n" + b"".join(b"orders %d x\n" % i for i in range(150))
    (folder / "broker-1" / "replication-offset-checkpoint").write_bytes(lines)
    result = invoke(["ingest", str(folder), "--lake", str(tmp_path / "lake"), "--engine", "local"])
    shown = [line for line in result.stderr.splitlines() if "quarantined" in line]
    assert len(shown) == 101
    assert "quarantined: 50 more, which `kraft-forensics sql" in shown[-1]


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


@pytest.mark.parametrize("words", [["config", "show"], ["coordinator", "x"]])
def test_a_closed_stdout_is_no_error(words: list[str]) -> None:
    command = ["sh", "-c", '"$@" >&-', "sh", sys.executable, "-m", "jobs.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


USAGE = """\
run
windows -v -q
describe --at-time yesterday
describe --at-time 2026-11-21 --at-offset 1
describe --at-offset 99999999999999999999
findings --partition -99999999999999999999
whatif --min-isr 99999999999999999999
maintain --retention-days 9223372036854775807
ahead
ahead --topic t --stop 1
ahead --stop 1,x
ahead --stop 1 --stop 99999999999999999999
sql --cluster c1 --ddl d
sql select --ddl d
report --format pdf
report --incident yesterday
report --incident ..
acknowledge
acknowledge loss-000
acknowledge loss-000 --note ""
acknowledge loss-000 --undo --note n
acknowledge --list --undo
acknowledge --all --undo
acknowledge --all --list
salvage --produce-to other
salvage --output out
salvage --from old
salvage --from old --current new --bootstrap 127.0.0.1:1
"""


@pytest.mark.parametrize("line", USAGE.splitlines())
def test_usage_errors_exit_with_2(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lake_of(tmp_path / "lake", "c1").root.parent)
    done = CliRunner().invoke(app, shlex.split(line))
    assert (done.exit_code, done.stdout) == (2, "")


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
        "import json, sys; from pathlib import Path; from typer.testing import CliRunner\n"
        "from evidence.capture.files import open_capture; from evidence.metadata_log.columns import decode_arrow\n"
        "from evidence.metadata_log.rows import ByteRange; from jobs.cli.commands import app\n"
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
    ended = [f"{words[0]} {int(words[0] in ('describe', 'whatif'))}" for words in commands]
    assert done.stdout.splitlines() == [*ended, "5", "740", "[]"]
