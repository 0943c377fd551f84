"""A static HTML page with the trend of quality: the newest runs, and how often each expectation was broken in them."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment

MAX_RUNS = 30

Row = Mapping[str, Any]


def page(cluster: str, results: Sequence[Row]) -> str:
    """The page. results: rows of quality_results of any runs; the newest MAX_RUNS are shown, newest first."""
    times = {row["run_id"]: row["run_at_ms"] for row in results}
    ids = sorted(times, key=lambda run: (times[run], run), reverse=True)[:MAX_RUNS]
    runs = [_run(run, times[run], [row for row in results if row["run_id"] == run]) for run in ids]
    newest = [runs[0]["rows"][name] for name in sorted(runs[0]["rows"])] if runs else []
    names = sorted({name for run in runs for name, row in run["rows"].items() if not row["success"]})
    broken = [row for row in newest if not row["success"]]
    template = (files("quality") / "trend.html.j2").read_text("utf-8")
    made = Environment(autoescape=True, trim_blocks=True, keep_trailing_newline=True).from_string(template)
    return made.render(cluster=cluster, newest=newest, broken=broken, runs=runs, names=names, most=MAX_RUNS)


def _run(run_id: str, at_ms: int, results: Sequence[Row]) -> Row:
    """What the page shows of a run. rows: by the expectation's full name. states: met, warned or broken."""
    rows = {f"{row['table']}.{row['expectation']}": row for row in results}
    rows = {name: {**row, "name": name, "state": _state(row)} for name, row in rows.items()}
    return {
        "id": run_id,
        "time": datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "rows": rows,
        "states": [row["state"] for row in rows.values()],
        "checked": sum(row["element_count"] or 0 for row in rows.values()),
        "suites": sorted({row["suite_fingerprint"] for row in rows.values()}),
    }


def _state(row: Row) -> str:
    return "met" if row["success"] else "warned" if row["severity"] == "warn" else "broken"
