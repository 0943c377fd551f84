"""Collect captures of every cluster's nodes.

`discover >> collect[cluster]`, in two DAGs:

* `kraft_forensics_collect`, before each night: whole captures, into the folder that the nightly DAG reads.
* `kraft_forensics_collect_light`, every hour: only what cannot be had after an incident (`--light`), into another
  folder, since so many captures would make a night longer.

A cluster's task fails if a node or a file is missing, and the capture without it is kept. `airflow_dags/README.md`
describes parameters and settings.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowFailException
from kraft_forensics_dags.assets import CAPTURES
from kraft_forensics_dags.captures import capture_name, copy_to, nodes_of
from kraft_forensics_dags.command import CommandError, run_command
from kraft_forensics_dags.params import application_limits, dag_of, run_params, schedule


@task(multiple_outputs=False)
def discover() -> list[dict[str, Any]]:
    """One {name, nodes, folder, log_days} for each cluster with a file of nodes. log_days: None of light captures."""
    params = run_params()
    folder, days = params["captures"].rstrip("/"), params.get("log_days")
    found = [
        {"name": name, "nodes": nodes, "folder": f"{folder}/{name}", "log_days": days}
        for name, nodes in nodes_of(params["nodes"]).items()
    ]
    if not found:
        raise AirflowFailException(f"{params['nodes']}: no file of nodes, so nothing would be collected")
    return found


@task(multiple_outputs=False, map_index_template="{{ label }}")
def collect(name: str, nodes: str, folder: str, log_days: int | None) -> str:
    """Path or URL of the new capture. Its name has the time at which this task started, not that of the run: a retry or
    a cleared task collects again, and its capture never gets the name of an earlier one."""
    context, now = get_current_context(), datetime.now(UTC)
    context["label"] = name
    light = log_days is None
    what = ["--light"] if light else ["--since", f"{now - timedelta(days=log_days):%Y-%m-%dT%H:%MZ}"]
    with TemporaryDirectory(prefix="kraft-forensics-") as work:
        place = Path(work) if "://" in folder else Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        output = place / capture_name(name, now, light)
        capture = f"{folder}/{output.name}"
        try:
            run_command("collect", *what, "--nodes", nodes, "--output", str(output))
        except CommandError as error:
            if not output.exists():
                raise
            copy_to(output, capture)
            raise AirflowFailException(f"{capture} is incomplete\n{error}") from error
        copy_to(output, capture)
    if not light:
        context["outlet_events"][CAPTURES].extra = {"cluster": name, "capture": capture}
    return capture


for name, description, times in (
    ("collect", "Collect a capture of every Kafka cluster for the night", schedule("COLLECT_SCHEDULE", "0 23 * * *")),
    (
        "collect_light",
        "Collect boot ids, high watermarks and leader epochs of every Kafka cluster",
        schedule("COLLECT_LIGHT_SCHEDULE", "30 * * * *"),
    ),
):
    with dag_of(name, description, __doc__, schedule=times):
        outlets = [CAPTURES] if name == "collect" else []
        collect.override(outlets=outlets, **application_limits()).expand_kwargs(discover())
