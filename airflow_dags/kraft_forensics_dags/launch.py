"""One task that runs one command of `kraft-forensics`, where KRAFT_FORENSICS_DAG_LAUNCHER says: on the worker (local),
as a Spark application (spark-submit) or in a pod (kubernetes).

All operators that run a command fail instead, if a task before says so, and tell Airflow's OpenLineage provider what a
run reads and writes. The provider asks an operator by the method `get_openlineage_facets_on_complete`; without it
nobody calls this. Sources: the provider's guide "Implementing OpenLineage in Operators"; OpenLineage's spec of dataset
names.
"""

import json
import pkgutil
from typing import Any, Literal
from urllib.parse import urlsplit

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from kraft_forensics_dags.command import printable, run_command, without_secrets
from kraft_forensics_dags.params import setting

FAIL = "fail"  # instead of a command: with a message
_COUNTED = ("answer", "lost_records", "proven", "open", "excluded", "new")


class Lineage:
    """A mixin for operators that run a command. command_field: the attribute that has the command and its arguments."""

    command_field = "arguments"

    def pre_execute(self, context: Any) -> None:
        """Errors: AirflowFailException with the message that stands instead of a command."""
        first, *others = getattr(self, self.command_field)
        if first == FAIL:
            context["label"] = others[0]
            raise AirflowFailException(others[0])

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """The provider's OperatorLineage of `run --lake LAKE ... -- CAPTURE...`; None for any other command.

        Inputs: the captures. Outputs: the lake's tables that have rows, with the facet outputStatistics: rows, bytes
        and files as they are now. Run facet `kraft_forensics`: of each cluster `cluster_id`, `valid` and what `status`
        calls `found` (docs/operations.md). Errors: as `run_command`; the provider logs them, and the task succeeds.
        """
        words = list(getattr(self, self.command_field))
        if words[0] != "run":
            return None
        from airflow.providers.openlineage.extractors import OperatorLineage
        from openlineage.client.event_v2 import InputDataset, OutputDataset
        from openlineage.client.facet_v2 import RunFacet, output_statistics_output_dataset

        lake, captures = words[words.index("--lake") + 1], words[words.index("--") + 1 :]
        status = json.loads(run_command("status", lake, "--tables", "--format", "json", quiet=True)[1])["lakes"][0]
        outputs = []
        for table in status["tables"]:
            namespace, name = _dataset(f"{lake.rstrip('/')}/{table['table']}")
            size = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=table["rows"], size=table["bytes"], fileCount=table["files"]
            )
            if table["rows"]:
                outputs.append(OutputDataset(namespace, name, outputFacets={"outputStatistics": size}))
        clusters = [
            {"cluster_id": each["cluster_id"], "valid": each["valid"], **{key: each["found"][key] for key in _COUNTED}}
            for each in status["clusters"]
        ]
        facet = RunFacet().with_additional_properties(clusters=clusters)
        inputs = [InputDataset(*_dataset(capture)) for capture in captures]
        return OperatorLineage(inputs=inputs, outputs=outputs, run_facets={"kraft_forensics": facet})


def _dataset(place: str) -> tuple[str, str]:
    """Namespace and name of a path or URL: `file` and the path, or `s3://bucket` and the key. No secret of a URL."""
    url = urlsplit(without_secrets(place))
    if url.scheme and url.netloc:
        return f"{url.scheme}://{url.netloc}", printable(url.path.lstrip("/"))
    return "file", printable(place)


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
