"""The lake's tables as files, read and written on the driver without Spark: what a filter leaves little of, and rows
that the driver has as Arrow.

A Spark job takes longer to be planned than such a read or write takes. What Spark makes is written by
jobs/lake/lake.py.
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
# A path has lost one of the two slashes.
_URL_AS_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
# deltalake makes a URL of a path, in which these mean something else, or nothing.
_MISREAD = re.compile(r"[%\[\]\\^|\x00-\x1f\x7f]")
# Of a file of which a filter leaves little Arrow would by default hold gigabytes, and keep them for later.
_BATCHES_AHEAD = 2
_STEP_ROWS = 1_000_000  # of a table that is written, as it is held in whole


class LakeError(KraftForensicsError):
    """The lake is missing or is not one."""


def check_root(root: Path) -> None:
    """Errors: LakeError for a lake that is a URL, or whose path deltalake would take for another."""
    scheme = _URL_AS_PATH.match(str(root))
    if scheme:
        raise LakeError(
            f"{scheme[1]}://...: the lake is a folder of this machine, or one that is mounted (docs/cluster.md). "
            "Captures can be URLs, --lake cannot."
        )
    if found := _MISREAD.search(str(root.resolve())):
        raise LakeError(f"{str(root)!r}: {found[0]!r} in a lake's path cannot be read back. Choose another --lake.")


def table_properties(table: Table) -> dict[str, str]:
    """The Delta properties of a table."""
    properties = {"delta.appendOnly": "true"} if table.append_only else {}
    properties |= {f"delta.constraints.{name}": condition for name, condition in table.checks}
    return {**properties, "delta.dataSkippingStatsColumns": ",".join(["cluster_id", table.key[-1]])}


def whole(name: str, cluster_id: str, table: pa.Table) -> pa.Table:
    """Rows of a table (texts may be encoded) with cluster_id, typed as the lake's table is."""
    target = TABLES[name].schema
    columns = {"cluster_id": pa.repeat(pa.scalar(cluster_id), len(table))}
    columns |= {field.name: table[field.name] for field in target if field.name != "cluster_id"}
    return pa.table(columns, schema=target)


def about_text(cluster_id: str, about: Mapping[str, Any] | None) -> str:
    """What a commit says of itself."""
    return json.dumps({"cluster_id": cluster_id, **(about or {})})


class LakeFiles:
    """A lake in a folder. Writes are one Delta commit each. Errors: as of `check_root`."""

    def __init__(self, root: Path) -> None:
        check_root(root)
        self.root = root

    def path(self, name: str) -> str:
        return str(self.root.resolve() / name)

    def exists(self) -> bool:
        return delta_log.is_table(self.root / "evidence_files")

    def require(self) -> None:
        """Errors: LakeError when there is no lake yet."""
        if not self.exists():
            raise LakeError(
                f"{self.root}: no lake here. Ingest a capture first: kraft-forensics ingest CAPTURE --lake {self.root}"
            )

    def create(self) -> None:
        """Create every table that is not there yet."""
        missing = [table for table in TABLES.values() if not delta_log.is_table(self.root / table.name)]
        if not missing:
            return
        from jobs.spark.types import spark_schema  # takes a while to import

        for table in missing:
            schema = spark_schema(table.schema).json()
            delta_log.make_table(self.root / table.name, table.comment, schema, table_properties(table))

    def dataset(self, name: str) -> Dataset:
        """A table as it is now. A column that it lacks, since an earlier release made it, is null.

        Its files are read through Arrow's own file system: through deltalake's, which is a Python object, threads of
        Arrow call Python, and one that does so while the process ends aborts it (tests/cases/reads_a_table_and_ends).
        """
        from deltalake import DeltaTable  # takes a while to import

        path = self.path(name)
        dataset = DeltaTable(path).to_pyarrow_dataset(filesystem=SubTreeFileSystem(path, LocalFileSystem()))
        missing = [field for field in TABLES[name].schema if field.name not in dataset.schema.names]
        return dataset.replace_schema(pa.schema([*dataset.schema, *missing])) if missing else dataset

    def read(
        self, name: str, cluster_id: str | None, columns: Sequence[str] = (), where: pc.Expression | None = None
    ) -> pa.Table:
        """One cluster's rows of a table (None: all clusters') for which `where` holds, with these columns, or all. Only
        what comes back is held in memory."""
        of_cluster = None if cluster_id is None else pc.field("cluster_id") == cluster_id
        wanted = [condition for condition in (of_cluster, where) if condition is not None]
        condition = reduce(and_, wanted) if wanted else None
        dataset = self.dataset(name)
        wanted_columns = list(columns) or dataset.schema.names
        parts = [dataset.schema.empty_table().select(wanted_columns)]
        for file in dataset.get_fragments(condition):
            parts.append(file.to_table(dataset.schema, wanted_columns, condition, batch_readahead=_BATCHES_AHEAD))
            pa.default_memory_pool().release_unused()
        return pa.concat_tables(parts)

    def rows(
        self, name: str, cluster_id: str, columns: Sequence[str] = (), where: pc.Expression | None = None
    ) -> list[Row]:
        """As `read`, as dicts."""
        result: list[Row] = self.read(name, cluster_id, columns, where).to_pylist()
        return result

    def count(self, name: str, cluster_id: str) -> int:
        """How many rows a table has for a cluster."""
        return int(self.dataset(name).count_rows(filter=pc.field("cluster_id") == cluster_id))

    def clusters(self) -> list[str]:
        """Every cluster with evidence in this lake."""
        return sorted(self.read("evidence_files", None, ["cluster_id"])["cluster_id"].unique().to_pylist())

    def one_cluster(self, wanted: str | None) -> str:
        """The cluster a command is about. Errors: LakeError when there is no lake, or when that is not clear."""
        self.require()
        clusters = self.clusters()
        if wanted is None and len(clusters) == 1:
            return clusters[0]
        if wanted in clusters:
            return str(wanted)
        raise LakeError(f"name a cluster with --cluster; this lake holds {', '.join(clusters)}")

    def append(self, name: str, cluster_id: str, rows: pa.Table) -> int:
        """Append the rows whose key is not there yet; returns how many. Rows are immutable: nothing is updated.

        rows: of the table's columns without cluster_id; texts may be dictionary-encoded.
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
        """Replace one cluster's rows in one commit, which also carries `about`; returns the rows written. A column that
        the table lacks, since an earlier release made it, is added."""
        of_cluster = "cluster_id = '{}'".format(cluster_id.replace("'", "''"))
        said = {"userMetadata": about_text(cluster_id, about)}
        self._commit(name, cluster_id, rows, said, mode="overwrite", predicate=of_cluster)
        return len(rows)

    def _commit(
        self, name: str, cluster_id: str, rows: pa.Table, said: Mapping[str, str] | None = None, **how: Any
    ) -> None:
        from deltalake import CommitProperties, DeltaTable, write_deltalake

        table = DeltaTable(self.path(name))
        steps = (whole(name, cluster_id, rows.slice(at, _STEP_ROWS)) for at in range(0, len(rows), _STEP_ROWS))
        batches = (batch for step in steps for batch in step.to_batches())
        reader = pa.RecordBatchReader.from_batches(TABLES[name].schema, batches)
        if not set(reader.schema.names) <= {field.name for field in table.schema().fields}:
            how["schema_mode"] = "merge"
        properties = CommitProperties(custom_metadata=dict(said)) if said else None
        write_deltalake(table, reader, commit_properties=properties, **how)

    def captures(self, cluster_id: str) -> dict[str, int]:
        """How many files each capture of a cluster has, by its name."""
        counts = self.read("evidence_files", cluster_id, ["capture"])["capture"].value_counts().to_pylist()
        return {c["values"]: c["counts"] for c in sorted(counts, key=lambda c: str(c["values"]))}

    def version(self, name: str) -> int:
        """The table's newest Delta version; 0 right after it was created."""
        return delta_log.version(self.root / name)

    def commits(self, name: str) -> Iterator[dict[str, Any]]:
        """The commitInfo of every commit, newest first."""
        return delta_log.commits(self.root / name)

    def made(self, name: str, cluster_id: str) -> dict[str, Any]:
        """What the newest commit that wrote the cluster's rows says `about` them; empty if there is none."""
        for commit in self.commits(name):
            text = commit.get("userMetadata")
            made: dict[str, Any] = json.loads(text) if text else {}
            if made.get("cluster_id") == cluster_id:
                return made
        return {}

    def input_fingerprint(self, name: str, cluster_id: str) -> str | None:
        """The mark in it: from which inputs the rows were made."""
        return self.made(name, cluster_id).get("input_fingerprint")
