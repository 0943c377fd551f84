"""The lake: a folder with one Delta table each for evidence and results. All reading and writing of tables is here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from evidence.errors import KraftForensicsError
from jobs.tables import TABLES, Table

_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class LakeError(KraftForensicsError):
    """The lake is missing or is not one."""


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; the fields' comments come along."""
    plain = from_arrow_schema(schema)
    comments = [(field.metadata or {}).get(b"comment", b"").decode() for field in schema]
    return StructType(
        [StructField(f.name, f.dataType, True, {"comment": c}) for f, c in zip(plain.fields, comments, strict=True)]
    )


def _about(cluster_id: str, about: Mapping[str, Any] | None) -> str:
    return json.dumps({"cluster_id": cluster_id, **(about or {})})


@dataclass(frozen=True, slots=True)
class Lake:
    """A lake in a session. Writes are one Delta commit each; a re-run after a crash converges."""

    spark: SparkSession
    root: Path

    def path(self, name: str) -> str:
        return str(self.root.resolve() / name)

    def exists(self) -> bool:
        return (self.root / "evidence_files" / "_delta_log").is_dir()

    def require(self) -> None:
        """Errors: LakeError when there is no lake yet."""
        if not self.exists():
            raise LakeError(
                f"{self.root}: no lake here. Ingest a capture first: kraft-forensics ingest CAPTURE --lake {self.root}"
            )

    def create(self) -> None:
        """Create every table that is not there yet."""
        missing = [t for t in TABLES.values() if not (self.root / t.name / "_delta_log").is_dir()]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._create, missing))

    def _create(self, table: Table) -> None:
        builder = DeltaTable.createIfNotExists(self.spark).location(self.path(table.name)).comment(table.comment)
        builder = builder.addColumns(spark_schema(table.schema))
        if table.append_only:
            builder = builder.property("delta.appendOnly", "true")
        for name, condition in table.checks:
            builder = builder.property(f"delta.constraints.{name}", condition)
        builder.property("delta.dataSkippingStatsColumns", ",".join(["cluster_id", table.key[-1]])).execute()

    def table(self, name: str, cluster_id: str | None = None) -> DataFrame:
        """A table, or one cluster's rows of it."""
        frame = self.spark.read.format("delta").load(self.path(name))
        return frame if cluster_id is None else frame.where(F.col("cluster_id") == cluster_id)

    def rows(
        self, name: str, cluster_id: str, columns: Sequence[str] = (), where: str = "true"
    ) -> list[dict[str, Any]]:
        """A small table's rows as dicts."""
        frame = self.table(name, cluster_id).where(where)
        result: list[dict[str, Any]] = (frame.select(*columns) if columns else frame).toArrow().to_pylist()
        return result

    def frame(self, name: str, cluster_id: str, table: pa.Table) -> DataFrame:
        """An Arrow table of a table's columns (without cluster_id) as that table's DataFrame."""
        target = TABLES[name].schema
        columns = {"cluster_id": pa.array([cluster_id] * len(table), type=pa.string())}
        columns |= {field.name: table[field.name] for field in target if field.name != "cluster_id"}
        return self.spark.createDataFrame(pa.table(columns, schema=target), schema=spark_schema(target))

    def append_new(self, name: str, rows: DataFrame, key: Sequence[str] = ()) -> int:
        """Append the rows whose key (the table's, unless given) is not there yet; returns how many. Rows are immutable:
        nothing is updated."""
        key = ["cluster_id", *(key or TABLES[name].key)]
        new = rows.dropDuplicates(key)
        if self.version(name) > 0:
            known = self.table(name).select(*(F.col(k).alias(f"known_{k}") for k in key))
            new = new.join(known, [F.col(k).eqNullSafe(F.col(f"known_{k}")) for k in key], "left_anti")
        return self._save(name, self._write(name, new).mode("append"))

    def replace(self, name: str, cluster_id: str, rows: DataFrame, about: Mapping[str, Any] | None = None) -> int:
        """Replace one cluster's rows in one commit, which also carries `about`; returns the rows written. A column that
        the table lacks, since an earlier release made it, is added."""
        condition = "cluster_id = '{}'".format(cluster_id.replace("\\", "\\\\").replace("'", "\\'"))
        writer = self._write(name, rows).mode("overwrite").option("replaceWhere", condition)
        writer = writer.option("mergeSchema", "true").option("userMetadata", _about(cluster_id, about))
        before = self.version(name)
        written = self._save(name, writer)
        if about and self.version(name) == before:
            # There was nothing to write and nothing to replace; what is said of that has to be in a commit, too.
            with self._saying(cluster_id, about):
                path = self.path(name).replace("`", "``")
                self.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('kraft_forensics.empty' = 'true')")
        return written

    def extend(
        self, name: str, cluster_id: str, rows: DataFrame, update: Sequence[str], about: Mapping[str, Any]
    ) -> int:
        """As `merge`, in a commit that carries `about`; returns the rows inserted."""
        before = self.version(name)
        with self._saying(cluster_id, about):
            self.merge(name, rows, update)
        if self.version(name) == before:
            return 0
        return int(next(self._commits(name)).get("operationMetrics", {}).get("numTargetRowsInserted", 0))

    @contextmanager
    def _saying(self, cluster_id: str, about: Mapping[str, Any]) -> Iterator[None]:
        """Commits made in here carry `about`."""
        self.spark.conf.set(_USER_METADATA, _about(cluster_id, about))
        try:
            yield
        finally:
            self.spark.conf.unset(_USER_METADATA)

    def made(self, name: str, cluster_id: str) -> dict[str, Any]:
        """What the newest commit that wrote the cluster's rows says `about` them; empty if there is none."""
        for commit in self._commits(name):
            text = commit.get("userMetadata")
            made: dict[str, Any] = json.loads(text) if text else {}
            if made.get("cluster_id") == cluster_id:
                return made
        return {}

    def mark(self, name: str, cluster_id: str) -> str | None:
        """The mark in it: from which inputs the rows were made."""
        return self.made(name, cluster_id).get("mark")

    def merge(self, name: str, rows: DataFrame, update: Sequence[str]) -> None:
        """Insert rows with a new key; on a known key set the columns in `update` where they differ."""
        table = TABLES[name]
        same = " and ".join(f"t.{k} = s.{k}" for k in ("cluster_id", *table.key))
        differs = " or ".join(f"not t.{c} <=> s.{c}" for c in update)
        (
            DeltaTable.forPath(self.spark, self.path(name)).alias("t").merge(rows.alias("s"), same)
            .whenMatchedUpdate(differs, {c: f"s.{c}" for c in update})
            .whenNotMatchedInsertAll().execute()
        )  # fmt: skip

    def update(self, name: str, rows: DataFrame, on: Sequence[str], columns: Sequence[str]) -> None:
        """Set `columns` of the rows that `rows` names by cluster_id and `on`."""
        same = " and ".join(f"t.{k} = s.{k}" for k in ("cluster_id", *on))
        target = DeltaTable.forPath(self.spark, self.path(name)).alias("t")
        target.merge(rows.alias("s"), same).whenMatchedUpdate(set={c: f"s.{c}" for c in columns}).execute()

    def _write(self, name: str, rows: DataFrame) -> DataFrameWriter:
        return rows.select(*(f.name for f in TABLES[name].schema)).write.format("delta")

    def version(self, name: str) -> int:
        """The table's newest Delta version; 0 right after it was created."""
        return int(self._log_files(name)[0].stem)

    def _log_files(self, name: str) -> list[Path]:
        files = (f for f in (self.root / name / "_delta_log").glob("*.json") if f.stem.isdigit())
        return sorted(files, reverse=True)

    def _commits(self, name: str) -> Iterator[dict[str, Any]]:
        """The commitInfo of every commit, newest first, from the Delta log itself: no Spark job is needed for it."""
        for file in self._log_files(name):
            with file.open(encoding="utf-8") as lines:
                yield next((json.loads(line)["commitInfo"] for line in lines if line.startswith('{"commitInfo"')), {})

    def _save(self, name: str, writer: DataFrameWriter) -> int:
        """Write, and return how many rows that wrote. Delta makes no commit where there is nothing to write."""
        before = self.version(name)
        writer.save(self.path(name))
        if self.version(name) == before:
            return 0
        metrics = next(self._commits(name)).get("operationMetrics", {})
        return int(metrics.get("numOutputRows", 0))

    def clusters(self) -> list[str]:
        """Every cluster with evidence in this lake."""
        return sorted(row[0] for row in self.table("evidence_files").select("cluster_id").distinct().collect())

    def register_views(self, query: str) -> None:
        """Make the tables that a query may mean known to SQL under their own names, for this session."""
        for name in TABLES:
            if re.search(rf"\b{name}\b", query, re.IGNORECASE):
                self.table(name).createOrReplaceTempView(name)

    def counts(self, names: Sequence[str], cluster_id: str) -> dict[str, int]:
        """How many rows each table has for a cluster, in one job."""
        frames = [self.table(n, cluster_id).agg(F.lit(n).alias("name"), F.count("*").alias("rows")) for n in names]
        return {row["name"]: row["rows"] for row in reduce(DataFrame.unionAll, frames).collect()}
