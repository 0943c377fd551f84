"""spark.read.format("kraft"): read raw logs as rows, without ingest."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evidence.metadata_log.inspect import inspect_file
from tests.spark.test_damage import SEGMENT, unpack_controllers
from tests.support.paths import ORACLE

EVERY_RECORD = str(ORACLE / "every-record.log")


@pytest.mark.parametrize("split_bytes", [8 << 20, 5_000])
def test_rows_are_the_records_for_every_split_size(spark: SparkSession, split_bytes: int) -> None:
    frame = spark.read.format("kraft").option("splitBytes", split_bytes).load(EVERY_RECORD)
    rows = {r["offset"]: r for r in frame.toArrow().to_pylist()}
    expected = list(inspect_file(Path(EVERY_RECORD)))
    assert len(rows) == len(expected) == 740
    for want in expected:
        row = rows[want["offset"]]
        assert (row["type"], row["version"], row["position"]) == (want["type"], want["version"], want["position"])
        assert json.loads(row["payload"]) == want["data"]


def test_a_large_segment_is_read_by_several_tasks(spark: SparkSession) -> None:
    frame = spark.read.format("kraft").option("splitBytes", 5_000).load(EVERY_RECORD)
    assert frame.rdd.getNumPartitions() >= Path(EVERY_RECORD).stat().st_size // 5_000
    assert frame.select("offset").distinct().count() == frame.count() == 740


def test_options_and_sql_select_offsets_and_types(spark: SparkSession) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW raw_log USING kraft OPTIONS (path '{EVERY_RECORD}', startOffset '100', "
        "endOffset '300', types 'PARTITION_RECORD, topic_record')"
    )
    rows = spark.sql("select type, offset, partition_change.partition as p from raw_log").collect()
    assert {r["type"] for r in rows} == {"PARTITION_RECORD", "TOPIC_RECORD"}
    assert all(100 <= r["offset"] < 300 for r in rows)
    assert all((r["p"] is not None) == (r["type"] == "PARTITION_RECORD") for r in rows)


def test_a_folder_gives_every_segment_and_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    folder = unpack_controllers(tmp_path) / "controllers" / "3000"
    rows = spark.read.format("kraft").load(str(folder)).select("snapshot_end_offset").collect()
    counts = Counter(r["snapshot_end_offset"] for r in rows)
    assert counts[None] == 322
    assert set(counts) == {None, 0, 80, 162, 248}


def test_damage_is_a_row_or_an_error_depending_on_the_mode(spark: SparkSession, tmp_path: Path) -> None:
    path = unpack_controllers(tmp_path) / "controllers" / "3000" / SEGMENT
    data = bytearray(path.read_bytes())
    data[5354 + 70] ^= 0x01
    path.write_bytes(data)
    reader = spark.read.format("kraft")
    bad = reader.load(str(path)).where("_corrupt_record is not null").collect()
    assert [(r["position"], r["offset"], r["type"]) for r in bad] == [(5354, 59, None)]
    assert f"{path}: byte 5354 (offset 59): " in bad[0]["_corrupt_record"]
    with pytest.raises(PySparkException, match=r"byte 5354 \(offset 59\)"):
        reader.option("mode", "FAILFAST").load(str(path)).collect()


def test_wrong_options_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="neither PERMISSIVE nor FAILFAST"):
        spark.read.format("kraft").option("mode", "LAX").load(EVERY_RECORD).collect()
    with pytest.raises(PySparkException, match="no metadata segment or snapshot"):
        spark.read.format("kraft").load(str(tmp_path)).collect()
