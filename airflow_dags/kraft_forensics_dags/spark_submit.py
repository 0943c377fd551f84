"""The command as a Spark application: Airflow's SparkSubmitOperator, in client mode so that its exit code arrives.

Needs the package apache-airflow-providers-apache-spark and a `spark-submit`. KRAFT_FORENSICS_DAG_OPERATOR has the
operator's own arguments, as JSON: `conn_id`, `conf`, `archives`, `env_vars` and so on.
"""

from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from kraft_forensics_dags.command import ended
from kraft_forensics_dags.launch import Lineage
from kraft_forensics_dags.params import JsonObject, setting

DRIVER = Path(__file__).with_name("driver.py")


class SubmitCommand(Lineage, SparkSubmitOperator):
    """spark-submit of one command. Returns what a local command returns."""

    command_field = "application_args"

    def __init__(self, *, arguments: Any, label: Any, **options: Any) -> None:
        super().__init__(
            application=str(DRIVER),
            application_args=arguments,
            name=label,  # of a mapped task, and of the application in Spark's own pages
            deploy_mode="client",
            map_index_template="{{ label }}",
            **(setting("OPERATOR", {}, JsonObject) | options),
        )

    def execute(self, context: Any) -> dict[str, Any]:
        context["label"] = self.name
        command = str(self.application_args[0])
        try:
            super().execute(context)
        except AirflowException as error:
            process = getattr(self._hook, "_submit_sp", None)
            if process is None or not process.returncode:
                raise  # it has not even started
            return ended(command, process.returncode, [str(error)])
        finally:
            if process := getattr(self._hook, "_submit_sp", None):
                process.stdout.close()  # the hook leaves it open
        return ended(command, 0, [])
