"""Planting defects in the tables of real captures: statements of tests/unit/quality/planted.sql, and single values."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from jobs.config.settings import load_settings
from jobs.ingest.captures import found_in
from jobs.lake.tables import TABLES
from quality.check import checks, values
from tests.support.paths import ROOT

Row = dict[str, Any]
LIMITS = load_settings().quality.model_dump()
_PLANTED = ROOT / "tests" / "unit" / "quality" / "planted.sql"
_ENTRY = re.compile(r"^-- (?P<table>[\w*]+)\.(?P<check>\w+): (?P<defect>.+)\n(?P<statement>[^;]+);$", re.MULTILINE)
# Where a table has rows; `unclean` has the others.
_CAPTURES = {
    **dict.fromkeys(("broker_log_events", "node_boots", "node_clocks"), "logs-4.1.1"),
    **dict.fromkeys(("rule_differences", "invariant_violations"), "jbod-4.0.2"),
}


class Tables(dict[str, pa.Table]):
    """A cluster's tables, which a plant changes."""

    def row(self, table: str, number: int) -> Row:
        found: Row = self[table].slice(number, 1).to_pylist()[0]
        return found

    def put(self, table: str, number: int, /, **values: Any) -> None:
        """Give a row other values."""
        rows = self[table].to_pylist()
        rows[number] |= values
        self[table] = pa.Table.from_pylist(rows, schema=self[table].schema)

    def add(self, table: str, /, **values: Any) -> None:
        """Add a row of these values; the others are null."""
        row = pa.Table.from_pylist([values], schema=self[table].schema)
        self[table] = pa.concat_tables([self[table], row])


@dataclass(frozen=True)
class Plant:
    """A defect. check: full name of the expectation that is meant for it. defect: in words."""

    check: str
    defect: str
    statement: str

    @property
    def capture(self) -> str:
        return capture_of(self.check.partition(".")[0])

    def change(self, tables: Tables) -> None:
        """Run the statement."""
        words = re.findall(r"\w+", self.statement)
        changed = next(word for word in words if word in tables)
        with duckdb.connect() as connection:
            for name in tables.keys() & set(words):
                connection.register("given", tables[name]).execute(f"create table {name} as from given")
            head, _, wanted = self.statement.partition("where ")
            if words[0] in ("update", "delete"):
                first = f"where rowid = (select min(rowid) from {changed} where {wanted or 'true'})"
                connection.execute(f"{head} {first}")
            else:
                connection.execute(self.statement)
            tables[changed] = connection.table(changed).to_arrow_table().cast(tables[changed].schema)


def planted() -> Iterator[Plant]:
    """Every defect of planted.sql, those of `*` for each table that has the check."""
    found = [entry.groupdict() for entry in _ENTRY.finditer(_PLANTED.read_text(encoding="utf-8"))]
    own = {(entry["table"], entry["check"]) for entry in found}
    for entry in found:
        for check in checks():
            alike = entry["table"] == "*" and (check.table, check.name) not in own
            if entry["check"] == check.name and (alike or entry["table"] == check.table):
                yield Plant(check.full_name, entry["defect"], entry["statement"].replace("{table}", check.table))


def capture_of(table: str) -> str:
    return _CAPTURES.get(table, "unclean")


def prepare(tables: Tables) -> None:
    """Give a row to the tables that the captures leave empty, as the commands would write it."""
    file = next(row for row in tables["evidence_files"].to_pylist() if row["node_id"] is not None)
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


def tables_of(read: Callable[[str], pa.Table]) -> Tables:
    """All tables of a cluster, with a row in each."""
    tables = Tables({name: read(name) for name in TABLES})
    prepare(tables)
    return tables
