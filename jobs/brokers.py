"""broker_history: what every bucket of partitions tells about the brokers' sessions, put together."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.lake import Lake, spark_schema
from replay import tables
from replay.broker_history import SESSION_EVIDENCE, broker_history, registrations, session_evidence
from replay.cluster import ClusterState


def brokers(lake: Lake, cluster: str, history: DataFrame, state: ClusterState) -> pa.Table:
    """tables.BROKER_HISTORY of one cluster. history: its partition_history, with a column `bucket`."""
    registered = registrations(state.records)
    evidence = SESSION_EVIDENCE.empty_table()
    if len(registered):

        def find(bucket: pa.Table) -> pa.Table:
            rows = bucket.select(tables.PARTITION_HISTORY.names).cast(tables.PARTITION_HISTORY)
            return session_evidence(tables.sorted_history(rows), registered)

        found = history.groupBy("bucket").applyInArrow(find, spark_schema(SESSION_EVIDENCE))
        evidence = found.toArrow().cast(SESSION_EVIDENCE)
    files = lake.table("log_end_offsets", cluster).where(F.col("source") == "clean_shutdown")
    columns = ("broker_id", "broker_epoch", "capture", "path", "sha256")
    return broker_history(state.records, evidence, files.select(*columns).toArrow().to_pylist())
