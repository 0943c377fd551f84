"""After an incident: read its captures into a lake of their own, and write the report of the incident's time.

`prepare >> run >> report >> result`

`result` returns where the report is. `airflow_dags/README.md` describes the parameters.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException
from kraft_forensics_dags.hook import require_hook
from kraft_forensics_dags.launch import launch
from kraft_forensics_dags.params import PATH_PATTERN, of_every_dag, path_param, run_params
from kraft_forensics_dags.settings import ROOT, setting

# Airflow's form offers a date picker for this format; without a package of its own it does not check it.
TIME_PATTERN = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?$"


def time_param(description: str) -> Param:
    """A time that a run must give."""
    return Param(description=description, type="string", format="date-time", pattern=TIME_PATTERN)


PARAMS = {
    "captures": Param(
        description="Captures of the incident (folders or archives): paths as the worker sees them, or URLs.",
        type="array",
        items={"type": "string", "pattern": PATH_PATTERN},
        minItems=1,
    ),
    "incident_from": time_param("When the incident began."),
    "incident_to": time_param("When it was over."),
    "folder": path_param(
        setting("POSTMORTEMS", f"{ROOT}/postmortems"), "Folder or prefix; each run writes into a folder of its own."
    ),
}


def moment(text: str) -> datetime:
    """An ISO 8601 time, in UTC if it names no zone. Errors: AirflowFailException."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise AirflowFailException(f"{text!r} is not an ISO 8601 time, e.g. 2026-11-21T00:39:00Z") from error
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


@task(multiple_outputs=True)
def prepare() -> dict[str, Any]:
    """The run's two commands: {run, report, path}."""
    require_hook()
    params = run_params(PARAMS)
    times = [moment(params[name]) for name in ("incident_from", "incident_to")]
    if times[0] >= times[1]:
        raise AirflowFailException("incident_from must be before incident_to")
    span = "..".join(time.isoformat() for time in times)
    run_id = re.sub(r"[^A-Za-z0-9._-]", "_", get_current_context()["run_id"])
    folder = f"{params['folder'].rstrip('/')}/{run_id}"
    lake, path = f"{folder}/lake", f"{folder}/report.html"
    return {
        "run": ["run", "--lake", lake, "--", *params["captures"]],
        "report": ["report", "--lake", lake, "--incident", span, "--output", path],
        "path": path,
    }


@task
def result(path: str) -> str:
    """Where the report is. Of captures of several clusters it is an index of their reports."""
    return path


with DAG(
    "kraft_forensics_postmortem",
    description="Report what an incident did to a Kafka cluster, from its captures",
    doc_md=__doc__,
    schedule=None,
    params=PARAMS,
    **of_every_dag(),
) as dag:
    plan = prepare()
    read = launch("run", plan["run"], "run", pool=setting("POOL", "default_pool"))
    written = launch("report", plan["report"], "report")
    read >> written >> result(plan["path"])
