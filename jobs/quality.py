"""Quality: check partition_history against the expectation suite -> quality_results and Data Docs in the lake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from jobs.lake.fingerprint import input_fingerprint
from jobs.lake.lake import Lake
from jobs.lake.tables import QUALITY_RESULTS

DOCS = "_data_docs"
_INPUTS = ("partition_history",)


@dataclass(frozen=True, slots=True)
class QualityResult:
    """The result of a check. failed: the unmet expectations, as 'expectation(column): n rows'."""

    cluster_id: str
    expectations: int
    failed: list[str]
    docs: Path
    up_to_date: bool


def run_quality(lake: Lake, cluster: str, progress: Callable[[str], None]) -> QualityResult:
    """Check one cluster's partition_history, unless it is unchanged since the last check."""
    docs = lake.root / DOCS / cluster
    inputs = input_fingerprint(lake, _INPUTS)
    up_to_date = lake.input_fingerprint("quality_results", cluster) == inputs
    if not up_to_date:
        lake.start()
        # Great Expectations takes seconds to import, so import it only when it is needed.
        from quality.checkpoint import run_suite
        from quality.invariants import with_invariants
        from quality.suites import partition_history_suite

        progress(f"{cluster}: checking partition_history")
        frame = with_invariants(lake.table("partition_history", cluster)).persist()
        rows = run_suite(frame, partition_history_suite(), docs)
        frame.unpersist()
        table = pa.Table.from_pylist(rows, schema=QUALITY_RESULTS)
        lake.put("quality_results", cluster, table, {"input_fingerprint": inputs})
    results = lake.rows("quality_results", cluster, ("expectation", "column", "success", "unexpected_count"))
    failed = [f"{r['expectation']}({r['column']}): {r['unexpected_count']} rows" for r in results if not r["success"]]
    return QualityResult(cluster, len(results), failed, docs / "index.html", up_to_date)
