"""`status`: what was found in each cluster, how old its newest metadata log is, how its last run ended, what is out of
date, what a lake holds. Reads the tables' logs and a few columns; needs no JVM and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence.kinds import DUMP_LOG, METADATA_SEGMENT
from jobs.lake.fingerprint import CODE_VERSION
from jobs.lake.lake import Lake
from jobs.lake.opened import OpenedTable
from jobs.lake.storage import shown
from jobs.lake.tables import CLUSTER_ID, STAGES, TABLES
from jobs.verdict.status import KEY, with_status
from jobs.views.in_duckdb import ask

Row = dict[str, Any]
_RUNS = "runs"
_RUN = ("run_id", "command", "started_ms", "ended_ms", "outcome", "exit_code", "valid")
_MORE = ("captures", "quality_failed", "error")
_CAPTURES = "captures"
_STAGES = ("replay", "detect", "quality")
_LOGS = (METADATA_SEGMENT, DUMP_LOG)
# What a cluster's findings say, the worst first.
LOST, MAY_HAVE_LOST, NOT_KNOWN, NOT_JUDGED, NOTHING_LOST = ANSWERS = (
    *("lost", "may_have_lost", "not_known"),
    *("not_judged", "nothing_lost"),
)


def status_of(lake: Lake, now_ms: int, most_runs: int = 0, with_captures: bool = False) -> Row:
    """The state of a lake, as JSON types.

    lake; clusters: see `_cluster`, with `bytes` of its files in tables, the worst first; runs: the newest `most_runs`
    rows of `runs`, the newest first; captures: of each cluster, the one ingested last first; both with the columns of
    the table, empty if not asked for; tables: `table`, `rows`, `files` and `bytes` by the table's log, for those that
    have rows; bytes: of all tables; other_bytes: of everything else in the lake's folder (files that no commit needs,
    logs, reports), null in an object store, where listing takes long. Errors: LakeError if there is no lake.
    """
    lake.require()
    found = {name: lake.opened(name) for name in TABLES}
    listings = {name: table.listed for name, table in found.items()}
    tables = [_size(name, rows) for name, rows in listings.items()]
    size = sum(row["bytes"] for row in tables)
    runs = lake.read(_RUNS, None, (CLUSTER_ID, *_RUN, *_MORE)).to_pylist()
    clusters = [
        {**_cluster(lake, each, found, runs, now_ms), "bytes": _bytes(listings, each)} for each in lake.clusters()
    ]
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


def _bytes(listings: Mapping[str, list[Row]], cluster: str) -> int:
    """Of the files that tables have for a cluster."""
    own = (file for files in listings.values() for file in files if file.get(f"partition.{CLUSTER_ID}") == cluster)
    return sum(file["size_bytes"] for file in own)


def _size(name: str, files: list[Row]) -> Row:
    rows, size = (sum(file[column] or 0 for file in files) for column in ("num_records", "size_bytes"))
    return {"table": name, "rows": rows, "files": len(files), "bytes": size}


def _cluster(lake: Lake, cluster: str, tables: Mapping[str, OpenedTable], runs: list[Row], now_ms: int) -> Row:
    """cluster_id; captures: their number; found: see `_found`; log_until_ms, log_age_ms: of the newest record of the
    captured metadata log, null if there is none; last_run: the newest row of `runs`, null if there is none; valid,
    quality_failed: of the newest run that judged, or checked; evidence: for each kind of file its number, the newest
    capture time and its age, null if no file says; out_of_date: see `_out_of_date`."""
    of_cluster = sorted((row for row in runs if row[CLUSTER_ID] == cluster), key=lambda row: row["ended_ms"])
    kinds = ask("queries/evidence", (lake, cluster))
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
        "evidence": [
            {
                **{name: row[name] for name in ("kind", "files", "newest_ms")},
                "age_ms": None if row["newest_ms"] is None else now_ms - row["newest_ms"],
            }
            for row in kinds
        ],
        "out_of_date": _out_of_date(lake, cluster, tables),
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
