"""Each expectation catches the defects that are planted for it; real captures break none."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from evidence.wire.batches import scan_batches
from jobs.lake.tables import TABLES
from quality.check import Check, Outcome, checks
from quality.run import InMemory, run
from tests.support import writer
from tests.support.judged import judged_lake
from tests.support.paths import capture, controllers
from tests.support.planting import LIMITS, Plant, Tables, capture_of, planted, tables_of, wrong_values
from tests.support.small_captures import with_rounds

AFTER_MS = 1_795_221_800_000  # after the last record of that capture
PLANTED = [*planted()]
CLEAN = ("unclean", "jbod-4.0.2", "logs-4.1.1")  # others: tests/slow/test_quality.py, tests/spark/test_run.py
OF = {check.full_name: check for check in checks()}
Lakes = Callable[[str], Tables]


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Lakes:
    """Gives the tables of a capture, which are made once."""
    folder = tmp_path_factory.mktemp("lakes")

    @cache
    def made(name: str) -> Tables:
        given = with_rounds(name, folder / "captures", 8) if name == "unclean" else capture(name)
        return _made(folder / name, given)

    return made


def _made(lake: Path, given: Path) -> Tables:
    made = judged_lake(lake, given)
    (cluster,) = made.clusters()
    return tables_of(lambda table: made.read(table, cluster))


def outcome(check: Check, tables: Tables) -> Outcome:
    return run([check], InMemory(tables), LIMITS)[check.full_name]


@pytest.mark.parametrize("name", CLEAN)
def test_a_real_capture_breaks_no_expectation(lakes: Lakes, name: str) -> None:
    backwards = {table: rows.take(pa.array(range(len(rows))[::-1], pa.int64())) for table, rows in lakes(name).items()}
    for tables in (lakes(name), backwards):
        found = run(checks(), InMemory(tables), LIMITS)
        assert {check: result.sample for check, result in found.items() if result.broken} == {}
        assert sum(result.checked for result in found.values()) > 1000


def _cut_before_the_newest_snapshots(log: bytes) -> bytes:
    return log[: _at(log, 117)]


def _without_a_batch_with_others_twice_and_a_newer_version(log: bytes) -> bytes:
    start, end = _at(log, 102), _at(log, 104)
    newer = writer.batch([writer.frame(5, 9, b"")], 322, timestamp_ms=AFTER_MS)
    return log[:end] + log[start : _at(log, 314)] + log[_at(log, 315) :] + newer


def _at(log: bytes, offset: int) -> int:
    return next(batch.position for batch in scan_batches(log).batches if batch.base_offset == offset)


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (_cut_before_the_newest_snapshots, {"unobserved"}),
        (_without_a_batch_with_others_twice_and_a_newer_version, {"offset_gap", "offset_flip", "unreadable_record"}),
    ],
)
def test_what_is_wrong_with_all_controllers_logs_breaks_no_expectation(
    change: Callable[[bytes], bytes], rules: set[str], tmp_path: Path
) -> None:
    """It is a fault of the evidence, and found as such."""
    folder = controllers("unclean", tmp_path)
    for log in folder.glob("controllers/*/__cluster_metadata-0/*.log"):
        log.write_bytes(change(log.read_bytes()))
    tables = _made(tmp_path / "lake", folder)
    found = run(checks(), InMemory(tables), LIMITS)
    assert {check: result.sample for check, result in found.items() if result.broken} == {}
    assert set(tables["findings"]["rule"].to_pylist()) >= rules


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: f"{plant.check}: {plant.defect}")
def test_a_planted_defect_is_caught(lakes: Lakes, plant: Plant) -> None:
    """As it is, its capture breaks nothing: see above."""
    assert plant.capture in CLEAN
    tables = Tables(lakes(plant.capture))
    plant.change(tables)
    found = outcome(OF[plant.check], tables)
    assert found.broken > 0
    assert 0 < len(found.sample) <= LIMITS["sample_rows"]
    assert all(found.sample)


@pytest.mark.parametrize("table", TABLES)
def test_a_wrong_value_is_caught_and_named(lakes: Lakes, table: str) -> None:
    """A copy of a row for each rule about a single value, which breaks it."""
    tables, wrong = Tables(lakes(capture_of(table))), list(wrong_values(table))
    row = tables.row(table, 0)
    schema = tables[table].schema
    tables[table] = pa.Table.from_pylist([{**row, **values} for _, values in wrong], schema=schema)
    check = OF[f"{table}.values_valid"]
    found = run([check], InMemory(tables), {**LIMITS, "sample_rows": 1000})[check.full_name]
    assert found.broken == len(wrong)
    named = {why for text in found.sample for why in text.rpartition(", ")[2].split("; ")}
    assert named == {why for why, _ in wrong}


def test_every_expectation_of_every_table_has_a_defect() -> None:
    assert {plant.check for plant in PLANTED} == {name for name in OF if not name.endswith(".values_valid")}


@pytest.mark.parametrize("name", ["unclean", "jbod-4.0.2"])
def test_tables_without_rows_break_nothing(lakes: Lakes, name: str) -> None:
    empty = Tables({table: rows.slice(0, 0) for table, rows in lakes(name).items()})
    assert [check for check, result in run(checks(), InMemory(empty), LIMITS).items() if result.broken] == []


@pytest.mark.parametrize("values", [(-1,), (1,), (-1, 1)], ids=["least", "largest", "both"])
def test_numbers_of_damaged_evidence_raise_no_error(lakes: Lakes, values: tuple[int, ...]) -> None:
    """The least and the largest number that a column can have, in every row."""
    tables = Tables(lakes("unclean"))
    for name, rows in tables.items():
        for at, field in enumerate(rows.schema):
            if pa.types.is_signed_integer(field.type):
                most = (1 << field.type.bit_width - 1) - 1
                column = [most if values[row % len(values)] > 0 else -most - 1 for row in range(len(rows))]
                tables[name] = tables[name].set_column(at, field, pa.array(column, field.type))
    found = run(checks(), InMemory(tables), LIMITS)
    assert sum(result.broken for result in found.values()) > 100
