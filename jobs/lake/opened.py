"""A table of the lake at one version: its files and commits, as its log names them. What is read of the log is read
once: in a store every commit costs a request."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobs.lake import marks
from jobs.lake.data_files import DataFile
from jobs.lake.marks import ChainHead
from jobs.lake.tables import CLUSTER_ID, TABLES

if TYPE_CHECKING:
    from deltalake import DeltaTable

Row = dict[str, Any]
Stamp = tuple[int, ...]
_NEWEST = 20  # commits to look through before more of them are read


class OpenedTable:
    """A table at the version at which it was opened. stamp: tells this state of its log from any other; None: it may
    have changed already."""

    def __init__(self, name: str, delta: DeltaTable, stamp: Stamp | None) -> None:
        self.name, self.delta, self.stamp = name, delta, stamp
        self._versions: dict[str, int] = {}
        self._commits: list[Row] = []
        self._has_all_commits = False

    @cached_property
    def listed(self) -> list[Row]:
        """The table's files, as its log names them."""
        return pa.table(self.delta.get_add_actions(flatten=True)).to_pylist()

    def files(self, cluster_id: str) -> list[DataFile]:
        """The files of a cluster."""
        key = TABLES[self.name].bounds
        return [
            DataFile(a["path"], a["size_bytes"], a["num_records"] or 0, a.get(f"min.{key}"), a.get(f"max.{key}"))
            for a in self.listed
            if a.get(f"partition.{CLUSTER_ID}") == cluster_id
        ]

    def known_rows(self, cluster_id: str) -> int | None:
        """How many rows the log says that a cluster has; None if it does not say it: another program has written a file
        without statistics."""
        rows: list[Any] = [a.get("num_records") for a in self.listed if a[f"partition.{CLUSTER_ID}"] == cluster_id]
        return None if None in rows else sum(rows)

    def cluster_version(self, cluster_id: str) -> int:
        """How often a cluster's rows were changed; 0 for never. It is the version of the Delta application transaction
        that has the cluster's id."""
        if cluster_id not in self._versions:
            self._versions[cluster_id] = self.delta.transaction_version(cluster_id) or 0
        return self._versions[cluster_id]

    def commits(self) -> Iterator[Row]:
        """The commitInfo of every commit, newest first, with its `version`. Those of later versions may come, too."""
        done = 0
        for most in (_NEWEST, 20 * _NEWEST, None):  # the log is read from its end
            if len(self._commits) == done and not self._has_all_commits:
                self._commits = self.delta.history(most)
                self._has_all_commits = len(self._commits) != most
            yield from self._commits[done:]
            done = len(self._commits)
            if self._has_all_commits:
                return

    def head(self, cluster_id: str) -> ChainHead:
        """The newest commit of the cluster's rows, and whether the table still is what that commit left. Reads no
        rows."""
        texts = (file.text for file in self.files(cluster_id))
        return marks.head_of(cluster_id, self.cluster_version(cluster_id), self.commits(), texts)
