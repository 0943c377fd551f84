"""spark.read.format("kraft"): read raw logs as rows, without ingest."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from evidence.metadata_log.inspect import inspect_file
from evidence.metadata_log.rows import to_json
from tests.support.paths import ORACLE, controllers
from tests.support.small_captures import SEGMENT

EVERY_RECORD = str(ORACLE / "every-record.log")


@pytest.mark.parametrize("split_bytes", [8 << 20, 5_000])
def test_rows_are_the_records_for_every_split_size(spark: SparkSession, split_bytes: int) -> None:
    """A large segment is read by several tasks, each record once."""
    frame = spark.read.format("kraft").option("splitBytes", split_bytes).load(EVERY_RECORD)
    assert frame.rdd.getNumPartitions() >= Path(EVERY_RECORD).stat().st_size // split_bytes
    table = frame.toArrow()
    rows = {r["offset"]: r for r in table.to_pylist()}
    expected = list(inspect_file(Path(EVERY_RECORD)))
    assert len(table) == len(rows) == len(expected) == 740
    for want in expected:
        row = rows[want["offset"]]
        assert (row["type"], row["version"], row["position"]) == (want["type"], want["version"], want["position"])
        assert row["payload"] == to_json(want["data"])


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
    folder = controllers("unclean", tmp_path) / "controllers" / "3000"
    rows = spark.read.format("kraft").load(str(folder)).select("snapshot_end_offset").collect()
    counts = Counter(r["snapshot_end_offset"] for r in rows)
    assert counts[None] == 322
    assert set(counts) == {None, 0, 80, 162, 248}


def test_damage_is_a_row_or_an_error_depending_on_the_mode(spark: SparkSession, tmp_path: Path) -> None:
    path = controllers("unclean", tmp_path) / "controllers" / "3000" / SEGMENT
    data = bytearray(path.read_bytes())
    data[5354 + 70] ^= 0x01
    path.write_bytes(data)
    reader = spark.read.format("kraft")
    bad = reader.load(str(path)).where("_corrupt_record is not null").collect()
    assert [(r["position"], r["offset"], r["type"]) for r in bad] == [(5354, 59, None)]
    assert f"{path}: byte 5354 (offset 59): " in bad[0]["_corrupt_record"]
    with pytest.raises(PySparkException, match=r"byte 5354 \(offset 59\)"):
        reader.option("mode", "FAILFAST").load(str(path)).collect()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mode", "LAX", "neither PERMISSIVE nor FAILFAST"),
        ("failOnDataLoss", "ture", "failOnDataLoss 'ture' is neither true nor false"),
        ("startOfset", "5", r"no option startofset\. The options are"),
        ("endOffset", "ten", "endOffset 'ten' is no whole number"),
        ("types", "topic_record,PARTITON_RECORD", r"PARTITON_RECORD is no record type \(PARTITION_RECORD is\)"),
    ],
)
def test_wrong_options_are_errors(spark: SparkSession, name: str, value: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.read.format("kraft").option(name, value).load(EVERY_RECORD).collect()


def test_unknown_columns_and_folders_without_a_log_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    reader = spark.read.format("kraft")
    assert reader.option("failOnDataLoss", "False").load(EVERY_RECORD).count()
    with pytest.raises(PySparkException, match="no metadata segment or snapshot"):
        spark.read.format("kraft").load(str(tmp_path)).collect()
    for schema, message in (
        ("offsets long", "no column offsets"),
        ("offset string", "column offset is bigint, not string"),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.read.format("kraft").schema(schema).load(EVERY_RECORD).collect()


def test_a_query_does_not_narrow_other_queries_on_the_same_frame(spark: SparkSession) -> None:
    """Spark keeps with the frame what it pushed down last."""
    frame = spark.read.format("kraft").load(EVERY_RECORD)
    first, last = frame.where("offset < 10"), frame.where("offset >= 730")
    assert first.union(last).count() == 20
    assert [last.count(), frame.count()] == [10, 740]


def test_no_wanted_batch_gives_no_rows(spark: SparkSession) -> None:
    assert spark.read.format("kraft").option("startOffset", 740).load(EVERY_RECORD).count() == 0


def test_a_schema_lists_the_columns_to_read(spark: SparkSession) -> None:
    rows = (
        spark.read.format("kraft").schema("type string, offset long").load(EVERY_RECORD).where("offset = 7").collect()
    )
    assert [row.asDict() for row in rows] == [{"type": rows[0]["type"], "offset": 7}]


def test_lists_and_patterns_of_paths(spark: SparkSession, tmp_path: Path) -> None:
    folder = controllers("unclean", tmp_path) / "controllers"
    reader = spark.read.format("kraft")
    nodes = [str(folder / "3000"), str(folder / "3001")]
    both = reader.load(nodes).count()
    assert both == sum(reader.load(node).count() for node in nodes)
    assert reader.load([*nodes, f"{folder}/300[01]/**"]).count() == both
    segments = reader.load(str(folder / "*" / "*" / "*.log"))
    assert segments.select("path").distinct().count() == len(list(folder.glob("*/*/*.log")))
    with pytest.raises(PySparkException, match="no metadata segment or snapshot here"):
        reader.load(str(folder / "4*")).collect()


class Follower:
    """A stream over a growing segment: each `rows` is what the stream has given so far, over restarts."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.file = spark, folder, folder / "log" / SEGMENT
        self.file.parent.mkdir(parents=True)

    def rows(self) -> list[int]:
        frame = self.spark.readStream.format("kraft").load(str(self.file.parent)).select("offset")
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.folder / "rows"))
        )
        query.awaitTermination()
        return sorted(row["offset"] for row in self.spark.read.parquet(str(self.folder / "rows")).collect())


def test_a_stream_follows_a_growing_log_exactly_once(spark: SparkSession, tmp_path: Path) -> None:
    data = (controllers("unclean", tmp_path) / "controllers" / "3000" / SEGMENT).read_bytes()
    follower = Follower(spark, tmp_path)
    follower.file.write_bytes(data[:10_000])  # ends inside a batch
    first = follower.rows()
    assert first == list(range(len(first)))
    assert follower.rows() == first  # nothing new
    follower.file.write_bytes(data)
    assert follower.rows() == list(range(322))
    assert 0 < len(first) < 322


def test_a_stream_stops_where_a_log_was_cut_off(spark: SparkSession, tmp_path: Path) -> None:
    data = (controllers("unclean", tmp_path) / "controllers" / "3000" / SEGMENT).read_bytes()
    follower = Follower(spark, tmp_path)
    follower.file.write_bytes(data)
    follower.rows()
    follower.file.write_bytes(data[:10_000])
    with pytest.raises(PySparkException, match=r"the batch at byte \d+ that was read before is not there any more"):
        follower.rows()
