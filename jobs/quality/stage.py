"""Quality: check every table against its suite -> quality_results, Data Docs and a page with the trend."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from evidence.capture.remote import Location
from jobs.config.settings import Settings, SettingsError
from jobs.console.log import show_message
from jobs.lake.data_files import write_file
from jobs.lake.integrity import completion, input_fingerprint, is_up_to_date
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import undisturbed
from jobs.lake.storage import within
from jobs.lake.tables import CHECKED, DETECTED, INGESTED, QUALITY_RESULTS, REPLAYED, TABLES
from jobs.quality.library import prepare, run_suites
from jobs.quality.source import source_of
from jobs.report.rendering import rendered
from jobs.views.in_duckdb import ask
from quality.check import Check, Outcome, checks, fingerprint
from quality.run import Outcomes, run

DOCS, _TREND = "_data_docs", "trend.html"
RESULTS = "quality_results"
# The tables of findings seen and acknowledged are checked, too, but nothing is checked again because of them.
_INPUTS = (*INGESTED, *REPLAYED, *DETECTED)
_SHOWN = 3  # rows that a message names
_MOST_RUNS = 30  # of the page with the trend


@dataclass(frozen=True, slots=True)
class QualityResult:
    """The result of a check. failed: the unmet expectations that fail a run, each as a line. write_docs: to be called,
    in any thread: writes Data Docs, unless they are there; returns where they are."""

    cluster_id: str
    expectations: int
    failed: list[str]
    write_docs: Callable[[], Location]
    up_to_date: bool


@undisturbed
def run_quality(lake: Lake, cluster: str, settings: Settings, progress: Callable[[str], None]) -> QualityResult:
    """Check one cluster's tables, unless they are unchanged since the last check and its Data Docs were written.

    Errors: SettingsError if quality.severity names an expectation that there is not.
    """
    suites, warns = {table: fingerprint(table) for table in TABLES}, _warns(settings)
    parameters = (*suites.values(), *sorted(warns.items()), settings.quality)
    since, inputs = lake.cluster_version(RESULTS, cluster), input_fingerprint(lake, cluster, _INPUTS, parameters)
    up_to_date = is_up_to_date(lake, cluster, CHECKED, inputs) and lake.storage.has(f"{DOCS}/{cluster}/{_TREND}")
    docs = partial(within, lake.root, f"{DOCS}/{cluster}/index.html")
    run_id = lake.made(RESULTS, cluster).get("run_id", "")
    if not up_to_date:
        progress(f"{cluster}: checking all tables")
        run_id = uuid4().hex[:16]
        prepare()
        found = run(checks(), source_of(lake, cluster, checks(), settings), settings.quality.model_dump())
        when = {"run_id": run_id, "run_at_ms": time.time_ns() // 1_000_000}
        rows = [when | _row(check, found[check.full_name], warns, suites) for check in checks()]
        file = write_file(lake.storage, RESULTS, pa.Table.from_pylist(rows, schema=QUALITY_RESULTS))
        lake.storage.empty(f"{DOCS}/{cluster}")
        about = {"run_id": run_id, **completion(lake, cluster, _INPUTS, CHECKED, inputs)}
        lake.commit(RESULTS, cluster, [file], about=about, since=since)
        newest = ask("quality/newest_runs", (lake, cluster), {"most": _MOST_RUNS})
        trend = rendered(f"{_TREND}.j2", cluster=cluster, rows=newest, most=_MOST_RUNS)
        docs = partial(_write_docs, lake, cluster, found, warns, trend)
    results = lake.rows(RESULTS, cluster, where=pc.field("run_id") == run_id)
    failed = []
    for row in sorted((r for r in results if not r["success"]), key=lambda r: (r["table"], r["expectation"])):
        if row["severity"] == "warn":
            show_message(f"quality: warning: {_line(row)}")
        else:
            failed.append(_line(row))
    return QualityResult(cluster, len(results), failed, docs, up_to_date)


def _write_docs(lake: Lake, cluster: str, found: Outcomes, warns: Mapping[str, bool], trend: str) -> Location:
    """trend: the page that is written last: with it all are there."""
    with TemporaryDirectory() as folder:
        met = run_suites(checks(), found, warns, Path(folder))
        assert met == {name: not outcome.broken for name, outcome in found.items()}
        lake.storage.copy_in(Path(folder), f"{DOCS}/{cluster}")
    with lake.storage.new(f"{DOCS}/{cluster}/{_TREND}") as target:
        target.write(trend.encode())
    return within(lake.root, f"{DOCS}/{cluster}/index.html")


def _warns(settings: Settings) -> dict[str, bool]:
    """By full name, whether an expectation only warns."""
    warns = {check.full_name: check.warns for check in checks()}
    for name, severity in settings.quality.severity.items():
        if name not in warns:
            raise SettingsError(f"setting quality.severity: no expectation has the name {name} (docs/quality.md)")
        warns[name] = severity == "warn"
    return warns


def _row(check: Check, outcome: Outcome, warns: Mapping[str, bool], suites: Mapping[str, str]) -> Row:
    """Of quality_results, but for the run."""
    return {
        "suite": check.table,
        "suite_fingerprint": suites[check.table],
        "table": check.table,
        "expectation": check.name,
        "kind": str(check.kind),
        "column": ",".join(check.key),
        "severity": "warn" if warns[check.full_name] else "error",
        "success": not outcome.broken,
        "unexpected_count": outcome.broken,
        "element_count": outcome.checked,
        "sample": outcome.sample,
        "action": check.action,
        "details": json.dumps(outcome.measured),
    }


def _line(row: Row) -> str:
    """An unmet expectation: the table, the first rows, and what to do."""
    named = "; ".join(row["sample"][:_SHOWN])
    more = f"; and {row['unexpected_count'] - _SHOWN} more" if row["unexpected_count"] > _SHOWN else ""
    counts = f"{row['unexpected_count']} of {row['element_count']} rows"
    return f"{row['table']}.{row['expectation']}: {counts} ({named}{more}). {row['action']}"
