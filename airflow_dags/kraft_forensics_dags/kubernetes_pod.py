"""The command in a pod of its own: Airflow's KubernetesPodOperator.

Needs the package apache-airflow-providers-cncf-kubernetes. KRAFT_FORENSICS_DAG_OPERATOR has the operator's own
arguments, as JSON: `image` (with `kraft-forensics` on PATH), `namespace`, `env_from` and so on.
"""

from typing import Any

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator

from kraft_forensics_dags.launch import Lineage
from kraft_forensics_dags.params import JsonObject, setting

# Findings (3) end the pod well; its exit code becomes the task's result.
SCRIPT = """
kraft-forensics "$@"; code=$?
if [ $code = 3 ]; then findings=true; else findings=false; fi
mkdir -p /airflow/xcom
printf '{"command": "%s", "exit_code": %d, "findings": %s}' "$1" $code $findings > /airflow/xcom/return.json
[ $code = 3 ] || exit $code
"""


class PodCommand(Lineage, KubernetesPodOperator):
    """A pod that runs one command."""

    def __init__(self, *, task_id: str, arguments: Any, label: Any, **options: Any) -> None:
        super().__init__(
            task_id=task_id,
            cmds=["sh", "-c", SCRIPT, "kraft-forensics"],
            arguments=arguments,
            name=f"kraft-forensics-{task_id}",
            # A label's value has at most 63 characters and ends with a letter or digit; not every cluster's name does.
            annotations={"kraft-forensics/cluster": label},
            do_xcom_push=True,
            map_index_template="{{ task.annotations['kraft-forensics/cluster'] }}",
            **(setting("OPERATOR", {}, JsonObject) | options),
        )

    def build_pod_request_obj(self, context: Any = None) -> Any:
        """The pod, with every `$` of the arguments doubled: Kubernetes replaces `$(NAME)` in them by a variable of the
        container, and `$$` by `$`, so that a capture's name could show a secret."""
        request = super().build_pod_request_obj(context)
        for container in request.spec.containers:
            if container.name == self.base_container_name:
                container.args = [word.replace("$", "$$") for word in container.args]
        return request
