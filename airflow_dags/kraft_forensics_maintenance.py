"""Every week: compact the tables of every lake, delete files that no commit needs, and verify the tables.

`discover >> lake[name]: forget >> maintain >> verify`

`forget` does something only if `forget_days` is set: what older captures brought is removed from the lake, their
findings stay. Captures are not touched. `airflow_dags/README.md` describes parameters and settings.
"""

from typing import Any

from airflow.sdk import chain, task, task_group
from kraft_forensics_dags.captures import folders_of
from kraft_forensics_dags.launch import launch
from kraft_forensics_dags.params import application_limits, dag_of, run_params, schedule


@task(multiple_outputs=False)
def discover() -> list[dict[str, Any]]:
    """One {name, forget, maintain, verify} for each lake: the arguments of its commands. Without `forget_days` the
    first one is `status`, which only reads."""
    params = run_params()
    days, age = str(params["retention_days"]), params["forget_days"]
    return [
        {
            "name": name,
            "forget": ["forget", "--older-than", f"{age}d", "--keep-findings", "--yes", "--lake", lake]
            if age
            else ["status", lake],
            "maintain": ["maintain", "--lake", lake, "--retention-days", days],
            "verify": ["verify", "--lake", lake],
        }
        for name, lake in folders_of(params["lakes"]).items()
    ]


@task_group
def lake(name: str, forget: list[str], maintain: list[str], verify: list[str]) -> None:
    """What is done with one lake."""
    limits = application_limits()
    steps = {"forget": forget, "maintain": maintain, "verify": verify}
    chain(*(launch(step, arguments, name, **limits) for step, arguments in steps.items()))


with dag_of(
    "maintenance",
    "Compact and verify the tables of every lake",
    __doc__,
    schedule=schedule("MAINTENANCE_SCHEDULE", "@weekly"),
):
    lake.expand_kwargs(discover())
