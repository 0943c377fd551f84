"""Settings of the DAGs: KRAFT_FORENSICS_DAG_<name> in the environment in which Airflow parses the DAG files."""

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import CronDataIntervalTimetable
from pydantic import Json, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError

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
