"""Settings of the DAGs: KRAFT_FORENSICS_DAG_<name> in the environment in which Airflow parses the DAG files."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any

from airflow.sdk import CronDataIntervalTimetable

PREFIX = "KRAFT_FORENSICS_DAG_"


def setting(name: str, default: str) -> str:
    """The text of a setting."""
    return os.environ.get(PREFIX + name, default)


def number(name: str, default: int, least: int = 0) -> int:
    """A setting that is a whole number of at least `least`. Errors: ValueError with its name, which Airflow shows as an
    import error, as the other functions do."""
    text = setting(name, str(default))
    if not (text.isascii() and text.isdecimal() and int(text) >= least):
        raise ValueError(f"{PREFIX}{name} must be a whole number from {least}, not {text!r}")
    return int(text)


def json_object(name: str) -> dict[str, Any]:
    """A setting that is a JSON object; empty by default."""
    text = setting(name, "{}")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{PREFIX}{name} must be JSON, not {text!r}: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{PREFIX}{name} must be a JSON object, not {text!r}")
    return value


def choice(name: str, values: tuple[str, ...]) -> str:
    """A setting that is one of `values`; the first is the default."""
    text = setting(name, values[0])
    if text not in values:
        raise ValueError(f"{PREFIX}{name} must be one of {', '.join(values)}, not {text!r}")
    return text


def schedule(name: str, default: str) -> CronDataIntervalTimetable | None:
    """A cron expression or preset, in UTC; None for `none`: the DAG runs when it is triggered."""
    text = setting(name, default)
    return None if text == "none" else CronDataIntervalTimetable(text, timezone="UTC")


def task_defaults() -> dict[str, Any]:
    """Retries and limits of every task."""
    return {
        "retries": number("RETRIES", 2),
        "retry_delay": timedelta(seconds=number("RETRY_DELAY_SECONDS", 60)),
        "execution_timeout": timedelta(minutes=number("TIMEOUT_MINUTES", 360, least=1)),
    }


def application_limits() -> dict[str, Any]:
    """How many applications run at once: slots of a pool over all runs, and a number in each run."""
    return {"pool": setting("POOL", "default_pool"), "max_active_tis_per_dagrun": number("PARALLEL", 4, least=1)}
