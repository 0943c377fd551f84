"""A cluster's tables as the checks read them: whole, piece by piece, or as digests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa

from jobs.lake.lake import Lake
from jobs.lake.row_groups import WITHOUT_TOPIC, Bucket, FilePart, pieces_of, read_bucket
from jobs.lake.tables import TABLES
from jobs.replay.buckets import BucketFiles
from quality.digests import DIGESTS
from quality.run import top_level, with_codes

_ALL = Bucket(0, 1)


class LakeTables:
    """The tables of a cluster. most: rows of a piece, unless a row group has more. A digest is made once; the parts
    that a task is given share this object, so each task makes it once.

    columns, everywhere: names, or dotted paths of fields. Strings are dictionary-encoded.
    """

    def __init__(self, lake: Lake, cluster: str, most: int) -> None:
        self._lake = lake
        self._cluster = cluster
        self._most = most
        self._digests: dict[str, pa.Table] = {}

    def whole(self, name: str, columns: Sequence[str]) -> pa.Table:
        """All rows of a table, or of a digest."""
        if name not in DIGESTS:
            return pa.concat_tables(self.pieces(name, columns), promote_options="permissive")
        if name not in self._digests:
            self._digests[name] = self._digest(name)
        return self._digests[name]

    def pieces(self, name: str, columns: Sequence[str], files: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows of a table, or of some of its files, piece by piece; at least one."""
        files = [file.path for file in self._lake.files(name, self._cluster)] if files is None else files
        if not files:
            yield self.of_parts(name, [], columns, _ALL)
        for file in files:
            for part in pieces_of(self._lake.storage, f"{name}/{file}", self._most):
                rows = self.of_parts(name, [part], columns, _ALL)
                yield from (rows.slice(at, self._most) for at in range(0, len(rows), self._most))
                pa.default_memory_pool().release_unused()

    def of_parts(self, name: str, parts: Sequence[FilePart], columns: Sequence[str], bucket: Bucket) -> pa.Table:
        """The rows of a bucket."""
        found = read_bucket(self._lake.storage, parts, columns, bucket, TABLES[name].topics, as_codes=True)
        empty = _selected(TABLES[name].file_schema, columns).empty_table()
        return pa.concat_tables(map(with_codes, chain([empty], found)), promote_options="permissive")

    def _digest(self, name: str) -> pa.Table:
        digest = DIGESTS[name]
        if digest.of_topics:
            pieces = self.pieces(digest.table, digest.columns)
            return digest.merged(pa.concat_tables(digest.of(piece) for piece in pieces))
        parts = BucketFiles(self._lake, self._cluster, [digest.table]).parts(WITHOUT_TOPIC)[digest.table]
        columns = (*digest.columns, ".".join(TABLES[digest.table].topics))
        return digest.of(self.of_parts(digest.table, parts, columns, WITHOUT_TOPIC))


def _selected(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """Columns of a schema; columns of structs with the fields alone that dotted paths name."""
    fields = []
    for name in top_level(columns):
        field = schema.field(name)
        paths = {path for path in columns if path.startswith(f"{name}.")}
        if paths and name not in columns:
            field = pa.field(name, pa.struct([inner for inner in field.type if f"{name}.{inner.name}" in paths]))
        fields.append(field)
    return pa.schema(fields)
