"""What the DAGs share: settings (KRAFT_FORENSICS_DAG_<name> in the environment in which Airflow parses the DAG files),
parameters (params.toml), and the hook: one function of yours that hears of findings and failures
(airflow_dags/README.md)."""

import os
import pkgutil
import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from string import Template
from typing import Annotated, Any

from airflow.sdk import DAG, CronDataIntervalTimetable, Param, get_current_context
from airflow.sdk.exceptions import AirflowFailException
from pydantic import Field, Json, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError

PREFIX = "KRAFT_FORENSICS_DAG_"
JsonObject = Json[dict[str, Any]]


def setting(name: str, default: Any, kind: Any = str) -> Any:
    """A setting, as pydantic reads a text of this type. Errors: ValueError with its name, which Airflow shows as an
    import error."""
    text = os.environ.get(PREFIX + name)
    if text is None:
        return default
    try:
        return TypeAdapter(kind).validate_python(text)
    except ValidationError as error:
        raise ValueError(f"{PREFIX}{name}: {error.errors()[0]['msg']}, not {text!r}") from None


def schedule(name: str, default: str) -> CronDataIntervalTimetable | None:
    """A cron expression or preset, in UTC; None for `none`: the DAG runs when it is triggered."""
    text = setting(name, default)
    return None if text == "none" else CronDataIntervalTimetable(text, timezone="UTC")


def task_defaults() -> dict[str, Any]:
    """Retries and limits of every task."""
    return {
        "retries": setting("RETRIES", 2, NonNegativeInt),
        "retry_delay": timedelta(seconds=setting("RETRY_DELAY_SECONDS", 60, NonNegativeInt)),
        "execution_timeout": timedelta(minutes=setting("TIMEOUT_MINUTES", 360, PositiveInt)),
    }


def application_limits() -> dict[str, Any]:
    """How many applications run at once: slots of a pool over all runs, and a number in each run."""
    return {"pool": setting("POOL", "default_pool"), "max_active_tis_per_dagrun": setting("PARALLEL", 4, PositiveInt)}


def hook_name() -> str:
    """KRAFT_FORENSICS_DAG_HOOK: `module:function`, or an empty text without a hook. Errors: ValueError."""
    text = setting("HOOK", "")
    if text and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", text):
        raise ValueError(f"{PREFIX}HOOK must be module:function, not {text!r}")
    return str(text)


def call_hook(event: str, context: Any, **details: Any) -> None:
    """Call KRAFT_FORENSICS_DAG_HOOK, if it is set, with one dictionary: `event`, where it happened, and `details`.
    Errors: those of the hook; ValueError if it is no `module:function`, ImportError, AttributeError."""
    if name := hook_name():
        task = context["ti"]
        keys = ("dag_id", "run_id", "task_id", "map_index", "rendered_map_index", "try_number")
        place = {key: getattr(task, key, None) for key in keys}
        pkgutil.resolve_name(name)({"event": event, **place, **details})


def require_hook() -> None:
    """Check in a run's first task that this worker has the hook: else a finding would be lost after hours of work.
    Errors: AirflowFailException, whatever the hook's module raises."""
    if not (name := hook_name()):
        return
    try:
        hook = pkgutil.resolve_name(name)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise AirflowFailException(f"{PREFIX}HOOK: {name} cannot be imported on this worker: {why}") from error
    if not callable(hook):
        raise AirflowFailException(f"{PREFIX}HOOK: {name} is no function")


def on_failure(context: Any) -> None:
    """Callback of a task that failed and is not tried again. Airflow logs the hook's errors."""
    call_hook("failure", context, text=str(context.get("exception") or "the task's process ended"))


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
