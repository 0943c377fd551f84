"""Bring a lake of an earlier release to this one. Each step is skipped where it is done, so that an upgrade that was
cut off goes on when it is repeated. What follows from the evidence is made again by the stages."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.parquet as pq
from deltalake import Schema

from jobs.ingest.captures import add_missing
from jobs.lake.lake import Lake, LakeError
from jobs.lake.tables import APPEND_ONLY, CLUSTER_ID, INGESTED, SCHEMA_VERSION, TABLES
from jobs.lake.versions import layout_of
from jobs.provenance.fingerprint import heads_of
from jobs.provenance.rewritten import same_rows


def upgrade_layout(lake: Lake) -> Iterator[str]:
    """Bring every table to this release's layout; yields what was done, as sentences.

    Errors: LakeError if the tables are stored in another way, or a column has another type: the captures that must be
    ingested into a new lake are named. NewerLakeError. ChangedTableError if another program has changed evidence.
    """
    lake.require()
    existing = [name for name in TABLES if lake.has(name)]
    if problems := [problem for name in existing for problem in _unlike(lake, name)]:
        captures = lake.read(INGESTED[-1], None, ("capture",))["capture"].unique().to_pylist()
        raise LakeError(
            f"{lake.root}: {problems[0]}. Ingest these captures into a new lake: {', '.join(sorted(captures))}."
        )
    lake.create()
    if missing := TABLES.keys() - set(existing):
        yield f"new tables: {', '.join(sorted(missing))}"
    for name in TABLES:
        yield from _columns(lake, name)
        yield from _properties(lake, name)
    for cluster in lake.clusters():
        heads_of(lake, cluster, INGESTED)
        if captures := add_missing(lake, cluster):
            yield f"{cluster}: captures: {captures} new row{'s'[: captures > 1]}"
        yield from _marks(lake, cluster)


def to_ingest_again(lake: Lake) -> Iterator[str]:
    """The columns of evidence that are null in rows of an earlier release, with the captures that brought these."""
    for name in INGESTED:
        found: dict[str, set[str]] = {}
        for cluster in lake.clusters():
            for file in lake.files(name, cluster):
                with lake.storage.open(f"{name}/{file.path}") as source:
                    rows = pq.ParquetFile(source)
                    missing = set(TABLES[name].file_schema.names) - set(rows.schema_arrow.names)
                    captures = rows.read(["capture"])["capture"].unique().to_pylist() if missing else []
                for column in missing:
                    found.setdefault(column, set()).update(captures)
        for column, captures in sorted(found.items()):
            names = ", ".join(sorted(captures))
            yield f"{name}.{column} is null in rows of an earlier release; to fill it, ingest into a new lake: {names}"


def _unlike(lake: Lake, name: str) -> Iterator[str]:
    """Why a table cannot be brought to this layout."""
    table = lake.delta(name)
    if table.metadata().partition_columns != [CLUSTER_ID]:
        yield f"the table {name} is not partitioned by {CLUSTER_ID}, so it can be read but not changed"
    wanted = {field.name: field for field in Schema.from_arrow(TABLES[name].schema).fields}
    for field in table.schema().fields:
        if field.name in wanted and field.type != wanted[field.name].type:
            yield f"the column {name}.{field.name} has another type"


def _columns(lake: Lake, name: str) -> Iterator[str]:
    table = lake.delta(name)
    known = {field.name for field in table.schema().fields}
    missing = [field for field in Schema.from_arrow(TABLES[name].schema).fields if field.name not in known]
    if missing:
        table.alter.add_columns(missing)
        yield f"{name}: new columns {', '.join(field.name for field in missing)}"


def _properties(lake: Lake, name: str) -> Iterator[str]:
    table, of = lake.delta(name), TABLES[name]
    found = table.metadata().configuration
    missing = {key: value for key, value in of.properties.items() if found.get(key) != value}
    if found.get(APPEND_ONLY) == "true" and not of.append_only:
        missing[APPEND_ONLY] = "false"
    if missing:
        table.alter.set_table_properties(missing)
        yield f"{name}: properties {', '.join(sorted(missing))}"
    for check in of.checks:
        if f"delta.constraints.{check.name}" not in found:
            lake.delta(name).alter.add_constraint({check.name: check.condition})
            yield f"{name}: constraint {check.name}"


def _marks(lake: Lake, cluster: str) -> Iterator[str]:
    """Commit the rows of earlier releases as they are, with a mark that names this layout. Derived tables that another
    program has changed are left to their stages."""
    stamped = []
    for name in TABLES:
        head = lake.head(name, cluster)
        if head.made and not head.problem and layout_of(head.made) < SCHEMA_VERSION:
            lake.commit(name, cluster, [], about=same_rows(head), since=head.version)
            stamped.append(name)
    if stamped:
        yield f"{cluster}: layout {SCHEMA_VERSION} of {len(stamped)} tables"
