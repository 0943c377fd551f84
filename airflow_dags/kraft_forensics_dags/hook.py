"""The hook: one function of yours that hears of findings and failures (airflow_dags/README.md)."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from kraft_forensics_dags.settings import PREFIX, setting


def hook_name() -> str:
    """KRAFT_FORENSICS_DAG_HOOK: `module:function`, or an empty text without a hook. Errors: ValueError."""
    text = setting("HOOK", "")
    if text and not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", text):
        raise ValueError(f"{PREFIX}HOOK must be module:function, not {text!r}")
    return text


def call_hook(event: str, context: Any, **details: Any) -> None:
    """Call KRAFT_FORENSICS_DAG_HOOK, if it is set, with one dictionary: `event`, where it happened, and `details`.
    Errors: those of the hook."""
    if not (hook := load_hook()):
        return
    task = context["ti"]
    place = {key: getattr(task, key, None) for key in ("dag_id", "run_id", "task_id", "map_index", "try_number")}
    hook({"event": event, **place, **details})


def load_hook() -> Callable[[dict[str, Any]], object] | None:
    """The function that KRAFT_FORENSICS_DAG_HOOK names; None if it is not set. Errors: ValueError if it is no
    `module:function`, ImportError, AttributeError."""
    module, _, function = hook_name().partition(":")
    return getattr(importlib.import_module(module), function) if module else None


def require_hook() -> None:
    """Check in a run's first task that this worker has the hook: else a finding would be lost after hours of work.
    Errors: AirflowFailException, whatever the hook's module raises."""
    try:
        hook = load_hook()
    except Exception as error:
        raise AirflowFailException(
            f"{PREFIX}HOOK: {hook_name()} cannot be imported on this worker: {type(error).__name__}: {error}"
        ) from error
    if hook is not None and not callable(hook):
        raise AirflowFailException(f"{PREFIX}HOOK: {hook_name()} is no function")


def on_failure(context: Any) -> None:
    """Callback of a task that failed and is not tried again. Airflow logs the hook's errors."""
    call_hook("failure", context, text=str(context.get("exception") or "the task's process ended"))
