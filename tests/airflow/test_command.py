"""How the DAGs call the command line: exit codes, streams, environment, time-outs."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from kraft_forensics_dags import command

LOGGER = "kraft_forensics.dag"


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines that the DAGs' own tasks logged: what a person sees in Airflow's task log."""
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


@pytest.mark.parametrize(
    ("name", "code", "error"),
    [
        ("run", 0, None),
        ("run", 3, None),
        ("detect", 3, None),
        ("run", 1, command.CommandError),
        ("run", 2, AirflowFailException),
        ("verify", 1, command.CommandError),
        ("verify", 3, AirflowFailException),
        ("run", 4, AirflowFailException),
        ("run", 5, AirflowFailException),
        ("run", -9, command.CommandError),
        ("report", 77, command.CommandError),
    ],
)
def test_exit_codes(name: str, code: int, error: type[Exception] | None) -> None:
    if error is None:
        assert command.ended(name, code, []) == {"command": name, "exit_code": code, "findings": code == 3}
        return
    with pytest.raises(error, match=rf"kraft-forensics {name}: exit code {code} \(.*\)\nlast words") as caught:
        command.ended(name, code, ["last words"])
    assert type(caught.value) is error


def test_execute_keeps_the_streams_apart(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)
    program = r"import sys; print('[1]'); sys.stderr.buffer.write(b'h\xc3\xa9\x1b[31m\n\xff\n'); sys.exit(7)"
    code, stdout, tail = command.execute([sys.executable, "-c", program])
    assert (code, stdout.strip(), tail) == (7, "[1]", [r"hé\x1b[31m", r"\xff"])
    assert logged(caplog)[1:] == tail


def test_execute_keeps_airflows_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", "postgres://user:password@host/db")
    monkeypatch.setenv("PYTHONPATH", "/airflow/plugins")
    monkeypatch.setenv("KRAFT_FORENSICS_OTHER", "kept")
    _, stdout, _ = command.execute([sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"])
    environment = json.loads(stdout)
    assert environment["KRAFT_FORENSICS_OTHER"] == "kept"
    assert not [name for name in environment if name.startswith(("AIRFLOW_", "PYTHONPATH"))]
    assert "AIRFLOW_HOME" in os.environ


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        ("s3://bucket/tuesday.tar.xz", "s3://bucket/tuesday.tar.xz"),
        ("s3a://key:secret@bucket/a/b.zip", "s3a://bucket/a/b.zip"),
        ("https://host/x.zip?X-Amz-Signature=secret&a=b", "https://host/x.zip"),
        ("https://user:secret@host/x.zip?sig=secret\n?secret", "https://host/x.zip"),
        ("/captures/what?.zip", "/captures/what?.zip"),
        ("--lake", "--lake"),
    ],
)
def test_the_log_shows_no_secret_of_a_url(argument: str, shown: str) -> None:
    assert command.without_secrets(argument) == shown


def test_the_log_shows_a_command_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)
    command.execute([sys.executable, "-c", "", "https://user:secret@host/x.zip?sig=secret"])
    assert "secret" not in logged(caplog)[0]
    assert "https://host/x.zip" in logged(caplog)[0]


def test_execute_stops_the_program_when_time_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Airflow's execution_timeout does it: an alarm that raises. The program ignores SIGTERM, so it is killed."""

    def alarm(*_: object) -> None:
        raise TimeoutError

    def ring() -> None:
        """Once the program has begun: how long that takes is not known."""
        while not file.exists() or not file.read_text().endswith("\n"):
            time.sleep(0.05)
        time.sleep(0.5)  # by now it is waited for
        os.kill(os.getpid(), signal.SIGALRM)

    monkeypatch.setattr(command, "STOP_SECONDS", 1)
    file = tmp_path / "pid"
    program = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "open(sys.argv[1], 'w').write(f'{os.getpid()}\\n'); time.sleep(120); open(sys.argv[1], 'w').write('slept')"
    )
    previous = signal.signal(signal.SIGALRM, alarm)
    threading.Thread(target=ring, daemon=True).start()
    try:
        with pytest.raises(TimeoutError):
            command.execute([sys.executable, "-c", program, str(file)])
    finally:
        signal.signal(signal.SIGALRM, previous)
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)  # not a number if nobody has killed it
