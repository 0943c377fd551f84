"""The views in DuckDB: they have the columns that they document, and give what their comments say.

`python -m tests.unit.jobs.views.test_views` writes the golden rows of a real capture.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kraft_forensics
from docs_site.views_page import document
from evidence import kinds
from evidence.errors import KraftForensicsError
from evidence.metadata_log.columns import decode_arrow
from evidence.metadata_log.rows import ByteRange, decode_range
from jobs.lake.lake import Lake
from jobs.lake.tables import TABLES
from jobs.views.catalogue import views
from tests.support.golden import cases, write
from tests.support.judged import judged_lake
from tests.support.paths import ORACLE, ROOT
from tests.support.report_rows import evidence_file, lake_of
from tests.support.small_captures import with_rounds

CLUSTER = "c1"
MOST = 15  # golden rows of a view
Row = dict[str, Any]


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    with kraft_forensics.duckdb(lake.root) as connection:
        return connection.sql(query).fetchall()


@pytest.fixture(scope="module")
def names(made: tuple[Path, Path]) -> Iterator[Any]:
    """A connection with the names of the lake of a real capture."""
    with kraft_forensics.duckdb(made[0]) as connection:
        yield connection


def first_rows(names: Any, view: str) -> list[dict[str, Any]]:
    """As JSON has them."""
    found = names.sql(f"select * from {view} as row order by md5(row::text) limit {MOST}")
    text = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    return json.loads(json.dumps([{"view": view, **row} for row in text], default=str))


def test_the_rows_of_a_real_capture_are_the_golden_ones(names: Any) -> None:
    """In docs/cookbook.md they are explained; tests/slow/test_views.py: Spark has the same."""
    golden = cases("views")
    for view in views():
        assert first_rows(names, view) == [row for row in golden if row["view"] == view], view


def test_every_view_has_the_columns_that_it_documents(names: Any) -> None:
    found = {name: names.sql(f"select * from {name}").columns for name in views()}
    comments = names.sql("select view_name, comment from duckdb_views() where not internal").fetchall()
    assert found == {name: list(view.columns) for name, view in views().items()}
    assert dict(comments).items() >= {name: view.comment for name, view in views().items()}.items()
    assert not views().keys() & TABLES.keys()


def test_times_are_timestamps_in_utc_beside_ms(names: Any) -> None:
    (found,) = names.sql("select from_at, from_ms, until_at, until_ms from captured_log").fetchall()
    assert [found[n].timestamp() * 1000 for n in (0, 2)] == [found[1], found[3]]
    for view in views().values():
        found_types = names.sql(f"select * from {view.name}").types
        types = dict(zip(view.columns, map(str, found_types), strict=True))
        times = {name for name, type_ in types.items() if type_ == "TIMESTAMP WITH TIME ZONE"}
        for name in times:
            assert {f"{name}_ms", f"{name.removesuffix('_at')}_ms"} & types.keys(), (view.name, name)
        assert {name for name in types if name.endswith("_at")} <= times
        assert "offset" not in types


def test_a_time_outside_the_calendar_is_null(tmp_path: Path) -> None:
    election = {"topic_id": "t", "partition": 0, "offset": 1, "leader": 1, "timestamp_ms": 2**63 - 1}
    lake = lake_of(tmp_path, CLUSTER, elections=[election])
    assert rows(lake, "select changed_at, changed_ms from leader_changes") == [(None, 2**63 - 1)]


LOG = {"log_batches": [{"base_offset": 0, "max_timestamp_ms": 20_000}]}


def session(offset: int, at_ms: int, process: str | None, fenced: bool | None, end_ms: int | None, **more: Any) -> Row:
    times = {"timestamp_ms": at_ms, "end_offset": None if end_ms is None else offset + 1, "end_timestamp_ms": end_ms}
    of_broker = {"broker_id": 1, "incarnation_id": process, "fenced": fenced, "origin": "log"}
    return {**of_broker, "offset": offset, **times, **more}


def test_a_broker_that_was_fenced_or_unregistered_is_out(tmp_path: Path) -> None:
    """What no broker of the real capture went through."""
    running = {"in_controlled_shutdown": False}
    history = [
        session(6, 7_500, "b", False, 8_000, **running),
        session(7, 8_000, "b", True, 8_600, **running),
        session(8, 8_600, "b", False, 13_000, **running),
        session(9, 13_000, None, None, None),
    ]
    columns = "cause, out_from_ms, out_to_ms, registered_ms, restart_class, out_ms, down_ms, starting_ms, is_out_now"
    lake = lake_of(tmp_path, CLUSTER, broker_history=history, **LOG)
    assert rows(lake, f"select {columns} from broker_downtime order by out_from_ms") == [
        ("fenced", 8_000, 8_600, None, None, 600, 0, 600, False),
        ("unregistered", 13_000, None, None, None, 7_000, 7_000, 0, True),
    ]


def test_the_most_exact_log_end_of_each_time_is_taken(tmp_path: Path) -> None:
    """A metric of 0 says nothing; a copied log counts more than a metric; a file without a time comes last."""
    place = {"broker_id": 1, "topic": "orders", "partition": 0, "position": 0, "uncertainty_ms": 500}
    read = [("jmx_exporter", 4_000, 0), ("jmx_exporter", 6_000, 72), ("replica_segment", 6_000, 71)]
    read += [("jmx_exporter", 8_000, 80), ("replica_segment", None, 90)]
    ends = [
        {**place, "source": source, "path": source, "sha256": source, "captured_at_ms": at_ms, "log_end_offset": end}
        for source, at_ms, end in read
    ]
    named = {"topic_id": "t", "topic": "orders", "partition": 0, "offset": 2, "timestamp_ms": 2_000, "removed": False}
    lake = lake_of(tmp_path, CLUSTER, log_end_offsets=ends, partition_history=[named])
    assert rows(lake, "select read_ms, log_end_offset, source, next_read_ms, topic_id from log_ends order by 2") == [
        (6_000, 71, "replica_segment", 8_000, "t"),
        (8_000, 80, "jmx_exporter", None, "t"),
        (None, 90, "replica_segment", None, "t"),
    ]


def test_a_policy_that_always_waits_differs_in_no_window(tmp_path: Path) -> None:
    waits = [{"finding_id": f"f{n}", "policy": "none", "outcome": "waits"} for n in range(2)]
    lake = lake_of(tmp_path, CLUSTER, counterfactuals=waits)
    names = "policy, windows, elected, waits, differs, loss_min, loss_max"
    assert rows(lake, f"select {names} from loss_by_policy") == [("none", 2, 0, 2, 0, 0, 0)]


def test_names_may_have_the_rows_of_one_cluster_alone(tmp_path: Path) -> None:
    for cluster, lost in (("one", 5), ("two", 70)):
        findings = [{"kind": "hwm_regression", "loss_min": lost}]
        lake = lake_of(tmp_path, cluster, evidence_files=[evidence_file()], findings=findings)
    for cluster, expected in ((None, 75), ("one", 5), ("two", 70)):
        with kraft_forensics.duckdb(lake.root, cluster=cluster) as connection:
            assert connection.sql("select sum(loss_min) from windows").fetchall() == [(expected,)]
    with pytest.raises(KraftForensicsError, match="this lake has one, two"):
        kraft_forensics.duckdb(lake.root, cluster="three")


def test_the_page_of_views_is_up_to_date() -> None:
    assert (ROOT / "docs" / "views.md").read_text(encoding="utf-8") == document()


def test_records_have_the_text_that_the_table_leaves_out(tmp_path: Path) -> None:
    """Every type and version of record; those without text are partition records."""
    path = ORACLE / "every-record.log"
    data = path.read_bytes()
    work = ByteRange(path, path.name, "", kinds.METADATA_SEGMENT, 0, len(data))
    names = [name for name in TABLES["metadata_records"].file_schema.names if name != "commit_state"]
    stored = [row for batch in decode_arrow(data, work, "c") for row in batch.select(names).to_pylist()]
    assert sum(row["payload"] is None for row in stored) == 106
    lake = lake_of(tmp_path, CLUSTER, metadata_records=stored)
    wanted = [(row["offset"], row["payload"]) for row in decode_range(data, work, "c") if isinstance(row, dict)]
    assert rows(lake, "select metadata_offset, payload from records order by 1") == wanted


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        lake = judged_lake(Path(folder) / "lake", with_rounds("unclean", Path(folder), 3))
        with kraft_forensics.duckdb(lake.root) as connection:
            write("views", [row for view in views() for row in first_rows(connection, view)])
