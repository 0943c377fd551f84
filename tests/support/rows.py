"""A lake's rows by a condition in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.spark_lake import SparkLake


def rows_where(
    lake: SparkLake, name: str, cluster: str, where: str, columns: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """One cluster's rows of a table, as dicts."""
    frame = lake.table(name, cluster).where(where)
    rows: list[dict[str, Any]] = (frame.select(*columns) if columns else frame).toArrow().to_pylist()
    return rows
