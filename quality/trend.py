"""A static HTML page with the trend of quality: the newest runs, and how often each expectation was broken in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

MAX_RUNS = 30
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem; color: #1b1b1b; background: #fff }
.scroll { overflow-x: auto }
table { border-collapse: collapse; margin: 1rem 0 }
th, td { border: 1px solid #c8c8c8; padding: .2rem .5rem; text-align: left; vertical-align: top }
td.met { color: #1a6b2f } td.broken { background: #fbdcd8; font-weight: 600 } td.warned { background: #fdf0c9 }
"""

Row = Mapping[str, Any]


def page(cluster: str, results: Sequence[Row]) -> str:
    """The page. results: rows of quality_results of any runs; the newest MAX_RUNS are shown, newest first."""
    times = {row["run_id"]: row["run_at_ms"] for row in results}
    runs = sorted(times, key=lambda run: (times[run], run), reverse=True)[:MAX_RUNS]
    by_run = {run: {_name(row): row for row in results if row["run_id"] == run} for run in runs}
    newest = by_run[runs[0]] if runs else {}
    broken = [row for row in newest.values() if not row["success"]]
    names = sorted({n for rows in by_run.values() for n, row in rows.items() if not row["success"]})
    parts = [
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Quality of {escape(cluster)}</title>",
        f"<style>{_STYLE}</style></head><body><h1>Quality of {escape(cluster)}</h1>",
        f"<p>{len(newest) - len(broken)} of {len(newest)} expectations are met. <a href='index.html'>Data Docs</a></p>",
        "<h2>Not met</h2>",
        _broken(broken),
        "<h2>Runs</h2>",
        _runs(runs, by_run, times),
        f"<h2>Expectations that were broken in the last {MAX_RUNS} runs</h2>",
        _grid(names, runs, by_run, times) if names else "<p>None.</p>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _name(row: Row) -> str:
    return f"{row['table']}.{row['expectation']}"


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _broken(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>None.</p>"
    lines = [
        f"<tr><td>{escape(_name(row))}</td><td>{escape(row['severity'] or '')}</td><td>{row['unexpected_count']}</td>"
        f"<td>{'<br>'.join(escape(key) for key in row['sample'] or [])}</td><td>{escape(row['action'] or '')}</td></tr>"
        for row in sorted(rows, key=_name)
    ]
    return _table(("Expectation", "Severity", "Rows", "First rows", "What to do"), lines)


def _runs(runs: Sequence[str], by_run: Mapping[str, Mapping[str, Row]], times: Mapping[str, int]) -> str:
    lines = []
    for run in runs:
        rows = by_run[run].values()
        failed = [row for row in rows if not row["success"]]
        errors = sum(row["severity"] != "warn" for row in failed)
        suites = {row["suite_fingerprint"] for row in rows}
        lines.append(
            f"<tr><td>{_time(times[run])}</td><td>{escape(run)}</td><td>{len(rows)}</td><td>{errors}</td>"
            f"<td>{len(failed) - errors}</td><td>{sum(row['element_count'] or 0 for row in rows)}</td>"
            f"<td>{escape(', '.join(sorted(suites)))}</td></tr>"
        )
    return _table(("Time (UTC)", "Run", "Expectations", "Not met", "Warnings", "Rows checked", "Suites"), lines)


def _grid(
    names: Sequence[str], runs: Sequence[str], by_run: Mapping[str, Mapping[str, Row]], times: Mapping[str, int]
) -> str:
    lines = []
    for name in names:
        cells = []
        for run in runs:
            row = by_run[run].get(name)
            state = (
                "" if row is None else "met" if row["success"] else "warned" if row["severity"] == "warn" else "broken"
            )
            cells.append(f"<td class='{state}'>{'' if row is None else row['unexpected_count']}</td>")
        lines.append(f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>")
    return _table(("Rows that broke it", *(_time(times[run]) for run in runs)), lines)


def _table(head: Sequence[str], lines: Sequence[str]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f"<div class='scroll'><table><tr>{cells}</tr>{''.join(lines)}</table></div>"
