"""What the DAGs share: arguments, and schemas of parameters. Airflow checks a run's conf against these before the run
starts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import Param, get_current_context
from airflow.sdk.exceptions import AirflowFailException

from kraft_forensics_dags.hook import hook_name, on_failure
from kraft_forensics_dags.settings import task_defaults

# Not empty, no NUL (it ends an argument), and not an option.
PATH_PATTERN = r"^(?!-)[^\u0000]+$"
# A folder's name that is safe in a path and as an argument.
CLUSTER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

# The levels of --fail-on: verdicts and severities, of all findings or of new ones.
_LEVELS = ["unknown", "possible", "proven", "critical", "high", "medium", "low", "info"]
LEVELS = ["none", *_LEVELS, *(f"new-{level}" for level in _LEVELS)]


def of_every_dag() -> dict[str, Any]:
    """The arguments of each DAG. Its tasks report their failure. Errors: ValueError for a wrong setting, which Airflow
    shows as an import error. The hook is not imported: the DAG processor may lack its module."""
    hook_name()
    return {
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "catchup": False,
        "default_args": task_defaults() | {"on_failure_callback": on_failure},
        "tags": ["kafka", "kraft", "forensics"],
    }


def path_param(default: str, description: str) -> Param:
    """A path as the worker sees it, or a URL."""
    return Param(default, description, type="string", pattern=PATH_PATTERN)


def run_params(schema: dict[str, Param]) -> dict[str, Any]:
    """The parameters of the current run. An unknown key fails the task without a retry.

    Airflow accepts any additional key in a run's conf, so a misspelt key would silently leave the default.
    """
    params = dict(get_current_context()["params"])
    if unknown := sorted(params.keys() - schema.keys()):
        raise AirflowFailException(f"unknown key in the run's conf: {unknown}; it takes {sorted(schema)}")
    return params
