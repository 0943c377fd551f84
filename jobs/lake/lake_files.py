"""Read and write the lake's tables on the driver, without Spark: filtered reads that return few rows, and Arrow tables.

Planning a Spark job takes longer than such a read or write. jobs/lake/lake.py writes what Spark computes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from evidence.errors import KraftForensicsError
from jobs.lake import delta_log
from jobs.lake.row_keys import new_rows
from jobs.lake.tables import TABLES, Table

Row = dict[str, Any]
# pathlib has removed one of the two slashes.
_URL_AS_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
# deltalake converts a path to a URL, where these characters have another meaning or are illegal.
_MISREAD = re.compile(r"[%\[\]\\^|\x00-\x1f\x7f]")
# By default Arrow reads ahead, and keeps, gigabytes of a file even if the filter selects few rows.
_BATCHES_AHEAD = 2
_STEP_ROWS = 1_000_000  # rows to convert at once when a table is written


class LakeError(KraftForensicsError):
    """The lake is missing or cannot be used."""


def check_root(root: Path) -> None:
    """Check a lake's path. Errors: LakeError for a URL, or a path that deltalake would misread."""
    scheme = _URL_AS_PATH.match(str(root))
    if scheme:
        raise LakeError(
            f"{scheme[1]}://...: the lake must be a local or mounted folder (docs/cluster.md). "
            "Captures can be URLs, --lake cannot."
        )
    if found := _MISREAD.search(str(root.resolve())):
        raise LakeError(f"{str(root)!r}: a lake's path must not contain {found[0]!r}. Choose another --lake.")


def table_properties(table: Table) -> dict[str, str]:
    """The Delta properties of a table."""
    properties = {"delta.appendOnly": "true"} if table.append_only else {}
    properties |= {f"delta.constraints.{name}": condition for name, condition in table.checks}
    return {**properties, "delta.dataSkippingStatsColumns": ",".join(["cluster_id", table.key[-1]])}


def whole(name: str, cluster_id: str, table: pa.Table) -> pa.Table:
    """Add cluster_id to rows of a table and cast them to its schema. table: strings may be dictionary-encoded."""
    target = TABLES[name].schema
    columns = {"cluster_id": pa.repeat(pa.scalar(cluster_id), len(table))}
    columns |= {field.name: table[field.name] for field in target if field.name != "cluster_id"}
    return pa.table(columns, schema=target)


def about_text(cluster_id: str, about: Mapping[str, Any] | None) -> str:
    """The metadata of a commit as JSON."""
    return json.dumps({"cluster_id": cluster_id, **(about or {})})


class LakeFiles:
    """A lake in a folder. Each write is one Delta commit. Errors: as `check_root`."""

    def __init__(self, root: Path) -> None:
        check_root(root)
        self.root = root

    def path(self, name: str) -> str:
        return str(self.root.resolve() / name)

    def exists(self) -> bool:
        return delta_log.is_table(self.root / "evidence_files")

    def require(self) -> None:
        """Check that the lake exists. Errors: LakeError."""
        if not self.exists():
            raise LakeError(
                f"{self.root}: no lake here. Ingest a capture first: kraft-forensics ingest CAPTURE --lake {self.root}"
            )

    def create(self) -> None:
        """Create the tables that are missing."""
        missing = [table for table in TABLES.values() if not delta_log.is_table(self.root / table.name)]
        if not missing:
            return
        from jobs.spark.types import spark_schema  # slow to import

        for table in missing:
            schema = spark_schema(table.schema).json()
            delta_log.make_table(self.root / table.name, table.comment, schema, table_properties(table))

    def dataset(self, name: str) -> Dataset:
        """The newest version of a table. A column missing from a table of an earlier release is null.

        Arrow's own file system reads the files. With deltalake's file system, a Python object, Arrow threads call
        Python, and such a call while the process exits aborts it (tests/cases/reads_a_table_and_ends).
        """
        from deltalake import DeltaTable  # slow to import

        path = self.path(name)
        dataset = DeltaTable(path).to_pyarrow_dataset(filesystem=SubTreeFileSystem(path, LocalFileSystem()))
        missing = [field for field in TABLES[name].schema if field.name not in dataset.schema.names]
        return dataset.replace_schema(pa.schema([*dataset.schema, *missing])) if missing else dataset

    def read(
        self, name: str, cluster_id: str | None, columns: Sequence[str] = (), where: pc.Expression | None = None
    ) -> pa.Table:
        """Read the rows of one cluster (None: of all) that match `where`, with the given columns (default: all). Only
        the result is held in memory."""
        of_cluster = None if cluster_id is None else pc.field("cluster_id") == cluster_id
        wanted = [condition for condition in (of_cluster, where) if condition is not None]
        condition = reduce(and_, wanted) if wanted else None
        dataset = self.dataset(name)
        wanted_columns = list(columns) or dataset.schema.names
        found = [dataset.schema.empty_table().select(wanted_columns)]
        for file in dataset.get_fragments(condition):
            found.append(file.to_table(dataset.schema, wanted_columns, condition, batch_readahead=_BATCHES_AHEAD))
            pa.default_memory_pool().release_unused()
        return pa.concat_tables(found)

    def rows(
        self, name: str, cluster_id: str, columns: Sequence[str] = (), where: pc.Expression | None = None
    ) -> list[Row]:
        """Like `read`, as dicts."""
        result: list[Row] = self.read(name, cluster_id, columns, where).to_pylist()
        return result

    def count(self, name: str, cluster_id: str) -> int:
        """Number of rows that a table has for a cluster."""
        return int(self.dataset(name).count_rows(filter=pc.field("cluster_id") == cluster_id))

    def clusters(self) -> list[str]:
        """Ids of all clusters with evidence in this lake, sorted."""
        return sorted(self.read("evidence_files", None, ["cluster_id"])["cluster_id"].unique().to_pylist())

    def one_cluster(self, wanted: str | None) -> str:
        """The cluster to use: `wanted`, or the only one. Errors: LakeError if there is no lake or no such cluster, or
        if None is wanted and the lake has several."""
        self.require()
        clusters = self.clusters()
        if wanted is None and len(clusters) == 1:
            return clusters[0]
        if wanted in clusters:
            return str(wanted)
        raise LakeError(f"name a cluster with --cluster; this lake has {', '.join(clusters)}")

    def append(self, name: str, cluster_id: str, rows: pa.Table) -> int:
        """Append the rows whose key is new, and return their number. Existing rows are never updated.

        rows: the table's columns without cluster_id; strings may be dictionary-encoded.
        """
        if not len(rows):
            return 0
        key = TABLES[name].key
        of_files = pc.field("sha256").isin(rows["sha256"].unique().to_pylist()) if "sha256" in key else None
        known = self.read(name, cluster_id, key, of_files)
        new = new_rows(rows, known, key)
        if len(new):
            self._commit(name, cluster_id, new, mode="append")
        return len(new)

    def put(self, name: str, cluster_id: str, rows: pa.Table, about: Mapping[str, Any] | None = None) -> int:
        """Replace one cluster's rows in one commit with the metadata `about`; returns the number of rows written.
        Columns missing from a table of an earlier release are added."""
        of_cluster = "cluster_id = '{}'".format(cluster_id.replace("'", "''"))
        metadata = {"userMetadata": about_text(cluster_id, about)}
        self._commit(name, cluster_id, rows, metadata, mode="overwrite", predicate=of_cluster)
        return len(rows)

    def _commit(
        self, name: str, cluster_id: str, rows: pa.Table, metadata: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        from deltalake import CommitProperties, DeltaTable, write_deltalake

        table = DeltaTable(self.path(name))
        steps = (whole(name, cluster_id, rows.slice(at, _STEP_ROWS)) for at in range(0, len(rows), _STEP_ROWS))
        batches = (batch for step in steps for batch in step.to_batches())
        reader = pa.RecordBatchReader.from_batches(TABLES[name].schema, batches)
        if not set(reader.schema.names) <= {field.name for field in table.schema().fields}:
            options["schema_mode"] = "merge"
        properties = CommitProperties(custom_metadata=dict(metadata)) if metadata else None
        write_deltalake(table, reader, commit_properties=properties, **options)

    def captures(self, cluster_id: str) -> dict[str, int]:
        """Number of files of each capture of a cluster, by capture name."""
        counts = self.read("evidence_files", cluster_id, ["capture"])["capture"].value_counts().to_pylist()
        return {c["values"]: c["counts"] for c in sorted(counts, key=lambda c: str(c["values"]))}

    def version(self, name: str) -> int:
        """The table's newest Delta version; 0 for a new table."""
        return delta_log.version(self.root / name)

    def commits(self, name: str) -> Iterator[dict[str, Any]]:
        """The commitInfo of every commit, newest first."""
        return delta_log.commits(self.root / name)

    def made(self, name: str, cluster_id: str) -> dict[str, Any]:
        """The metadata (`about`) of the newest commit of the cluster's rows; empty if there is none."""
        for commit in self.commits(name):
            text = commit.get("userMetadata")
            made: dict[str, Any] = json.loads(text) if text else {}
            if made.get("cluster_id") == cluster_id:
                return made
        return {}

    def input_fingerprint(self, name: str, cluster_id: str) -> str | None:
        """The fingerprint of the inputs that the cluster's rows were made from; None if there is none."""
        return self.made(name, cluster_id).get("input_fingerprint")
