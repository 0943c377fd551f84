"""The views in DuckDB: they have the columns that they document, and give what their comments say."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
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
from tests.support.paths import ORACLE, ROOT
from tests.support.report_rows import evidence_file, lake_of

CLUSTER = "c1"
Row = dict[str, Any]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_of(
        tmp_path_factory.mktemp("views"),
        CLUSTER,
        log_batches=[batch(0, 9, 1, 1_000, 9_500), batch(10, 20, 3, 12_000, 20_000)],
        partition_history=STATES,
        broker_history=BROKERS,
        log_end_offsets=LOG_ENDS,
    )


def batch(base: int, last: int, epoch: int, from_ms: int, until_ms: int) -> Row:
    times = {"base_timestamp_ms": from_ms, "max_timestamp_ms": until_ms}
    return {"base_offset": base, "last_offset": last, "epoch": epoch, "crc": base, "commit_state": "committed", **times}


def state(offset: int, at_ms: int, isr: list[int], leader: int, end: tuple[int, int] | None, epoch: int = 0) -> Row:
    end_offset, end_ms = end or (None, None)
    place = {"topic_id": "t", "topic": "orders", "partition": 0, "replicas": [1, 2, 3], "min_isr": 2}
    moment = {"offset": offset, "timestamp_ms": at_ms, "end_offset": end_offset, "end_timestamp_ms": end_ms}
    return {**place, **moment, "isr": isr, "leader": leader, "leader_epoch": epoch, "removed": False}


STATES = [
    state(2, 2_000, [1, 2, 3], 1, (4, 5_000)),
    state(4, 5_000, [1], 1, (6, 9_000)),
    state(6, 9_000, [], -1, (11, 12_500), epoch=1),
    state(11, 12_500, [2, 3], 2, None, epoch=2),
    {**state(3, 3_000, [1], 1, (5, 6_000)), "topic_id": "gone", "topic": "old"},
    {**state(5, 6_000, [], -1, None), "topic_id": "gone", "topic": "old", "removed": True},
]


def session(offset: int, at_ms: int, process: str | None, fenced: bool | None, end_ms: int | None, **more: Any) -> Row:
    ends = {"end_offset": None if end_ms is None else offset + 1, "end_timestamp_ms": end_ms, "origin": "log"}
    of_broker = {"broker_id": 1, "incarnation_id": process, "fenced": fenced}
    return {**of_broker, "offset": offset, "timestamp_ms": at_ms, **ends, **more}


BROKERS = [
    session(1, 1_000, "a", True, 1_200, restart_class="first"),
    session(2, 1_200, "a", False, 4_000, in_controlled_shutdown=False),
    session(3, 4_000, "a", False, 4_500, in_controlled_shutdown=True),
    session(4, 4_500, "a", True, 7_000, in_controlled_shutdown=True),
    session(5, 7_000, "b", True, 7_500, restart_class="clean"),
    session(6, 7_500, "b", False, 8_000, in_controlled_shutdown=False),
    session(7, 8_000, "b", True, 8_600, in_controlled_shutdown=False),
    session(8, 8_600, "b", False, 13_000, in_controlled_shutdown=False),
    session(9, 13_000, None, None, None),
]


def log_end(source: str, read_ms: int | None, value: int, **more: Any) -> Row:
    place = {"broker_id": 1, "topic": "orders", "partition": 0, "sha256": source, "path": source, "position": 0}
    return {**place, "source": source, "captured_at_ms": read_ms, "log_end_offset": value, **more}


LOG_ENDS = [
    log_end("jmx_exporter", 4_000, 0, uncertainty_ms=500),
    log_end("jmx_exporter", 6_000, 70, uncertainty_ms=500),
    log_end("replica_segment", 6_000, 71, last_written_leader_epoch=3),
    log_end("jmx_exporter", 8_000, 80, uncertainty_ms=500),
    log_end("replica_segment", None, 90, topic=None, topic_id="t"),
]


def rows(lake: Lake, query: str) -> list[tuple[Any, ...]]:
    with kraft_forensics.duckdb(lake.root) as connection:
        return connection.sql(query).fetchall()


@pytest.fixture(scope="module")
def names(lake: Lake) -> Iterator[Any]:
    """A connection with the names of the lake."""
    with kraft_forensics.duckdb(lake.root) as connection:
        yield connection


def test_every_view_has_the_columns_that_it_documents(names: Any) -> None:
    found = {name: names.sql(f"select * from {name}").columns for name in views()}
    comments = names.sql("select view_name, comment from duckdb_views() where not internal").fetchall()
    assert found == {name: list(view.columns) for name, view in views().items()}
    assert dict(comments).items() >= {name: view.comment for name, view in views().items()}.items()
    assert not views().keys() & TABLES.keys()


def test_times_are_timestamps_in_utc_beside_ms(names: Any) -> None:
    (found,) = names.sql("select from_at, from_ms, until_at, until_ms from captured_log").fetchall()
    first, last = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 20, tzinfo=UTC)
    assert found == (first, 1_000, last, 20_000)
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


def test_states_say_how_exposed_a_partition_is(names: Any) -> None:
    query = "select {} from partition_states where topic_id = 't' order by metadata_offset"
    columns = "metadata_offset, leader, is_leaderless, is_under_min_isr, has_one_replica"
    assert names.sql(query.format(columns)).fetchall() == [
        (2, 1, False, False, False),
        (4, 1, False, True, True),
        (6, None, True, True, False),
        (11, 2, False, False, False),
    ]
    assert names.sql(query.format("is_current, valid_to_ms, lasted_ms")).fetchall() == [
        (False, 5_000, 3_000),
        (False, 9_000, 4_000),
        (False, 12_500, 3_500),
        (True, None, 7_500),
    ]
    assert names.sql("select topic, partition, leader, isr, since_ms from current_state").fetchall() == [
        ("orders", 0, 2, [2, 3], 12_500)
    ]


def test_exposure_adds_up_the_states(names: Any) -> None:
    columns = "topic, observed_ms, under_min_isr_ms, one_replica_ms, leaderless_ms, longest_under_min_isr_ms"
    counts = "under_min_isr_stretches, leader_epochs, is_under_min_isr_now"
    assert names.sql(f"select {columns}, {counts} from partition_exposure order by topic").fetchall() == [
        ("old", 3_000, 3_000, 3_000, 0, 3_000, 1, 1, False),
        ("orders", 18_000, 7_500, 4_000, 3_500, 7_500, 1, 3, False),
    ]


def test_downtime_has_a_cause_and_two_parts(names: Any) -> None:
    columns = "cause, out_from_ms, out_to_ms, registered_ms, restart_class, out_ms, down_ms, starting_ms, is_out_now"
    assert names.sql(f"select {columns} from broker_downtime order by out_from_ms").fetchall() == [
        ("first_start", 1_000, 1_200, 1_000, "first", 200, 0, 200, False),
        ("controlled_shutdown", 4_500, 7_500, 7_000, "clean", 3_000, 2_500, 500, False),
        ("fenced", 8_000, 8_600, None, None, 600, 0, 600, False),
        ("unregistered", 13_000, None, None, None, 7_000, 7_000, 0, True),
    ]


def test_the_most_exact_log_end_of_each_time_is_taken(names: Any) -> None:
    """A metric of 0 says nothing; a copied log counts more than a metric; a file without a time comes last."""
    columns = "read_ms, log_end_offset, source, next_read_ms, topic, topic_id"
    assert names.sql(f"select {columns} from log_ends order by log_end_offset").fetchall() == [
        (6_000, 71, "replica_segment", 8_000, "orders", "t"),
        (8_000, 80, "jmx_exporter", None, "orders", "t"),
        (None, 90, "replica_segment", None, "orders", "t"),
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
