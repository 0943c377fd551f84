"""What a lake holds, as numbers: the same rows give the same digest, whoever wrote them and in which order."""

from hashlib import sha256
from typing import Any

from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES


def digests(lake: Lake, cluster: str | None = None) -> dict[str, tuple[int, str]]:
    """table -> (rows, digest of every column of all of them but when findings were seen and captures ingested), for all
    tables but `runs`. cluster: None for the whole lake."""
    found = {}
    for name, table in TABLES.items():
        if name == "runs":
            continue
        rows = lake.read(name, cluster, table.schema.names).to_pylist()
        if name == "quality_results":
            rows = _newest(rows)
        rows = [{**row, **dict.fromkeys(TIMES_OF_RUNS & row.keys())} for row in rows]
        text = "\n".join(sorted(map(str, rows)))
        found[name] = len(rows), sha256(text.encode()).hexdigest()[:16]
    return found


TIMES_OF_RUNS = {"first_seen_ms", "ingested_ms"}
# What these hold depends on how many runs there were.
_OF_EARLIER_RUNS = ("finding_first_seen", "acknowledgements", "quality_results", "runs")


def _newest(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of quality's results those of each cluster's newest run, without its id and time, and without those about tables
    that keep earlier runs."""
    newest: dict[str, int] = {}
    for row in results:
        newest[row["cluster_id"]] = max(newest.get(row["cluster_id"], 0), row["run_at_ms"])
    kept = [row for row in results if row["run_at_ms"] == newest[row["cluster_id"]]]
    kept = [row for row in kept if row["table"] not in _OF_EARLIER_RUNS]
    return [{name: value for name, value in row.items() if name not in ("run_id", "run_at_ms")} for row in kept]
