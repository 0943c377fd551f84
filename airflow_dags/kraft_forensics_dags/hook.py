"""The hook: one function of yours that hears of findings and failures (airflow_dags/README.md)."""

from __future__ import annotations

import importlib
from typing import Any

from airflow.sdk import get_current_context

from kraft_forensics_dags.settings import hook_name


def call_hook(event: str, context: Any, **details: Any) -> None:
    """Call KRAFT_FORENSICS_DAG_HOOK, if it is set, with one dictionary: `event`, where it happened, and `details`.
    Errors: those of the hook."""
    name = hook_name()
    if not name:
        return
    module, _, function = name.partition(":")
    task = context["ti"]
    place = {key: getattr(task, key, None) for key in ("dag_id", "run_id", "task_id", "map_index", "try_number")}
    getattr(importlib.import_module(module), function)({"event": event, **place, **details})


def on_failure(context: Any) -> None:
    """Callback of a task that failed and is not tried again. Airflow logs the hook's errors."""
    call_hook("failure", context, text=str(context.get("exception") or "the task's process ended"))


def on_findings(answer: dict[str, Any]) -> None:
    """Call the hook for findings at or above `fail_on`. answer: what the task `answer` returns."""
    call_hook("findings", get_current_context(), **answer)
