"""Print the state of lakes as tables that fit the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobs.console.output import print_table, printable, utc

Row = dict[str, Any]
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def print_status(lakes: Sequence[Row]) -> None:
    """For each lake a table of clusters, one of evidence and one of sizes, and those of runs and captures that it has.
    lakes: of status.py:status_of."""
    for number, lake in enumerate(lakes):
        if number:
            print()
        title = f"lake {printable(lake['lake'])}"
        if lake["clusters"]:
            print_table(list(_CLUSTER), [_cluster(c) for c in lake["clusters"]], title, _DROP)
        else:
            print(f"{title}: no captures")
        for title, rows in (
            ("newest runs", [_run(row) for row in lake["runs"]]),
            ("captures", [_capture(row) for row in lake["captures"]]),
            ("evidence", [_evidence(c, row) for c in lake["clusters"] for row in c["evidence"]]),
        ):
            if rows:
                print()
                print_table(list(rows[0]), rows, title, _LESS.get(title))
        more = "" if lake["other_bytes"] is None else f", {_size(lake['other_bytes'])} beside them"
        print()
        title = f"tables: {_size(lake['bytes'])}{more}"
        sizes = [{**row, "bytes": _size(row["bytes"])} for row in lake["tables"]]
        print_table(["table", "rows", "files", "bytes"], sizes, title)


_CLUSTER = ("cluster", "captures", "last run", "ended (UTC)", "outcome", "exit", "valid", "out of date")
_DROP = ("captures", "exit", "outcome", "last run")
# Columns that a narrow table leaves out.
_LESS = {
    "newest runs": ("exit", "captures", "took", "valid"),
    "captures": ("nodes", "Kafka", "until (UTC)", "size"),
}
_EVIDENCE = ("cluster", "kind", "files", "newest (UTC)", "age")


def _cluster(row: Row) -> Row:
    run = row["last_run"] or {}
    values = (
        row["cluster_id"],
        row["captures"],
        run.get("command", "none"),
        utc(run.get("ended_ms")),
        run.get("outcome", ""),
        run.get("exit_code"),
        row["valid"] or "not judged",
        "; ".join(f"{each['stage']}: {each['because']}" for each in row["out_of_date"]) or "nothing",
    )
    return dict(zip(_CLUSTER, values, strict=True))


def _run(row: Row) -> Row:
    return {
        "run": row["command"],
        "cluster": row["cluster_id"],
        "started (UTC)": utc(row["started_ms"]),
        "took": f"{(row['ended_ms'] - row['started_ms']) / 1000:.1f} s",
        "captures": ", ".join(row["captures"] or []),
        "outcome": row["outcome"],
        "exit": row["exit_code"],
        "valid": row["valid"] or "",
        "error": row["error"] or "",
    }


def _capture(row: Row) -> Row:
    return {
        "capture": row["capture"],
        "cluster": row["cluster_id"],
        "files": row["files"],
        "size": "" if row["size_bytes"] is None else _size(row["size_bytes"]),
        "nodes": ", ".join(map(str, row["nodes"] or [])),
        "Kafka": row["kafka_release"] or "",
        "captured (UTC)": utc(row["first_captured_ms"]),
        "until (UTC)": utc(row["last_captured_ms"]),
        "ingested (UTC)": utc(row["ingested_ms"]),
    }


def _evidence(cluster: Row, row: Row) -> Row:
    values = (cluster["cluster_id"], row["kind"], row["files"], utc(row["newest_ms"]), _age(row["age_ms"]))
    return dict(zip(_EVIDENCE, values, strict=True))


def _age(age_ms: int | None) -> str:
    """An age in its largest unit; '' for None."""
    if age_ms is None:
        return ""
    for unit_ms, name in _UNITS:
        if age_ms >= unit_ms:
            return f"{age_ms // unit_ms} {name}"
    return "0 s"


def _size(count: int) -> str:
    """A number of bytes in its largest unit, up to TiB."""
    value, units = float(count), ["TiB", "GiB", "MiB", "KiB", "B"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop()
    return f"{count} B" if units[-1] == "B" else f"{value:.1f} {units[-1]}"
