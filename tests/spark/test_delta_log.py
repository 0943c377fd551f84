"""Tables created without Spark are the same as tables created by Delta."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from jobs.lake.lake import Lake
from jobs.lake.lake_files import table_properties
from jobs.lake.tables import TABLES
from jobs.spark.types import spark_schema


# With a constraint; append-only; neither.
@pytest.mark.parametrize("name", ["evidence_files", "quarantine", "findings"])
def test_a_table_is_created_as_delta_creates_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = TABLES[name]
    builder = DeltaTable.create(spark).location(str(tmp_path / "delta")).comment(table.comment)
    builder = builder.addColumns(spark_schema(table.schema))
    for key, value in table_properties(table).items():
        builder = builder.property(key, value)
    builder.execute()
    Lake(spark, tmp_path / "own").create()
    assert actions(tmp_path / "own" / name) == actions(tmp_path / "delta")


def actions(table: Path) -> dict[str, Any]:
    """Metadata and protocol of the first commit, without the values that differ in every table."""
    lines = (table / "_delta_log/00000000000000000000.json").read_text().splitlines()
    found = {name: value for line in lines for name, value in json.loads(line).items() if name != "commitInfo"}
    metadata = found["metaData"]
    del metadata["id"], metadata["createdTime"]
    return {**found, "metaData": {**metadata, "schemaString": json.loads(metadata["schemaString"])}}
