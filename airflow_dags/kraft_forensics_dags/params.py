"""What the DAGs share: arguments, and parameters (params.toml)."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, get_current_context
from airflow.sdk.exceptions import AirflowFailException

from kraft_forensics_dags.hook import hook_name, on_failure
from kraft_forensics_dags.settings import json_object, number, setting, task_defaults

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
    tables = tomllib.loads(Path(__file__).with_name("params.toml").read_text(encoding="utf-8"))
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
    schema = _with_patterns(schema)
    if "setting" not in schema:
        return Param(**schema)
    name, default = schema.pop("setting"), schema.pop("default")
    if schema["type"] == "integer":
        return Param(number(name, default, schema["minimum"]), **schema)
    return Param(json_object(name) if schema["type"] == "object" else setting(name, default), **schema)


def _with_patterns(schema: dict[str, Any]) -> dict[str, Any]:
    filled = {key: _with_patterns(value) if isinstance(value, dict) else value for key, value in schema.items()}
    return filled | {"pattern": _PATTERNS[filled["pattern"]]} if "pattern" in filled else filled


def run_params() -> dict[str, Any]:
    """The parameters of the current run. An unknown key fails the task without a retry.

    Airflow accepts any additional key in a run's conf, so a misspelt key would silently leave the default.
    """
    context = get_current_context()
    params, known = dict(context["params"]), context["dag"].params
    if unknown := sorted(params.keys() - known.keys()):
        raise AirflowFailException(f"unknown key in the run's conf: {unknown}; it takes {sorted(known)}")
    return params
