"""The hook: one function of yours that hears of findings and failures (airflow_dags/README.md)."""

import pkgutil
import re
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from kraft_forensics_dags.settings import PREFIX, setting


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
