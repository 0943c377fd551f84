"""Planting defects in the tables of real captures: what a plant is, and those for single values, keys and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from jobs.config.settings import load_settings
from jobs.ingest.captures import found_in
from jobs.lake.tables import TABLES
from quality.check import checks, values

Row = dict[str, Any]
Wanted = Callable[[Row], bool]
STRANGE = "0" * 64
LIMITS = load_settings().quality.model_dump()
# Where a table has rows; `unclean` has the others.
_CAPTURES = {
    **dict.fromkeys(("broker_log_events", "node_boots", "node_clocks"), "logs-4.1.1"),
    **dict.fromkeys(("rule_differences", "invariant_violations"), "jbod-4.0.2"),
}


class Tables(dict[str, pa.Table]):
    """A cluster's tables, which a plant changes."""

    def at(self, table: str, wanted: Wanted = lambda _: True) -> int:
        """The number of the first row that is wanted."""
        for number in range(len(self[table])):
            if wanted(self.row(table, number)):
                return number
        raise LookupError(f"{table} has no such row")

    def row(self, table: str, number: int) -> Row:
        found: Row = self[table].slice(number, 1).to_pylist()[0]
        return found

    def put(self, table: str, number: int, /, **values: Any) -> None:
        """Give a row other values."""
        for name, value in values.items():
            old = self[table]
            column = old[name].to_pylist()
            column[number] = value
            at = old.schema.get_field_index(name)
            self[table] = old.set_column(at, old.schema.field(name), pa.array(column, old.schema.field(name).type))

    def add(self, table: str, /, **values: Any) -> None:
        """Add a row of these values; the others are null."""
        schema = self[table].schema
        row = {**dict.fromkeys(schema.names), **values}
        self[table] = pa.concat_tables([self[table], pa.Table.from_pylist([row], schema=schema)])

    def copy(self, table: str, number: int, /, **values: Any) -> None:
        """Add a copy of a row with other values."""
        self.add(table, **{**self.row(table, number), **values})

    def drop(self, table: str, number: int) -> None:
        rows = self[table]
        self[table] = pa.concat_tables([rows.slice(0, number), rows.slice(number + 1)])


@dataclass(frozen=True)
class Plant:
    """A defect. check: full name of the expectation that is meant for it. defect: in words."""

    check: str
    defect: str
    change: Callable[[Tables], None]

    @property
    def table(self) -> str:
        return self.check.partition(".")[0]

    @property
    def capture(self) -> str:
        return capture_of(self.table)


def capture_of(table: str) -> str:
    return _CAPTURES.get(table, "unclean")


def prepare(tables: Tables) -> None:
    """Give a row to the tables that the captures leave empty, as the commands would write it."""
    file = tables.row("evidence_files", tables.at("evidence_files", lambda row: row["node_id"] is not None))
    place = {name: file[name] for name in ("cluster_id", "capture", "path", "sha256")}
    if not len(tables["boot_ids"]):
        boot_id = "1e7c8a66-0f4a-4a5e-9a7a-0123456789ab"
        tables.add("boot_ids", **place, node_id=file["node_id"], boot_id=boot_id, position=0)
    if not any(tables["captures"]["sha256"].to_pylist()):
        manifest = {**file, "path": "capture.toml", "kind": "manifest", "sha256": "c" * 64}
        tables.add("evidence_files", **manifest)
        tables.put("captures", 0, path="capture.toml", sha256="c" * 64, position=0)
    if not len(tables["quarantine"]):
        torn = {**file, "path": "torn", "sha256": "d" * 64, "kind": "replica_segment", "status": "quarantined"}
        torn |= {"size_bytes": 10, "parsed_bytes": 4, "quarantined_bytes": 6, "trailing_bytes": 0}
        tables.add("evidence_files", **torn)
        where = {**place, "path": "torn", "sha256": "d" * 64}
        tables.add("quarantine", **where, position=4, length_bytes=6, reason="torn_batch", message="it ends early")
    tables.put("captures", 0, **found_in(tables["evidence_files"].to_pylist()))
    result = {"run_id": "1", "run_at_ms": 1, "suite": "findings", "suite_fingerprint": "f", "table": "findings"}
    result |= {"severity": "error", "success": True, "unexpected_count": 0, "element_count": 1}
    for name in ("key_unique", "values_valid"):
        tables.add("quality_results", cluster_id=file["cluster_id"], expectation=name, **result)

    seen = {name: tables.row("findings", 0)[name] for name in ("cluster_id", "finding_id", "verdict", "severity")}
    if not len(tables["finding_first_seen"]):
        tables.add("finding_first_seen", **seen, first_seen_ms=1)
    tables.add("acknowledgements", **seen, note="known", acknowledged_ms=1)
    tables.add("kept_findings", **tables.row("findings", 0), kept_ms=1)
    run = {"run_id": "1", "command": "run", "started_ms": 1, "ended_ms": 2, "outcome": "done", "exit_code": 0}
    tables.add("runs", cluster_id=file["cluster_id"], **run, program="0.1.0")


def keys_and_files() -> Iterator[Plant]:
    """A defect for every key, and for every table whose rows name their file."""
    for table in TABLES:
        yield Plant(f"{table}.key_unique", "a row is there twice", _twice(table))
    for check in checks():
        if check.name == "file_known":
            yield Plant(check.full_name, "`sha256` is of no file of the lake", _strange_file(check.table))


def wrong_values(table: str) -> Iterator[tuple[str, Row]]:
    """For every rule about a table's single values: what `why` says of a row that breaks it, and values that do."""
    own = values()[table]
    for column in own.not_null:
        yield f"{column} is null", {column: None}
    for column in own.one_of:
        yield f"{column} is none of its values", {column: "nonsense"}
    for column, least in own.least.items():
        yield f"{column} is below {least}", {column: least - 1}
    for low, high in own.ordered:
        yield f"{low} is above {high}", {low: 100, high: 50}


def _strange_file(table: str) -> Callable[[Tables], None]:
    return lambda tables: tables.put(table, 0, sha256=STRANGE)


def _twice(table: str) -> Callable[[Tables], None]:
    return lambda tables: tables.copy(table, 0)


def live(row: Row) -> bool:
    return not row["removed"]


def state(defect: Row, wanted: Wanted = live) -> Callable[[Tables], None]:
    """Other values in the first state that is wanted."""
    return lambda tables: tables.put("partition_history", tables.at("partition_history", wanted), **defect)


def column(table: str, name: str, change: Callable[[Any], Any], wanted: Wanted) -> Callable[[Tables], None]:
    """Another value, made from the old one, in the first row that is wanted."""

    def apply(tables: Tables) -> None:
        number = tables.at(table, wanted)
        tables.put(table, number, **{name: change(tables.row(table, number)[name])})

    return apply


def has(name: str) -> Wanted:
    return lambda row: row[name] is not None


def any_row(_: Row) -> bool:
    return True


def partition_record(row: Row) -> bool:
    return row["partition_change"] is not None


def of_kind(kind: str, column: str = "kind") -> Wanted:
    return lambda row: row[column] == kind


def evidence(source: Callable[[Row], bool], **values: Any) -> Callable[[Tables], None]:
    """Other values in the first piece of evidence from such a source."""

    def apply(tables: Tables) -> None:
        number = tables.at("findings", lambda row: any(map(source, row["evidence"])))
        pieces = tables.row("findings", number)["evidence"]
        next(piece for piece in pieces if source(piece)).update(values)
        tables.put("findings", number, evidence=pieces)

    return apply


def tables_of(read: Callable[[str], pa.Table]) -> Tables:
    """All tables of a cluster, with a row in each."""
    tables = Tables({name: read(name) for name in TABLES})
    prepare(tables)
    return tables
