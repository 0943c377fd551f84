"""broker_history: combine the evidence about broker sessions from every bucket of partitions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from jobs.lake.lake import Lake
from replay.cluster.broker_sessions import SESSION_EVIDENCE, broker_history
from replay.cluster.state import ClusterState


def brokers(lake: Lake, cluster: str, found: DataFrame, state: ClusterState) -> pa.Table:
    """schemas.BROKER_HISTORY of one cluster. found: SESSION_EVIDENCE rows of its buckets."""
    columns = ("broker_id", "broker_epoch", "capture", "path", "sha256")
    files = lake.rows("log_end_offsets", cluster, columns, pc.field("source") == "clean_shutdown")
    evidence = found.toArrow().cast(SESSION_EVIDENCE)
    return broker_history(state.records, evidence, files)
