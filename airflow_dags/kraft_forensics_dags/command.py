"""One call of `kraft-forensics`, in the job's own virtual environment.

* The tasks only start its command line and import nothing from it.
* Captures are hostile: commands are argument lists, never shell strings, and no value passes through Jinja.
* The command is idempotent: a retry, a cleared task or another run over the same captures ends in the same tables.
"""

import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

log = logging.getLogger("kraft_forensics.dag")

BINARY_VARIABLE = "KRAFT_FORENSICS_BIN"
OK, ERROR, USAGE, FINDINGS, QUALITY, OTHER_LAKE = range(6)  # the exit codes of kraft-forensics
WITH_FINDINGS = ("run", "detect")  # commands that may return FINDINGS

TAIL_LINES = 20  # of standard error, repeated in the exception that fails a task
STOP_SECONDS = 20  # between SIGTERM and SIGKILL when a task runs out of time

# Variables for Airflow only: its secrets (database address, Fernet key, AIRFLOW_CONN_*) and its interpreter's search
# path.
NOT_FOR_THE_JOB = ("AIRFLOW_", "_AIRFLOW_", "__AIRFLOW_", "KRAFT_FORENSICS_DAG_", "PYTHONPATH", "PYTHONHOME")

URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?]*@)?(?P<place>[^?]*)(?:\?.*)?", re.DOTALL)


class CommandError(RuntimeError):
    """A command failed in a way that another attempt may fix; Airflow retries the task."""


def printable(text: str) -> str:
    """`text` with unprintable characters escaped, so that no name can forge a line of the log."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def without_secrets(argument: str) -> str:
    """An argument for the log: a URL without user, password and query; other text unchanged."""
    match = URL.fullmatch(argument)
    return match["scheme"] + match["place"] if match else argument


def binary() -> str:
    """Path of the command: KRAFT_FORENSICS_BIN, else `kraft-forensics` on PATH. Errors: AirflowFailException without
    one."""
    name = os.environ.get(BINARY_VARIABLE, "kraft-forensics")
    path = shutil.which(name)
    if path is None:
        raise AirflowFailException(
            f"{name!r} is not a program this worker can run: set {BINARY_VARIABLE} to the kraft-forensics "
            "of the job's own virtual environment, for example /opt/kraft-forensics/.venv/bin/kraft-forensics"
        )
    return path


def execute(command: list[str]) -> tuple[int, str, list[str]]:
    """Run `command` (no shell) to its end. Returns (exit code, standard output, last lines of standard error).

    Standard error is copied to the task's log as it is written. The child stays in the task's process group, so that
    Airflow's supervisor reaches it too. Anything that ends this function early (execution_timeout) stops the child
    first.
    """
    log.info("running %s", printable(json.dumps([without_secrets(word) for word in command])))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(NOT_FOR_THE_JOB)}
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    with (
        tempfile.TemporaryFile() as stdout,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
        ) as process,
    ):
        try:
            assert process.stderr is not None
            for line in process.stderr:
                tail.append(printable(line.rstrip("\n")))
                log.info("%s", tail[-1])
            code = process.wait()
        finally:
            stop(process)
        stdout.seek(0)
        return code, stdout.read().decode("utf-8", "backslashreplace"), list(tail)


def stop(process: subprocess.Popen[str]) -> None:
    """Stop a running child: SIGTERM, then SIGKILL after STOP_SECONDS. Does nothing if it has ended."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()


def ended(command: str, code: int, tail: list[str]) -> dict[str, Any]:
    """The result of a command that ended with this exit code: {command, exit_code, findings}. tail: its last words.
    Errors: CommandError for a failure that another attempt may fix, AirflowFailException for a final one."""
    findings = code == FINDINGS and command in WITH_FINDINGS
    if code == OK or findings:
        return {"command": command, "exit_code": code, "findings": findings}
    final = {
        USAGE: "usage error; the same command cannot succeed",
        FINDINGS: f"exit code of findings, which only {' and '.join(WITH_FINDINGS)} may return",
        QUALITY: "quality failed: see the table quality_results",
        OTHER_LAKE: "the lake is of another release",
    }
    why = final.get(code) or ("error" if code == ERROR else f"killed by signal {-code}" if code < 0 else "unknown")
    message = "\n".join([f"kraft-forensics {command}: exit code {code} ({why})", *tail])
    raise (AirflowFailException if code in final else CommandError)(message)


def run_command(command: str, *arguments: str, quiet: bool = False) -> tuple[dict[str, Any], str]:
    """Run one command. Returns (its result as in `ended`, standard output). quiet: standard output is not copied to the
    task's log. Errors: as `binary` and `ended`."""
    start = time.monotonic()
    code, stdout, tail = execute([binary(), command, *arguments])
    log.info("kraft-forensics %s: exit code %d after %.1f s", command, code, time.monotonic() - start)
    for line in [] if quiet else stdout.splitlines():
        log.info("%s", printable(line))
    return ended(command, code, tail), stdout
