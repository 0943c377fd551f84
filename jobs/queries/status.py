"""`status`: what a lake holds, how its last runs ended, how old its evidence is, what is out of date. Reads the tables'
logs and a few columns; needs no JVM and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from jobs.lake.data_files import listed
from jobs.lake.files import shown
from jobs.lake.lake import Lake
from jobs.lake.tables import CLUSTER_ID, STAGES, TABLES
from jobs.provenance.fingerprint import CODE_VERSION

Row = dict[str, Any]
_RUNS = "runs"
_RUN = ("run_id", "command", "started_ms", "ended_ms", "outcome", "exit_code", "valid")
_MORE = ("captures", "quality_failed", "error")
_CAPTURES = "captures"
_STAGES = ("replay", "detect", "quality")


def status_of(lake: Lake, now_ms: int, most_runs: int = 0, with_captures: bool = False) -> Row:
    """The state of a lake, as JSON types.

    lake; clusters: see `_cluster`; runs: the newest `most_runs` rows of `runs`, the newest first; captures: of each
    cluster, the one ingested last first; both with the columns of the table, empty if not asked for; tables: `table`,
    `rows`, `files` and `bytes` by the table's log, for those that have rows; bytes: of all tables; other_bytes: of
    everything else in the lake's folder (files that no commit needs, logs, reports), null in an object store, where
    listing takes long. Errors: LakeError if there is no lake.
    """
    lake.require()
    found = {name: lake.delta(name) for name in TABLES}
    tables = [_size(name, table) for name, table in found.items()]
    size = sum(row["bytes"] for row in tables)
    files = lake.read("evidence_files", None, (CLUSTER_ID, "capture", "kind", "captured_at_ms"))
    runs = lake.read(_RUNS, None, (CLUSTER_ID, *_RUN, *_MORE)).to_pylist()
    clusters = sorted(files[CLUSTER_ID].unique().to_pylist())
    return {
        "lake": shown(lake.root),
        "clusters": [_cluster(lake, cluster, found, files, runs, now_ms) for cluster in clusters],
        "runs": sorted(runs, key=lambda row: -row["started_ms"])[:most_runs],
        "captures": _captures(lake) if with_captures else [],
        "tables": [row for row in tables if row["rows"]],
        "bytes": size,
        "other_bytes": _folder_bytes(lake.root) - size if isinstance(lake.root, Path) else None,
    }


def _captures(lake: Lake) -> list[Row]:
    rows: list[Row] = lake.read(_CAPTURES, None, TABLES[_CAPTURES].schema.names).to_pylist()
    return sorted(rows, key=lambda row: (row[CLUSTER_ID], -(row["ingested_ms"] or 0), row["capture"]))


def _size(name: str, table: DeltaTable) -> Row:
    files = listed(table)
    rows, size = (sum(file[column] or 0 for file in files) for column in ("num_records", "size_bytes"))
    return {"table": name, "rows": rows, "files": len(files), "bytes": size}


def _folder_bytes(root: Path) -> int:
    return sum(file.stat().st_size for file in root.rglob("*") if file.is_file())


def _cluster(
    lake: Lake, cluster: str, tables: Mapping[str, DeltaTable], files: pa.Table, runs: list[Row], now_ms: int
) -> Row:
    """cluster_id; captures: their number; last_run: the newest row of `runs`, null if there is none; valid: of the
    newest run that judged; evidence: for each kind of file its number, the newest capture time and its age, null if no
    file says; out_of_date: see `_out_of_date`."""
    own = files.filter(pc.equal(files[CLUSTER_ID], cluster))
    of_cluster = sorted((row for row in runs if row[CLUSTER_ID] == cluster), key=lambda row: row["ended_ms"])
    judged = [row["valid"] for row in of_cluster if row["valid"] is not None]
    kinds = own.group_by("kind").aggregate([("captured_at_ms", "max"), ([], "count_all")]).to_pylist()
    return {
        "cluster_id": cluster,
        "captures": pc.count_distinct(own["capture"]).as_py(),
        "last_run": {name: of_cluster[-1][name] for name in _RUN} if of_cluster else None,
        "valid": judged[-1] if judged else None,
        "evidence": [
            {
                "kind": row["kind"],
                "files": row["count_all"],
                "newest_ms": row["captured_at_ms_max"],
                "age_ms": None if row["captured_at_ms_max"] is None else now_ms - row["captured_at_ms_max"],
            }
            for row in sorted(kinds, key=lambda row: str(row["kind"]))
        ],
        "out_of_date": _out_of_date(lake, cluster, tables),
    }


def _out_of_date(lake: Lake, cluster: str, tables: Mapping[str, DeltaTable]) -> list[Row]:
    """The stages whose tables are not made from today's inputs by this release: `stage`, and `because` of what. After
    a stage that is out of date the next ones are, too."""
    found: list[Row] = []
    for stage in _STAGES:
        reason = f"{found[-1]['stage']} is out of date" if found else _reason(lake, cluster, STAGES[stage][-1], tables)
        if reason:
            found.append({"stage": stage, "because": reason})
    return found


def _reason(lake: Lake, cluster: str, last: str, tables: Mapping[str, DeltaTable]) -> str | None:
    """Why a stage has to run again, by the last commit of its last table; None if it has not."""
    made = lake.made(last, cluster)
    if "inputs" not in made:
        return "it has not run to its end"
    if made.get("code_version") != CODE_VERSION:
        return f"its tables are of another release (code {made.get('code_version')}, now {CODE_VERSION})"
    for name, recorded in made["inputs"].items():
        # The number of changes is in the table's snapshot. Only another one needs the table's commits.
        version = tables[name].transaction_version(cluster) or 0
        if not recorded.startswith(f"{version}:") and lake.head(name, cluster).id != recorded:
            return f"{name} has changed"
    return None
