"""Print the state of lakes: as tables that fit the terminal, or as metrics."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from jobs.console.output import print_table, printable, utc
from jobs.queries.status import LOST, MAY_HAVE_LOST, NOT_JUDGED, NOT_KNOWN, NOTHING_LOST, gravity
from replay.plan.step import size_text

Row = dict[str, Any]
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))

_ANSWERS = {
    LOST: "LOST at least {lost_records}",
    MAY_HAVE_LOST: "MAY HAVE LOST",
    NOT_KNOWN: "not known",
    NOT_JUDGED: "not judged",
    NOTHING_LOST: "nothing lost",
}


def print_status(lakes: Sequence[Row], with_evidence: bool = False, with_tables: bool = False) -> None:
    """A table with a row for each cluster of all lakes, the worst first, and for each lake the runs and captures that
    it has, its evidence and its tables if asked for. lakes: of status.py:status_of."""
    clusters = sorted(
        ({**cluster, "lake": lake["lake"]} for lake in lakes for cluster in lake["clusters"]), key=gravity
    )
    if rows := [_cluster(each) for each in clusters]:
        columns = [name for name in rows[0] if name != "lake" or len(lakes) > 1]
        print_table(columns, rows, None, _DROP)
    for lake in lakes:
        of_lake = f" of {printable(lake['lake'])}" if len(lakes) > 1 else ""
        if not lake["clusters"]:
            print(f"lake {printable(lake['lake'])}: no captures")
        evidence = [_evidence(c, row) for c in lake["clusters"] for row in c["evidence"]] if with_evidence else []
        for name, rows in (
            ("newest runs", [_run(row) for row in lake["runs"]]),
            ("captures", [_capture(row) for row in lake["captures"]]),
            ("evidence", evidence),
        ):
            if rows:
                print()
                print_table(list(rows[0]), rows, name + of_lake, _LESS.get(name))
        if with_tables:
            more = "" if lake["other_bytes"] is None else f", {size_text(lake['other_bytes'])} beside them"
            sizes = [{**row, "bytes": size_text(row["bytes"])} for row in lake["tables"]]
            print()
            print_table(
                ["table", "rows", "files", "bytes"], sizes, f"tables{of_lake}: {size_text(lake['bytes'])}{more}"
            )


_DROP = ("size", "outcome", "out of date", "lake", "last run (UTC)")
# Columns that a narrow table leaves out.
_LESS = {
    "newest runs": ("exit", "captures", "took", "valid"),
    "captures": ("nodes", "Kafka", "until (UTC)", "size"),
}


def _cluster(row: Row) -> Row:
    run = row["last_run"] or {}
    return {
        "cluster": row["cluster_id"],
        "found": _found(row["found"]),
        "new": row["found"]["new"],
        "log age": _age(row["log_age_ms"]) or "no log",
        "last run (UTC)": utc(run.get("ended_ms"))[:19],
        "outcome": f"{run.get('command', 'none')} {run.get('outcome', '')}".rstrip(),
        "size": size_text(row["bytes"]),
        "out of date": "; ".join(f"{each['stage']}: {each['because']}" for each in row["out_of_date"]) or "nothing",
        "lake": row["lake"],
    }


def _found(found: Row) -> str:
    text = _ANSWERS[found["answer"]].format(**found)
    if found["open"] and found["answer"] in (LOST, MAY_HAVE_LOST):
        text += f"; {found['open']} open"
    if found["since_ms"] is not None and found["answer"] == NOTHING_LOST:
        text += f" since {utc(found['since_ms'])[:10]}"
    earlier = f", {found['kept_proven']} proven" if found["kept_proven"] else ""
    return f"{text}; before: {found['kept']} kept{earlier}" if found["kept"] else text


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
        "size": "" if row["size_bytes"] is None else size_text(row["size_bytes"]),
        "nodes": ", ".join(map(str, row["nodes"] or [])),
        "Kafka": row["kafka_release"] or "",
        "captured (UTC)": utc(row["first_captured_ms"]),
        "until (UTC)": utc(row["last_captured_ms"]),
        "ingested (UTC)": utc(row["ingested_ms"]),
    }


def _evidence(cluster: Row, row: Row) -> Row:
    newest = {"newest (UTC)": utc(row["newest_ms"]), "age": _age(row["age_ms"])}
    return {"cluster": cluster["cluster_id"], "kind": row["kind"], "files": row["files"], **newest}


# By name: help, and where a cluster's value is; null: no sample.
_METRICS = {
    "lost_records": ("Acknowledged records that are proven lost, at least.", "found.lost_records"),
    "proven_windows": ("Windows in which a loss is proven.", "found.proven"),
    "open_windows": ("Windows that are neither proven nor excluded.", "found.open"),
    "new_findings": ("Findings that are new and not acknowledged.", "found.new"),
    "log_age_seconds": ("Age of the newest captured record of the metadata log.", "log_age_ms"),
    "run_seconds": ("How long the last run took.", "last_run.took_ms"),
    "run_exit_code": ("Exit code of the last run.", "last_run.exit_code"),
    "quality_failed": ("Expectations that the last check of the tables did not meet.", "quality_failed"),
    "table_bytes": ("Of the cluster's files in tables.", "bytes"),
}


def metrics_of(lakes: Sequence[Row]) -> str:
    """The state as OpenMetrics text, all gauges; what is not known has no sample. lakes: of status.py:status_of."""
    registry = CollectorRegistry(auto_describe=False)
    for name, (about, place) in _METRICS.items():
        gauge = Gauge(f"kraft_forensics_{name}", about, ["cluster_id", "lake"], registry=registry)
        for lake in lakes:
            for cluster in lake["clusters"]:
                value = reduce(lambda row, key: row and row[key], place.split("."), cluster)
                if value is not None:
                    gauge.labels(cluster["cluster_id"], lake["lake"]).set(
                        value / 1000 if place.endswith("_ms") else value
                    )
    return generate_latest(registry).decode()  # type: ignore[no-untyped-call]


def _age(age_ms: int | None) -> str:
    """An age in its largest unit; '' for None."""
    if age_ms is None:
        return ""
    for unit_ms, name in _UNITS:
        if age_ms >= unit_ms:
            return f"{age_ms // unit_ms} {name}"
    return "0 s"
