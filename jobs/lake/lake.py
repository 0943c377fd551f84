"""The lake: Delta tables in a folder or an object store, read and written without Spark.

There is one way to write: Parquet files are written by tasks or by the driver (`data_files.write_file`), and the driver
adds and removes files of one cluster in one Delta commit (`commit`). Tables are partitioned by cluster_id, which is not
in the files. What a task wrote before a crash is in no commit and is never read.
"""

import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import SubTreeFileSystem

from evidence.capture.remote import Location, Remote
from jobs.lake import marks
from jobs.lake.data_files import DataFile, statistics, write_file
from jobs.lake.marks import ChainHead, ChangedMeanwhileError, OpenedTable, Stamp, undisturbed
from jobs.lake.row_groups import texts_coded
from jobs.lake.row_keys import new_rows
from jobs.lake.storage import LakeError, Storage, check_root
from jobs.lake.tables import CLUSTER_ID, INGESTED, TABLES

if TYPE_CHECKING:
    from deltalake import DeltaTable

Row = dict[str, Any]
Where: TypeAlias = pc.Expression | None  # which rows; None: all
About: TypeAlias = Mapping[str, Any] | None  # what a commit says beside its mark, as JSON values
# By default Arrow reads ahead, and keeps, gigabytes of a file even if the filter selects few rows.
_BATCHES_AHEAD = 2
_ERROR_CODE = re.compile(r"<Code>(\w+)</Code>")
_MOST_REASON = 120  # characters of Delta's text
_ATTEMPTS = 20  # to commit while other processes do


class Lake:
    """A lake in a folder or at a URL. Errors: as `check_root`."""

    def __init__(self, root: Location) -> None:
        check_root(root)
        self.root = root
        self.storage = Storage(root)
        self._opened: dict[str, OpenedTable] = {}
        self._found: set[str] = set()  # the tables that a store had

    def __getstate__(self) -> dict[str, Any]:
        """Of a lake that goes to a task: an open table cannot."""
        return {**self.__dict__, "_opened": {}}

    def exists(self) -> bool:
        """Errors: OtherReleaseError if it has another layout: one of two tables has the newest commit."""
        found = [name for name in (INGESTED[-1], "runs") if self.has(name)]
        for name in found:
            marks.require_layout(self.root, self.commits(name))
        return INGESTED[-1] in found

    def has(self, name: str) -> bool:
        """Whether the lake has a table. Errors: LakeError if the store cannot be used. Its message may quote a signed
        request, so only its code is shown.

        In a store, where every look is a request, a table that was there once is taken to be there."""
        from deltalake import DeltaTable  # slow to import

        if name in self._found:
            return True
        try:
            found = DeltaTable.is_deltatable(self.storage.url(name), self.storage.delta_options)
            if found and isinstance(self.root, Remote):
                self._found.add(name)
            return found
        except OSError as error:
            code = _ERROR_CODE.search(str(error))
            reason = code[1] if code else "no answer, or no permission"
            message = f"{self.root}: the lake cannot be opened ({reason}). Check the URL and the environment."
            raise LakeError(message) from None

    def require(self) -> None:
        """Check that the lake exists. Errors: LakeError."""
        if not self.exists():
            raise LakeError(f"{self.root}: no lake here. To make one: kraft-forensics run CAPTURE --lake {self.root}")

    def create(self) -> None:
        """Create the tables that are missing, evidence_files last: a lake that exists has all of them. Another process
        may do so at the same time. Errors: LakeError if the folder cannot be written."""
        from deltalake import CommitProperties, DeltaTable
        from deltalake.exceptions import DeltaError

        # A second try would create a table once more, on top of the other's.
        once, options = CommitProperties(max_commit_retries=0), self.storage.delta_options
        ordered = sorted(TABLES.values(), key=lambda table: table.name == INGESTED[-1])
        for table, is_there in zip(ordered, self.storage.answers(self.has, [t.name for t in ordered]), strict=True):
            if is_there:
                continue
            of: Any = table.schema, "ignore", CLUSTER_ID, table.name, table.comment, table.properties, options
            try:
                made = DeltaTable.create(self.storage.url(table.name), *of, commit_properties=once)
            except DeltaError as error:
                if self.has(table.name):  # it was created meanwhile
                    continue
                if isinstance(self.root, Remote):
                    raise
                why = " ".join(str(error).split())
                raise LakeError(f"{self.root}: no lake can be created here: {why}. Name another folder.") from error
            if table.constraints and made.version() == 0:
                try:
                    made.alter.add_constraint({**table.constraints})
                except DeltaError:  # it was added meanwhile
                    if not self.version(table.name):
                        raise

    def delta(self, name: str) -> "DeltaTable":
        """The newest version of a table, for one caller at a time. Errors: as `opened`."""
        return self.opened(name).delta

    def opened(self, name: str) -> OpenedTable:
        """The same, and what was read of its log. It is opened again only if its log has changed. Errors: LakeError if
        it is missing or its log is damaged."""
        opened = self._opened.get(name)
        if opened is None or opened.stamp is None or opened.stamp != self._stamp(name, opened.delta.version()):
            table = self._open(name)
            opened = self._opened[name] = OpenedTable(name, table, self._stamp(name, table.version()))
        return opened

    def _stamp(self, name: str, version: int) -> Stamp | None:
        """What tells the state of a table's log from any other; None if this version is not the newest. In a store,
        where every look is a request, commits that were read are taken as not changed."""
        log, newer = f"{name}/_delta_log", f"{version + 1:020}.json"
        if isinstance(self.root, Remote):
            return None if self.storage.has(f"{log}/{newer}") else (version,)
        try:
            found = [os.stat(self.root / log), os.stat(self.root / log / f"{version:020}.json")]
        except OSError:
            return None
        stamp = (version, *(n for each in found for n in (each.st_ino, each.st_size, each.st_mtime_ns)))
        return None if os.path.lexists(self.root / log / newer) else stamp

    def _open(self, name: str) -> "DeltaTable":
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            return DeltaTable(self.storage.url(name), storage_options=self.storage.delta_options)
        except TableNotFoundError:
            raise LakeError(f"{self.root}: the table {name} is missing: another program deleted it") from None
        except DeltaError as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise LakeError(
                f"{self.root}: the log of the table {name} cannot be read ({reason[:_MOST_REASON]}). Another program "
                "has changed it, or commits are missing: compare it with `kraft-forensics verify`."
            ) from error

    # Reading

    def dataset(self, name: str, as_codes: bool = False) -> ds.Dataset:
        """The newest version of a table. as_codes: columns of strings are dictionary-encoded.

        Arrow's own file system reads the files. With deltalake's file system, a Python object, Arrow threads call
        Python, and such a call while the process exits aborts it (tests/cases/reads_a_table_and_ends).
        """
        opened = self.opened(name)
        if opened.delta.protocol().min_reader_version > 1:
            raise LakeError(f"{self.root}: another program gave the table {name} a Delta feature that is not supported")
        found = [
            (unquote(row["path"]), pc.field(CLUSTER_ID) == row[f"partition.{CLUSTER_ID}"], row["size_bytes"])
            for row in opened.listed
        ]
        return self._dataset(name, TABLES[name].schema, found, as_codes)

    def dataset_of(self, name: str, files: Iterable[str]) -> ds.Dataset:
        """The rows of some files of a table (DataFile.path), without cluster_id. A column that a file of another
        program lacks is null."""
        return self._dataset(name, TABLES[name].file_schema, [(file, None, None) for file in files])

    def _dataset(
        self,
        name: str,
        schema: pa.Schema,
        files: Iterable[tuple[str, pc.Expression | None, int | None]],
        as_codes: bool = False,
    ) -> ds.Dataset:
        """files: for each its path, what holds of all of its rows, and its size, which a store is else asked for."""
        system = SubTreeFileSystem(self.storage.path(name), self.storage.system)
        texts = [field.name for field in schema if as_codes and pa.types.is_string(field.type)]
        schema = texts_coded(schema) if as_codes else schema
        form = ds.ParquetFileFormat(
            ds.ParquetReadOptions(dictionary_columns=texts), ds.ParquetFragmentScanOptions(pre_buffer=True)
        )
        return ds.FileSystemDataset(
            [form.make_fragment(file, system, holds, file_size=size) for file, holds, size in files],
            schema,
            form,
            system,
        )

    def parts(
        self, name: str, cluster: str | None, columns: Sequence[str] = (), where: Where = None, **how: bool
    ) -> Iterator[pa.Table]:
        """Read the rows of one cluster (None: of all) that match `where`, file by file, with the given columns
        (default: all). There is at least one part. how: as_codes: columns of strings are dictionary-encoded; few: most
        row groups have no such row, and only the columns of the condition are read of these."""
        of_cluster = pc.scalar(True) if cluster is None else pc.field(CLUSTER_ID) == cluster
        condition = of_cluster if where is None else of_cluster & where
        dataset, few = self.dataset(name, how.get("as_codes", False)), how.get("few", False)
        wanted = list(columns) or dataset.schema.names
        yield dataset.schema.empty_table().select(wanted)
        for file in dataset.get_fragments(condition):
            for rows in file.split_by_row_group(condition, dataset.schema) if few else [file]:
                if not few or rows.scanner(dataset.schema, filter=condition).count_rows():
                    yield rows.to_table(dataset.schema, wanted, condition, batch_readahead=_BATCHES_AHEAD)
            pa.default_memory_pool().release_unused()

    def read(
        self, name: str, cluster: str | None, columns: Sequence[str] = (), where: Where = None, **how: bool
    ) -> pa.Table:
        """Like `parts`, as one table. Only the result is held in memory."""
        return pa.concat_tables(self.parts(name, cluster, columns, where, **how))

    def rows(self, name: str, cluster_id: str, columns: Sequence[str] = (), where: Where = None) -> list[Row]:
        """Like `read`, as dicts."""
        return self.read(name, cluster_id, columns, where).to_pylist()

    def count(self, name: str, cluster_id: str, where: Where = None) -> int:
        """Number of rows that a table has for a cluster. Without `where` the log says it, unless another program has
        written a file without statistics."""
        listed = [a for a in self.opened(name).listed if a[f"partition.{CLUSTER_ID}"] == cluster_id]
        if where is None and all(a.get("num_records") is not None for a in listed):
            return sum(a["num_records"] for a in listed)
        of_cluster = pc.field(CLUSTER_ID) == cluster_id
        return int(self.dataset(name).count_rows(filter=of_cluster if where is None else of_cluster & where))

    def files(self, name: str, cluster_id: str) -> list[DataFile]:
        """The files that a table has for a cluster."""
        return self.opened(name).files(cluster_id)

    def sha256(self, name: str, path: str) -> str | None:
        """SHA-256 of a file of a table, hex; None if it is missing."""
        try:
            return self.storage.sha256(f"{name}/{path}")
        except FileNotFoundError:
            return None

    def clusters(self) -> list[str]:
        """Ids of all clusters with evidence in this lake, sorted."""
        return sorted(self.read("evidence_files", None, [CLUSTER_ID])[CLUSTER_ID].unique().to_pylist())

    def one_cluster(self, wanted: str | None) -> str:
        """The cluster to use: `wanted`, or the only one. Errors: LakeError if there is no lake or no such cluster, or
        if None is wanted and the lake has several."""
        self.require()
        clusters = self.clusters()
        if not clusters:
            raise LakeError(f"{self.root}: the lake has no captures. To add one: `kraft-forensics run`.")
        if wanted is None and len(clusters) == 1:
            return clusters[0]
        if wanted in clusters:
            return str(wanted)
        raise LakeError(f"name a cluster with --cluster; this lake has {', '.join(clusters)}")

    def captures(self, cluster_id: str) -> dict[str, int]:
        """Number of files of each capture of a cluster, by capture name."""
        counts = self.read("evidence_files", cluster_id, ["capture"])["capture"].value_counts().to_pylist()
        return {c["values"]: c["counts"] for c in sorted(counts, key=lambda c: str(c["values"]))}

    # Writing

    def append(self, name: str, cluster_id: str, rows: pa.Table, since: int | None = None, about: About = None) -> int:
        """Append the rows whose key is new, and return their number. Existing rows are never updated.

        rows: the table's columns without cluster_id; strings may be dictionary-encoded. since, about: as in `commit`;
        since=None: what other processes append at the same time is no error.
        """
        if not len(rows):
            return 0
        if since is None:
            return undisturbed(
                lambda: self.append(name, cluster_id, rows, self.cluster_version(name, cluster_id), about)
            )()
        key = TABLES[name].key
        of_files = pc.field("sha256").isin(rows["sha256"].unique().to_pylist()) if "sha256" in key else None
        new = new_rows(rows, self.read(name, cluster_id, key, of_files), key)
        if len(new):
            self.commit(name, cluster_id, [write_file(self.storage, name, new)], about=about, since=since)
        return len(new)

    def put(self, name: str, cluster_id: str, rows: pa.Table, about: About = None, since: int | None = None) -> int:
        """Replace one cluster's rows in one commit with the metadata `about`; returns the number of rows written.
        since: as in `commit`."""
        self.replace(name, cluster_id, [write_file(self.storage, name, rows)] if len(rows) else [], about, since)
        return len(rows)

    def replace(
        self, name: str, cluster_id: str, files: Iterable[DataFile], about: About = None, since: int | None = None
    ) -> None:
        """Like `put`, for files that are already written."""
        since = self.cluster_version(name, cluster_id) if since is None else since
        self.commit(name, cluster_id, files, self.files(name, cluster_id), about=about, since=since)

    def commit(
        self,
        name: str,
        cluster_id: str,
        add: Iterable[DataFile],
        remove: Iterable[DataFile] = (),
        about: About = None,
        since: int | None = None,
        data_change: bool = True,
    ) -> None:
        """Add and remove files of one cluster in one commit with the metadata `about`.

        since: the `cluster_version` that the new rows were worked out from; None: the newest. data_change: False if
        rows are only put into other files, which Delta allows in tables that are append-only. Errors:
        ChangedMeanwhileError if another process has committed rows of the cluster since then; ChangedTableError if
        files stay that another program has changed.
        """
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction

        of, now_ms = TABLES[name], time.time_ns() // 1_000_000
        partition: dict[str, str | None] = {CLUSTER_ID: cluster_id}
        add, remove = list(add), list(remove)
        actions: list[AddAction | RemoveAction] = [
            *(RemoveAction(f.name, data_change, now_ms, f.size_bytes, partition) for f in remove),
            *(AddAction(f.name, f.size_bytes, partition, now_ms, data_change, statistics(of.bounds, f)) for f in add),
        ]
        for attempts_left in reversed(range(_ATTEMPTS)):
            opened = self.opened(name)
            if self._opened.pop(name, None) is not opened:  # a commit changes it: nobody else gets this one
                opened = OpenedTable(name, self._open(name), None)
            version = opened.cluster_version(cluster_id)
            if since not in (None, version):
                raise ChangedMeanwhileError(
                    f"{self.root}: another run has changed {name} of {cluster_id} meanwhile. Run again."
                )
            # Of two commits from one version, delta-rs refuses the second if it names the same transaction.
            of_cluster = [Transaction(cluster_id, version + 1)]
            metadata = self._marked(opened, cluster_id, add, remove, about)
            properties = CommitProperties({"userMetadata": json.dumps(metadata)}, app_transactions=of_cluster)
            try:
                opened.delta.create_write_transaction(
                    actions, "append", opened.delta.schema(), CLUSTER_ID, commit_properties=properties
                )
                return
            except CommitFailedError:  # another process has committed, perhaps rows of another cluster
                if not attempts_left:
                    raise

    def _marked(
        self, opened: OpenedTable, cluster_id: str, add: list[DataFile], remove: list[DataFile], about: About
    ) -> Row:
        """The metadata of a commit on the table (jobs/lake/marks.py)."""
        removed = {file.name for file in remove}
        kept = [file for file in opened.files(cluster_id) if file.name not in removed]
        head = opened.head(cluster_id)
        if kept and head.problem:
            raise marks.changed(self.root, opened.name, cluster_id, head.problem)
        mark = {
            "table": opened.name,
            "version": opened.cluster_version(cluster_id) + 1,
            "previous": head.link,
            "files": marks.files_digest(file.text for file in (*kept, *add)),
            "added": {file.name: file.sha256 for file in add},
            "removed": sorted(removed),
            "kept": len(kept),
        }
        return marks.marked({CLUSTER_ID: cluster_id, **(about or {})}, mark)

    def cluster_version(self, name: str, cluster_id: str) -> int:
        """How often a cluster's rows of a table were changed; 0 for never."""
        return self.opened(name).cluster_version(cluster_id)

    # What tables were made from

    def version(self, name: str) -> int:
        """The table's newest Delta version; 0 for a new table."""
        return int(self.delta(name).version())

    def commits(self, name: str) -> Iterator[Row]:
        """The commitInfo of every commit, newest first, with its `version`."""
        return self.opened(name).commits()

    def marks(self, name: str, cluster_id: str | None = None) -> Iterator[Row]:
        """The metadata of the commits of a cluster's rows (None: of every one's), newest first."""
        for made in map(marks.metadata_of, self.commits(name)):
            if made and cluster_id in (None, made[CLUSTER_ID]):
                yield made

    def head(self, name: str, cluster_id: str) -> ChainHead:
        """The newest commit of the cluster's rows, and whether the table still is what that commit left. Reads no
        rows."""
        return self.opened(name).head(cluster_id)

    def made(self, name: str, cluster_id: str) -> Row:
        """The metadata (`about`, and the mark) of the newest commit of the cluster's rows; empty if there is none."""
        return self.head(name, cluster_id).made
