"""After an incident: read its captures into a lake of their own, and write the report of the incident's time.

`prepare >> run >> report >> result`

`result` returns where the report is. `airflow_dags/README.md` describes the parameters.
"""

import hashlib
import re
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowFailException
from kraft_forensics_dags.launch import launch
from kraft_forensics_dags.params import dag_of, run_params, setting


def moment(text: str) -> datetime:
    """An ISO 8601 time, in UTC if it names no zone. Errors: AirflowFailException."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise AirflowFailException(f"{text!r} is not an ISO 8601 time, e.g. 2026-11-21T00:39:00Z") from error
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def folder_name(run_id: str) -> str:
    """A name that no other run has: the run id, or what of it is safe in a path, with a digest."""
    name = re.sub(r"^\.|[^A-Za-z0-9._-]", "_", run_id)
    return name if name == run_id else f"{name[:200]}-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"


@task(multiple_outputs=True)
def prepare() -> dict[str, Any]:
    """The run's two commands: {run, report, path}."""
    params = run_params()
    times = [moment(params[name]) for name in ("incident_from", "incident_to")]
    if times[0] >= times[1]:
        raise AirflowFailException("incident_from must be before incident_to")
    span = "..".join(time.isoformat() for time in times)
    folder = f"{params['folder'].rstrip('/')}/{folder_name(get_current_context()['run_id'])}"
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


with dag_of("postmortem", "Report what an incident did to a Kafka cluster, from its captures", __doc__, schedule=None):
    plan = prepare()
    read = launch("run", plan["run"], "run", pool=setting("POOL", "default_pool"))
    written = launch("report", plan["report"], "report")
    read >> written >> result(plan["path"])
