"""One task that runs one command of `kraft-forensics`, where KRAFT_FORENSICS_DAG_LAUNCHER says: on the worker (local),
as a Spark application (spark-submit) or in a pod (kubernetes)."""

import pkgutil
from typing import Any, Literal

from airflow.sdk import BaseOperator

from kraft_forensics_dags.command import run_command
from kraft_forensics_dags.lineage import Lineage
from kraft_forensics_dags.settings import setting


class LocalCommand(Lineage, BaseOperator):
    """Runs the command on this worker, in the job's own virtual environment."""

    template_fields = ("arguments", "shown_as")  # other tasks' results; what these hold is not rendered

    def __init__(self, *, arguments: Any, label: Any, **options: Any) -> None:
        super().__init__(map_index_template="{{ label }}", **options)
        self.arguments = arguments
        self.shown_as = label

    def execute(self, context: Any) -> dict[str, Any]:
        context["label"] = self.shown_as
        return run_command(*self.arguments)[0]


# The operator of each launcher; those of providers are imported where they are chosen.
LAUNCHERS = {
    "local": "kraft_forensics_dags.launch:LocalCommand",
    "spark-submit": "kraft_forensics_dags.spark_submit:SubmitCommand",
    "kubernetes": "kraft_forensics_dags.kubernetes_pod:PodCommand",
}


def launch(task_id: str, arguments: Any, label: Any, **options: Any) -> Any:
    """The result of a task that runs a command: {command, exit_code, findings}.

    arguments: the command and its arguments, never an option of Airflow; label: the cluster's name, shown in Airflow's
    pages; both may come from another task. options: of the task (pool, retries).
    """
    operator = pkgutil.resolve_name(LAUNCHERS[setting("LAUNCHER", "local", Literal[tuple(LAUNCHERS)])])
    return operator(task_id=task_id, arguments=arguments, label=label, **options).output
