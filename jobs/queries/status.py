"""`status`: what was found in each cluster, how old its newest metadata log is, how its last run ended, what is out of
date, what a lake holds; as tables that fit the terminal, or as metrics. Reads the tables' logs and a few columns; needs
no JVM and changes nothing."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import reduce
from importlib.resources import files
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from evidence.kinds import DUMP_LOG, METADATA_SEGMENT
from jobs.console.output import print_table, printable, utc
from jobs.lake.integrity import CODE_VERSION
from jobs.lake.lake import Lake, Row
from jobs.lake.marks import OpenedTable
from jobs.lake.storage import shown
from jobs.lake.tables import CLUSTER_ID, STAGES, TABLES
from jobs.verdict.status import KEY, with_status
from jobs.views.in_duckdb import ask
from replay.plan.step import size_text

_RUNS = "runs"
_RUN = ("run_id", "command", "started_ms", "ended_ms", "outcome", "exit_code", "valid")
_MORE = ("captures", "quality_failed", "error")
_CAPTURES = "captures"
_STAGES = ("replay", "detect", "quality")
_LOGS = (METADATA_SEGMENT, DUMP_LOG)
_TEXTS = tomllib.loads(files(__package__).joinpath("status.toml").read_text("utf-8"))
LOST, MAY_HAVE_LOST, NOT_KNOWN, NOT_JUDGED, NOTHING_LOST = ANSWERS = tuple(_TEXTS["answers"])


def status_of(lake: Lake, now_ms: int, most_runs: int = 0, with_captures: bool = False) -> Row:
    """The state of a lake, as JSON types.

    lake; clusters: see `_cluster`, the worst first; runs: the newest `most_runs`
    rows of `runs`, the newest first; captures: of each cluster, the one ingested last first; both with the columns of
    the table, empty if not asked for; tables: `table`, `rows`, `files` and `bytes` by the table's log, for those that
    have rows; bytes: of all tables; other_bytes: of everything else in the lake's folder (files that no commit needs,
    logs, reports), null in an object store, where listing takes long. Errors: LakeError if there is no lake.
    """
    lake.require()
    found = {name: lake.opened(name) for name in TABLES}
    tables = []
    for name, table in found.items():
        rows, size = (sum(file[column] or 0 for file in table.listed) for column in ("num_records", "size_bytes"))
        tables.append({"table": name, "rows": rows, "files": len(table.listed), "bytes": size})
    size = sum(row["bytes"] for row in tables)
    runs = lake.read(_RUNS, None, (CLUSTER_ID, *_RUN, *_MORE)).to_pylist()
    clusters = [_cluster(lake, each, found, runs, now_ms) for each in lake.clusters()]
    captures = lake.read(_CAPTURES, None, TABLES[_CAPTURES].schema.names).to_pylist() if with_captures else []
    folder = lake.root.rglob("*") if isinstance(lake.root, Path) else None
    return {
        "lake": shown(lake.root),
        "clusters": sorted(clusters, key=gravity),
        "runs": sorted(runs, key=lambda row: -row["started_ms"])[:most_runs],
        "captures": sorted(captures, key=lambda r: (r[CLUSTER_ID], -(r["ingested_ms"] or 0), r["capture"])),
        "tables": [row for row in tables if row["rows"]],
        "bytes": size,
        "other_bytes": None if folder is None else sum(f.stat().st_size for f in folder if f.is_file()) - size,
    }


def gravity(cluster: Row) -> tuple[int, int, int, str]:
    """By which clusters are sorted, the worst first. cluster: of `status_of`."""
    found = cluster["found"]
    return ANSWERS.index(found["answer"]), -found["lost_records"], -found["open"], cluster["cluster_id"]


def _cluster(lake: Lake, cluster: str, tables: Mapping[str, OpenedTable], runs: list[Row], now_ms: int) -> Row:
    """cluster_id; captures: their number; found: see `_found`; log_until_ms, log_age_ms: of the newest record of the
    captured metadata log, null if there is none; last_run: the newest row of `runs`, null if there is none; valid,
    quality_failed: of the newest run that judged, or checked; evidence: for each kind of file its number, the newest
    capture time and its age, null if no file says; out_of_date: see `_out_of_date`; bytes: of its files in tables."""
    of_cluster = sorted((row for row in runs if row[CLUSTER_ID] == cluster), key=lambda row: row["ended_ms"])
    kinds = ask("queries/evidence", (lake, cluster), {"now": now_ms})
    times = [row["until_ms"] for row in kinds if row["kind"] in _LOGS and row["until_ms"] is not None]
    until_ms = max(times, default=None)
    last = of_cluster[-1] if of_cluster else None
    return {
        "cluster_id": cluster,
        "captures": len(lake.captures(cluster)),
        "found": _found(lake, cluster),
        "log_until_ms": until_ms,
        "log_age_ms": None if until_ms is None else now_ms - until_ms,
        "last_run": last and {**{n: last[n] for n in _RUN}, "took_ms": last["ended_ms"] - last["started_ms"]},
        "valid": _newest(of_cluster, "valid"),
        "quality_failed": _newest(of_cluster, "quality_failed"),
        "evidence": [{name: row[name] for name in ("kind", "files", "newest_ms", "age_ms")} for row in kinds],
        "out_of_date": _out_of_date(lake, cluster, tables),
        "bytes": sum(file.size_bytes for table in tables.values() for file in table.files(cluster)),
    }


def _newest(runs: list[Row], column: str) -> Any:
    return next((row[column] for row in reversed(runs) if row[column] is not None), None)


def _found(lake: Lake, cluster: str) -> Row:
    """answer: one of ANSWERS; lost_records: of the proven windows together, at least; how many windows are proven, open
    (neither proven nor excluded) and excluded; new: findings that are new and not acknowledged; since_ms: what is known
    begins with a snapshot's state at this time, null if it begins with the cluster; kept: findings without their
    evidence (`forget --older-than --keep-findings`), kept_proven: proven windows among them."""
    is_judged = "inputs" in lake.made("findings", cluster)
    rows = lake.read("findings", cluster, ("kind", "loss_min", "rule", "start_offset", *KEY))
    (found,) = ask("queries/found", (lake, cluster), given=with_status(lake, cluster, rows))
    is_known = not found.pop("is_unknown") and lake.count("partition_history", cluster)
    answer = LOST if found["proven"] else MAY_HAVE_LOST if found["open"] else NOTHING_LOST if is_known else NOT_KNOWN
    return {"answer": answer if is_judged else NOT_JUDGED, **found}


def _out_of_date(lake: Lake, cluster: str, tables: Mapping[str, OpenedTable]) -> list[Row]:
    """The stages whose tables are not made from today's inputs by this release: `stage`, and `because` of what. After
    a stage that is out of date the next ones are, too."""
    found: list[Row] = []
    for stage in _STAGES:
        reason = f"{found[-1]['stage']} is out of date" if found else _reason(lake, cluster, STAGES[stage][-1], tables)
        if reason:
            found.append({"stage": stage, "because": reason})
    return found


def _reason(lake: Lake, cluster: str, last: str, tables: Mapping[str, OpenedTable]) -> str | None:
    """Why a stage has to run again, by the last commit of its last table; None if it has not."""
    made = lake.made(last, cluster)
    if "inputs" not in made:
        return "it has not run to its end"
    if made.get("code_version") != CODE_VERSION:
        return f"its tables are of another release (code {made.get('code_version')}, now {CODE_VERSION})"
    for name, recorded in made["inputs"].items():
        # The number of changes is in the table's snapshot. Only another one needs the table's commits.
        version = tables[name].cluster_version(cluster)
        if not recorded.startswith(f"{version}:") and lake.head(name, cluster).id != recorded:
            return f"{name} has changed"
    return None


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def print_status(lakes: Sequence[Row], with_evidence: bool = False, with_tables: bool = False) -> None:
    """A table with a row for each cluster of all lakes, the worst first, and for each lake the runs and captures that
    it has, its evidence and its tables if asked for. lakes: of `status_of`."""
    clusters = sorted(
        ({**cluster, "lake": lake["lake"]} for lake in lakes for cluster in lake["clusters"]), key=gravity
    )
    if rows := [_line(each) for each in clusters]:
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
_LESS = {"newest runs": ("exit", "captures", "took", "valid"), "captures": ("nodes", "Kafka", "until (UTC)", "size")}


def _line(row: Row) -> Row:
    run = row["last_run"] or {}
    return {
        "cluster": row["cluster_id"],
        "found": _found_text(row["found"]),
        "new": row["found"]["new"],
        "log age": _age(row["log_age_ms"]) or "no log",
        "last run (UTC)": utc(run.get("ended_ms"))[:19],
        "outcome": f"{run.get('command', 'none')} {run.get('outcome', '')}".rstrip(),
        "size": size_text(row["bytes"]),
        "out of date": "; ".join(f"{each['stage']}: {each['because']}" for each in row["out_of_date"]) or "nothing",
        "lake": row["lake"],
    }


def _found_text(found: Row) -> str:
    text = _TEXTS["answers"][found["answer"]].format(**found)
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
        "started (UTC)": utc(row["started_ms"])[:19],
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
        "captured (UTC)": utc(row["first_captured_ms"])[:19],
        "until (UTC)": utc(row["last_captured_ms"])[:19],
        "ingested (UTC)": utc(row["ingested_ms"])[:19],
    }


def _evidence(cluster: Row, row: Row) -> Row:
    newest = {"newest (UTC)": utc(row["newest_ms"])[:19], "age": _age(row["age_ms"])}
    return {"cluster": cluster["cluster_id"], "kind": row["kind"], "files": row["files"], **newest}


def metrics_of(lakes: Sequence[Row]) -> str:
    """The state as OpenMetrics text, all gauges; what is not known has no sample. lakes: of `status_of`."""
    registry = CollectorRegistry(auto_describe=False)
    for name, (about, place) in _TEXTS["metrics"].items():
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
