"""The hook: one function of yours that hears of findings and failures (airflow_dags/README.md)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from kraft_forensics_dags.settings import PREFIX, hook_name


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


def failure_callback() -> dict[str, Any]:
    """The arguments of every task that report its failure. Errors: ValueError if the setting is no `module:function`,
    which Airflow shows as an import error. Nothing is imported: the DAG processor may lack the hook's module."""
    hook_name()
    return {"on_failure_callback": on_failure}


def on_failure(context: Any) -> None:
    """Callback of a task that failed and is not tried again. Airflow logs the hook's errors."""
    call_hook("failure", context, text=str(context.get("exception") or "the task's process ended"))


def on_findings(answer: dict[str, Any]) -> None:
    """Call the hook for findings at or above `fail_on`. answer: what the task `answer` returns."""
    call_hook("findings", get_current_context(), **answer)


def on_clear(answer: dict[str, Any]) -> None:
    """Call the hook for a cluster whose findings are all acknowledged, or that has none: an alarm can end."""
    call_hook("clear", get_current_context(), **answer)
