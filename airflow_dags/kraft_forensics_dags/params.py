"""What the DAGs share: arguments, and parameters (params.toml)."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from typing import Annotated, Any

from airflow.sdk import DAG, Param, get_current_context
from airflow.sdk.exceptions import AirflowFailException
from pydantic import Field

from kraft_forensics_dags.hook import hook_name, on_failure, require_hook
from kraft_forensics_dags.settings import JsonObject, setting, task_defaults

# A folder's name that is safe in a path and as an argument.
CLUSTER_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_PATTERNS = {
    "path": r"^(?!-)[^\u0000]+$",  # a path as the worker sees it, or a URL: no NUL (it ends an argument), no option
    "cluster": CLUSTER_PATTERN,
    "time": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:?\d{2})?$",
}


def dag_of(name: str, description: str, doc: str | None, **options: Any) -> DAG:
    """The DAG of that name in params.toml. Its tasks report their failure.

    Errors: ValueError for a wrong setting, which Airflow shows as an import error. The hook is not imported: the DAG
    processor may lack its module.
    """
    hook_name()
    text = Path(__file__).with_name("params.toml").read_text(encoding="utf-8")
    tables = tomllib.loads(Template(text).substitute(_PATTERNS))
    return DAG(
        f"kraft_forensics_{name}",
        description=description,
        doc_md=doc,
        params={key: _param(schema) for key, schema in tables[name].items()},
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        default_args=task_defaults() | {"on_failure_callback": on_failure},
        tags=["kafka", "kraft", "forensics"],
        **({"max_active_runs": 1} | options),
    )


def _param(schema: dict[str, Any]) -> Param:
    """A parameter without a setting must be given. Errors: ValueError for a wrong setting."""
    if "setting" not in schema:
        return Param(**schema)
    kinds = {"integer": Annotated[int, Field(ge=schema.get("minimum"))], "object": JsonObject}
    value = setting(schema.pop("setting"), schema.pop("default"), kinds.get(schema["type"], str))
    return Param(value, **schema)


def run_params() -> dict[str, Any]:
    """The parameters of the current run, once it is sure that the hook can be called. An unknown key fails the task
    without a retry: Airflow accepts any in a run's conf, so a misspelt one would silently leave the default."""
    require_hook()
    context = get_current_context()
    params, known = dict(context["params"]), context["dag"].params
    if unknown := sorted(params.keys() - known.keys()):
        raise AirflowFailException(f"unknown key in the run's conf: {unknown}; it takes {sorted(known)}")
    return params
