"""Every Delta table: its columns (from the Arrow schemas of evidence and replay, and tables.toml), with its key and
comment (quality/checks/tables.toml)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.resources import files

import pyarrow as pa

from evidence import tables as evidence
from evidence.tables import column
from quality.check import Values, values
from replay.arrow import schemas as replay
from replay.invariants import catalogue

# Raise this when the meaning of a column changes. New tables and columns change LAYOUT by themselves.
SCHEMA_VERSION = 15
CLUSTER_ID = "cluster_id"
APPEND_ONLY = "delta.appendOnly"
_CLUSTER = column(CLUSTER_ID, pa.string(), "Kafka cluster id; unknown-<capture> when no file names it")

_COLUMNS = tomllib.loads(files(__package__).joinpath("tables.toml").read_text("utf-8"))
# By name, those of evidence and replay.
_SCHEMAS = {
    name.lower(): value
    for of in (evidence, replay, catalogue)
    for name, value in vars(of).items()
    if isinstance(value, pa.Schema)
}


def schema_of(table: str) -> pa.Schema:
    """The columns in the files of a table: as tables.toml says, else as evidence or replay makes them."""
    if table not in _COLUMNS:
        return _SCHEMAS[table]
    fields: list[pa.Field] = []
    for name, given in _COLUMNS[table].items():
        if given == "*":
            fields += evidence.PROVENANCE if name == "provenance" else _SCHEMAS.get(name) or schema_of(name)
        else:
            dtype = evidence.STRING_LIST if given[0] == "string[]" else pa.type_for_alias(given[0])
            fields.append(column(name, dtype, given[1]))
    return pa.schema(fields)


KEPT_FINDINGS = "kept_findings"
STATIC_CONFIGS, QUALITY_RESULTS = schema_of("static_configs"), schema_of("quality_results")
ACKNOWLEDGEMENTS, RUNS = schema_of("acknowledgements"), schema_of("runs")


@dataclass(frozen=True)
class Table:
    """A Delta table. file_schema: the columns in its files. key: the columns that, with cluster_id, identify a row.
    topics: path of the column with topic ids, for a table that tasks read by topics (jobs/lake/row_groups.py). bounds:
    the column whose least and largest values in a file its commit names. constraints: conditions on its rows by name,
    in SQL, as Delta stores them.
    """

    name: str
    file_schema: pa.Schema
    comment: str
    key: tuple[str, ...]
    append_only: bool
    topics: tuple[str, ...]
    bounds: str
    constraints: Mapping[str, str]

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns: cluster_id, by which tables are partitioned, and those in the files."""
        return pa.schema([_CLUSTER, *self.file_schema])

    @property
    def properties(self) -> dict[str, str]:
        """The table's Delta properties. Commits are kept for ever: they hold the chain (jobs/lake/marks.py)."""
        properties = {"delta.enableExpiredLogCleanup": "false"}
        if self.append_only:
            properties[APPEND_ONLY] = "true"
        return {**properties, "delta.dataSkippingStatsColumns": self.bounds}


def _table(name: str, about: Values) -> Table:
    key, bounds, schema = tuple(about.key), about.bounded or about.key[-1], schema_of(name)
    of = (name, schema, about.comment, key, about.append_only, tuple(about.topics), bounds)
    return Table(*of, about.constraints)


TABLES = {name: _table(name, about) for name, about in values().items()}

# Of all tables. Every commit names it, and a lake of another layout is refused (jobs/lake/lake.py).
_LAYOUT = [(t.name, t.key, t.properties, [(f.name, str(f.type)) for f in t.schema]) for t in TABLES.values()]
LAYOUT = f"{SCHEMA_VERSION}-{sha256(repr(_LAYOUT).encode()).hexdigest()[:8]}"

STAGES: dict[str, tuple[str, ...]] = {stage: tuple(tables) for stage, tables in _COLUMNS["stages"].items()}
INGESTED, REPLAYED, DETECTED, CHECKED = STAGES.values()
