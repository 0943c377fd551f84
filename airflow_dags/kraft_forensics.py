"""Nightly forensics of Kafka's metadata log: the DAG that runs `kraft-forensics`, one task per stage.

`ingest >> replay >> detect >> quality >> report >> summary`

* **The job stays in its own virtual environment.** The tasks only start its command line and import nothing from it.
* **Captures are hostile.** Commands are argument lists, never shell strings, and no value passes through Jinja.
* **Stages are idempotent.** A retry, a cleared task or a re-run of an old date converges to the same tables.
* `detect` succeeds when it finds something and returns `findings: true`; `quality` fails the run when a rule is broken.
* `summary` returns the number of findings by kind and verdict.

The trigger form describes the parameters; `airflow_dags/README.md` lists them all, and the environment variables.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param, chain, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

log = logging.getLogger("kraft_forensics.dag")

BINARY_VARIABLE = "KRAFT_FORENSICS_BIN"
OK, ERROR, USAGE, FINDINGS, QUALITY = range(5)  # the exit codes of kraft-forensics

SUMMARY_QUERY = "select kind, verdict, count(*) as n from findings group by kind, verdict"
TAIL_LINES = 20  # of standard error, repeated in the exception that fails a task
STOP_SECONDS = 20  # between SIGTERM and SIGKILL when a task runs out of time

# Variables for Airflow only: its secrets (database address, Fernet key, AIRFLOW_CONN_*) and its interpreter's search
# path.
NOT_FOR_THE_JOB = ("AIRFLOW_", "_AIRFLOW_", "__AIRFLOW_", "KRAFT_FORENSICS_DAG_", "PYTHONPATH", "PYTHONHOME")

# Not empty, no NUL (it ends an argument), and not an option.
PATH_PATTERN = r"^(?!-)[^\u0000]+$"

URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?]*@)?(?P<place>[^?]*)(?:\?.*)?", re.DOTALL)


class StageError(RuntimeError):
    """A stage failed in a way that another attempt may fix; Airflow retries the task."""


def setting(name: str, default: str) -> str:
    """KRAFT_FORENSICS_DAG_<name> from the environment in which the DAG file is parsed."""
    return os.environ.get(f"KRAFT_FORENSICS_DAG_{name}", default)


def number(name: str, default: int, least: int = 0) -> int:
    """A setting that is a whole number of at least `least`. Errors: ValueError with its name, which Airflow shows as an
    import error."""
    text = setting(name, str(default))
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise ValueError(f"KRAFT_FORENSICS_DAG_{name} must be a whole number from {least}, not {text!r}")
    return int(text)


def captures() -> list[str]:
    """The captures of a scheduled run: a JSON array in KRAFT_FORENSICS_DAG_CAPTURES; Param checks its entries."""
    text = setting("CAPTURES", '["/var/lib/kraft-forensics/captures"]')
    try:
        value: list[str] = json.loads(text)
    except ValueError as error:
        raise ValueError(f"KRAFT_FORENSICS_DAG_CAPTURES must be a JSON array of paths, not {text!r}: {error}") from None
    return value


def printable(text: str) -> str:
    """`text` with unprintable characters escaped, so that no name can forge a line of the log."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def without_secrets(argument: str) -> str:
    """An argument for the log: a URL without user, password and query; other text unchanged."""
    match = URL.fullmatch(argument)
    return match["scheme"] + match["place"] if match else argument


def run_params() -> dict[str, Any]:
    """The run's parameters, checked by Airflow against the schema. An unknown key fails the task without a retry.

    Airflow itself accepts any additional key in a run's conf, so a misspelt key would silently leave the default.
    """
    params = dict(get_current_context()["params"])
    if unknown := sorted(params.keys() - PARAMS.keys()):
        raise AirflowFailException(f"unknown key in the run's conf: {unknown}; it takes {sorted(PARAMS)}")
    return params


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


def check(stage: str, code: int, tail: list[str]) -> None:
    """Return on success, raise StageError for a failure to retry, AirflowFailException for a final one."""
    if code == OK or (stage == "detect" and code == FINDINGS):
        return
    why = {
        ERROR: "error",
        USAGE: "usage error; the same command cannot succeed",
        FINDINGS: "exit code of findings, which only detect may return",
        QUALITY: "quality failed: see the table quality_results",
    }.get(code, f"killed by signal {-code}" if code < 0 else "unknown exit code")
    message = "\n".join([f"kraft-forensics {stage}: exit code {code} ({why})", *tail])
    raise (AirflowFailException if code in (USAGE, FINDINGS, QUALITY) else StageError)(message)


def run_stage(stage: str, *arguments: str) -> tuple[dict[str, Any], str]:
    """Run one stage. Returns ({stage, exit_code, seconds}, standard output). Errors: as `binary` and `check`."""
    start = time.monotonic()
    code, stdout, tail = execute([binary(), stage, *arguments])
    seconds = round(time.monotonic() - start, 3)
    log.info("kraft-forensics %s: exit code %d after %.1f s", stage, code, seconds)
    for line in stdout.splitlines():
        log.info("%s", printable(line))
    check(stage, code, tail)
    return {"stage": stage, "exit_code": code, "seconds": seconds}, stdout


@task(multiple_outputs=False)
def ingest() -> dict[str, Any]:
    """Ingest the captures into the lake's evidence tables."""
    params = run_params()
    return run_stage("ingest", "--lake", params["lake"], "--", *params["captures"])[0]


@task(multiple_outputs=False)
def replay() -> dict[str, Any]:
    """Replay the evidence into histories and elections."""
    return run_stage("replay", "--lake", run_params()["lake"])[0]


@task(multiple_outputs=False)
def detect() -> dict[str, Any]:
    """Detect findings in the histories. `findings` is true if any are at or above `fail_on`: branch on it."""
    params = run_params()
    result, _ = run_stage("detect", "--lake", params["lake"], "--fail-on", params["fail_on"])
    return result | {"findings": result["exit_code"] == FINDINGS}


@task(multiple_outputs=False)
def quality() -> dict[str, Any]:
    """Check the tables. A broken expectation fails the run without a retry."""
    return run_stage("quality", "--lake", run_params()["lake"])[0]


@task(multiple_outputs=False)
def report() -> dict[str, Any]:
    """Write the HTML report."""
    params = run_params()
    return run_stage("report", "--lake", params["lake"], "--output", params["report"])[0]


@task(multiple_outputs=False)
def summary() -> list[dict[str, Any]]:
    """The lake's findings by kind and verdict: rows {kind, verdict, n}. Branch, notify or plot from here."""
    _, stdout = run_stage("sql", SUMMARY_QUERY, "--lake", run_params()["lake"], "--format", "json")
    try:
        return [{"kind": str(r["kind"]), "verdict": str(r["verdict"]), "n": int(r["n"])} for r in json.loads(stdout)]
    except (ValueError, KeyError, TypeError) as error:
        raise StageError(f"kraft-forensics sql: not a JSON array of kind, verdict and n: {error!r}") from error


PARAMS = {
    "captures": Param(
        captures(),
        "Captures (folders or archives): paths as the worker sees them, or URLs such as s3://bucket/tuesday.tar.xz.",
        type="array",
        items={"type": "string", "pattern": PATH_PATTERN},
        minItems=1,
    ),
    "lake": Param(
        setting("LAKE", "/var/lib/kraft-forensics/lake"),
        "Folder of the Delta tables.",
        type="string",
        pattern=PATH_PATTERN,
    ),
    "report": Param(
        setting("REPORT", "/var/lib/kraft-forensics/report.html"),
        "File to write the HTML report to.",
        type="string",
        pattern=PATH_PATTERN,
    ),
    "fail_on": Param(
        "proven",
        "Lowest verdict or severity for which detect returns findings: true.",
        type="string",
        enum=[
            "none",
            "unknown",
            "possible",
            "proven",
            "critical",
            "high",
            "medium",
            "low",
            "info",
            "new-unknown",
            "new-possible",
            "new-proven",
            "new-critical",
            "new-high",
            "new-medium",
            "new-low",
            "new-info",
        ],
    ),
}

with DAG(
    "kraft_forensics",
    description="Replay Kafka's KRaft metadata log and find where acknowledged records were lost",
    doc_md=__doc__,
    schedule=None if setting("SCHEDULE", "@daily") == "none" else setting("SCHEDULE", "@daily"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,  # one writer per lake
    params=PARAMS,
    default_args={
        "retries": number("RETRIES", 2),
        "retry_delay": timedelta(seconds=number("RETRY_DELAY_SECONDS", 60)),
        "execution_timeout": timedelta(minutes=number("TIMEOUT_MINUTES", 360, least=1)),
    },
    tags=["kafka", "kraft", "forensics"],
) as dag:
    chain(ingest(), replay(), detect(), quality(), report(), summary())
