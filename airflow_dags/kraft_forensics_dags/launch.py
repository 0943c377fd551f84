"""One task that runs one command of `kraft-forensics`, where KRAFT_FORENSICS_DAG_LAUNCHER says: on the worker (local),
as a Spark application (spark-submit) or in a pod (kubernetes)."""

from __future__ import annotations

from typing import Any

from airflow.sdk import get_current_context, task

from kraft_forensics_dags.command import run_command
from kraft_forensics_dags.settings import choice

LOCAL, SPARK_SUBMIT, KUBERNETES = LAUNCHERS = ("local", "spark-submit", "kubernetes")


@task(multiple_outputs=False, map_index_template="{{ label }}")
def local(arguments: list[str], label: str) -> dict[str, Any]:
    """Run the command on this worker, in the job's own virtual environment."""
    get_current_context()["label"] = label
    return run_command(*arguments)[0]


def launch(task_id: str, arguments: Any, label: Any, **options: Any) -> Any:
    """The result of a task that runs a command: {command, exit_code, findings}.

    arguments: the command and its arguments, never an option of Airflow; label: the cluster's name, shown in Airflow's
    pages; both may come from another task. options: of the task (pool, retries).
    """
    launcher = choice("LAUNCHER", LAUNCHERS)
    if launcher == SPARK_SUBMIT:
        from kraft_forensics_dags.spark_submit import submit

        return submit(task_id, arguments, label, **options)
    if launcher == KUBERNETES:
        from kraft_forensics_dags.kubernetes_pod import pod

        return pod(task_id, arguments, label, **options)
    return local.override(task_id=task_id, **options)(arguments, label)
