"""Report: the result tables of one cluster -> one self-contained HTML page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from evidence.errors import KraftForensicsError
from jobs.lake import Lake
from jobs.report_html import ReportInput, render_report
from replay.detect import KIND

_COUNTED = (
    "evidence_files",
    "metadata_records",
    "log_end_offsets",
    "partition_history",
    "elections",
    "findings",
    "quarantine",
)
_HIDDEN_VERDICT = "excluded"
MAX_PARTITIONS = 200


def load_report(lake: Lake, cluster: str) -> ReportInput:
    """Everything the page shows. Timelines are loaded for the flagged partitions, worst first, at most 200."""
    findings = lake.rows("findings", cluster)
    flagged = _flagged(findings)
    timelines: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    elections: list[dict[str, Any]] = []
    if flagged:
        keys = lake.spark.createDataFrame(flagged, "topic_id string, partition int")
        history = lake.table("partition_history", cluster).join(F.broadcast(keys), ["topic_id", "partition"])
        for row in history.orderBy("topic_id", "partition", "offset").toArrow().to_pylist():
            timelines[row["topic_id"], row["partition"]].append(row)
        chosen = lake.table("elections", cluster).join(F.broadcast(keys), ["topic_id", "partition"])
        elections = chosen.orderBy("topic_id", "partition", "offset").toArrow().to_pylist()
    captures = lake.table("evidence_files", cluster).select("capture").distinct().collect()
    return ReportInput(
        cluster_id=cluster,
        generated_from=sorted(row[0] for row in captures),
        findings=findings,
        counterfactuals=lake.rows("counterfactuals", cluster),
        timelines=dict(timelines),
        elections=elections,
        quality=lake.rows("quality_results", cluster),
        quarantine=lake.rows("quarantine", cluster),
        counts=lake.counts(_COUNTED, cluster),
    )


def _flagged(findings: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """The partitions that get a timeline, worst first."""
    shown = [f for f in findings if f["kind"] == KIND and f["verdict"] != _HIDDEN_VERDICT]
    shown.sort(key=lambda f: (f["verdict"] != "proven", -(f["loss_min"] or 0)))
    return list(dict.fromkeys((f["topic_id"], f["partition"]) for f in shown))[:MAX_PARTITIONS]


def write_report(lake: Lake, cluster: str, output: Path, progress: Callable[[str], None]) -> Path:
    """Render one cluster's page to `output`. Errors: KraftForensicsError when it cannot be written."""
    progress(f"{cluster}: writing the report")
    page = render_report(load_report(lake, cluster))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise KraftForensicsError(f"{output}: the report cannot be written: {error.strerror}") from error
    return output.resolve()
