"""Every night: read the new captures of every cluster, and report what is new.

`discover >> cluster[name]: run >> answer`, then `summary`

* `discover` finds the clusters and chooses their captures by the run's data interval, late ones included.
* `run` is one application for each cluster: `kraft-forensics run`, into the cluster's own lake.
* `answer` returns verdict, loss and links, and calls the hook if there are findings at or above `fail_on`.
* `summary` returns the answers of all clusters in short; it fails if a cluster failed.
* `watch`, with KRAFT_FORENSICS_DAG_MAX_AGE_HOURS, fails if the captures of a cluster have stopped coming.

`airflow_dags/README.md` describes parameters, settings, backfill and the hook.
"""

import json
import textwrap
from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task, task_group
from kraft_forensics_dags.assets import NIGHT, OF_TABLES
from kraft_forensics_dags.captures import captures_of, folders_of
from kraft_forensics_dags.command import log, printable, run_command
from kraft_forensics_dags.launch import FAIL, launch
from kraft_forensics_dags.params import application_limits, call_hook, dag_of, run_params, schedule, setting
from pydantic import NonNegativeInt, PositiveInt

MOST_CHARACTERS = 120  # of a note: it is shown in a narrow column


@task(multiple_outputs=False)
def discover() -> list[dict[str, Any]]:
    """One {name, lake, arguments} for each cluster with captures for this run."""
    params, context = run_params(), get_current_context()
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    late, found = timedelta(days=params["late_days"]), []
    for name, folder in (params["clusters"] or folders_of(params["captures"])).items():
        lake = f"{params['lakes'].rstrip('/')}/{name}"
        try:
            chosen = captures_of(folder, start, end, late)
            log.info("%s: %d captures from %s until %s", name, len(chosen), start, end)
            command = ["run", "--lake", lake, "--fail-on", params["fail_on"], "--", *chosen] if chosen else []
        except OSError as error:
            command = [FAIL, f"{name}: its captures cannot be listed: {error}"]  # the other clusters' runs go on
            log.error("%s", command[1])
        if command:
            found.append({"name": name, "lake": lake, "arguments": command})
    return found


@task(multiple_outputs=False, map_index_template="{{ note }}", outlets=OF_TABLES)
def answer(name: str, lake: str, ended: dict[str, Any]) -> dict[str, Any]:
    """Verdict (docs/verdict.md), loss and links of a cluster: {cluster, lake, valid, text, loss, status, findings,
    report, verdict, note}. The note is the task's label in Airflow's pages."""
    context = get_current_context()
    context["note"] = name  # unless it ends well
    document = json.loads(run_command("verdict", "--lake", lake, "--format", "json", quiet=True)[1])
    text = [printable(line) for line in document["answer"]["text"]]
    shown = setting("LINKS", "")
    folder = f"{shown.rstrip('/')}/{name}" if shown else lake.rstrip("/")
    found = {
        "cluster": name,
        "lake": lake,
        "valid": document["valid"],
        "text": text,
        "loss": {key: document["loss"][key] for key in ("acks_all_min", "acks_all_max")},
        "status": {key: document["status"][key] for key in ("new", "known", "acknowledged")},
        "findings": ended["findings"],
        "report": f"{folder}/report.html",
        "verdict": f"{folder}/verdict.json",
        "note": textwrap.shorten(f"{name}: {text[0]}", MOST_CHARACTERS, placeholder=" ..."),
    }
    context["note"] = found["note"]
    for asset in OF_TABLES:
        context["outlet_events"][asset].extra = {"cluster": name, "lake": lake}
    if found["findings"]:
        call_hook("findings", context, **found)
    elif not found["status"]["new"] and not found["status"]["known"]:
        call_hook("clear", context, **found)  # an alarm can end
    return found


@task(multiple_outputs=False, outlets=[NIGHT], trigger_rule="none_failed_min_one_success")
def summary(answers: Any) -> list[dict[str, Any]]:
    """What the clusters' answers say: rows {cluster, valid, loss, findings, report, note}."""
    every = [answers] if isinstance(answers, dict) else answers  # Airflow gives the answer of a single cluster as such
    found = [{key: one[key] for key in ("cluster", "valid", "loss", "findings", "report", "note")} for one in every]
    for row in found:
        log.info("%s", row["note"])
    get_current_context()["outlet_events"][NIGHT].extra = {"clusters": [row["cluster"] for row in found]}
    return found


@task(multiple_outputs=False, trigger_rule="all_done")
def watch(hours: int) -> None:
    """Fail if the newest record of a cluster's metadata log is older, or the cluster has no lake. A backfill reads old
    captures, and is not watched."""
    params = run_params()
    names = params["clusters"] or folders_of(params["captures"])
    if names and get_current_context()["dag_run"].run_type != "backfill":
        lakes = [f"{params['lakes'].rstrip('/')}/{name}" for name in names]
        run_command("status", *lakes, "--max-age", f"{hours}h")


@task_group
def cluster(name: str, lake: str, arguments: list[str]) -> Any:
    """One cluster's application, and what it says."""
    return answer(name, lake, launch("run", arguments, name, **application_limits()))


with dag_of(
    "nightly",
    "Replay the metadata log of every Kafka cluster and report lost records that are new",
    __doc__,
    schedule=schedule("SCHEDULE", "@daily"),
    max_active_runs=setting("RUNS", 1, PositiveInt),
):
    answers = cluster.expand_kwargs(discover())
    summary(answers)
    if hours := setting("MAX_AGE_HOURS", 0, NonNegativeInt):
        answers >> watch(hours)
