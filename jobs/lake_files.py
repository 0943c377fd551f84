"""The lake's tables as files, read on the driver without Spark: what is little, or what a filter leaves little of.

A Spark job takes longer to be planned than such a read takes. What is large, and all writing, is jobs/lake.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from evidence.errors import KraftForensicsError
from jobs import delta_log

Row = dict[str, Any]


class LakeError(KraftForensicsError):
    """The lake is missing or is not one."""


class LakeFiles:
    """A lake in a folder."""

    def __init__(self, root: Path) -> None:
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

    def dataset(self, name: str) -> Dataset:
        """A table as it is now.

        Its files are read through Arrow's own file system: through deltalake's, which is a Python object, threads of
        Arrow call Python, and one that does so while the process ends aborts it (tests/cases/reads_a_table_and_ends).
        """
        from deltalake import DeltaTable  # takes a while to import

        path = self.path(name)
        return DeltaTable(path).to_pyarrow_dataset(filesystem=SubTreeFileSystem(path, LocalFileSystem()))

    def read(
        self, name: str, cluster_id: str | None, columns: Sequence[str] = (), where: pc.Expression | None = None
    ) -> pa.Table:
        """One cluster's rows of a table (None: all clusters') for which `where` holds, with these columns, or all. Only
        what comes back is held in memory."""
        of_cluster = None if cluster_id is None else pc.field("cluster_id") == cluster_id
        wanted = [condition for condition in (of_cluster, where) if condition is not None]
        condition = reduce(and_, wanted) if wanted else None
        return self.dataset(name).to_table(columns=list(columns) or None, filter=condition)

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

    def mark(self, name: str, cluster_id: str) -> str | None:
        """The mark in it: from which inputs the rows were made."""
        return self.made(name, cluster_id).get("mark")
