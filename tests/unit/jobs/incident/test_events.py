"""What is loaded for the timeline of an incident, and what the plan of a real drill takes from captured logs."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.incident import events
from jobs.incident.document import load_node_logs
from jobs.incident.events import IncidentEvents, load_events
from jobs.incident.lookup import ALL, KEYS, Focus, ordered
from jobs.incident.plan import load_input, load_plan
from jobs.lake.lake import Lake
from replay.arrow.schemas import BROKER_HISTORY, CONFIG_HISTORY, ELECTIONS, FINDINGS, QUORUM_HISTORY
from replay.findings.kinds import Section
from tests.support.judged import judged_lake
from tests.support.paths import ROOT
from tests.support.report_rows import START_MS, TOPIC_ID, evidence_file, exposure, fault, finding, lake_of, row

Row = dict[str, Any]
CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def loaded(root: Path, findings: list[Row], focus: Focus = ALL, **tables: list[Row]) -> IncidentEvents:
    lake = lake_of(root, CLUSTER, **tables)
    found = pa.Table.from_pylist(findings, schema=FINDINGS).select([*KEYS.names, *events.FINDING])
    return load_events(lake, CLUSTER, ordered(found, *Section), focus, load_node_logs(lake, CLUSTER))


NO_FINDINGS = ordered(FINDINGS.empty_table().select([*KEYS.names, *events.FINDING]), *Section)


def elections(*given: tuple[str, str, int]) -> list[Row]:
    return [
        row(ELECTIONS, topic_id=TOPIC_ID, topic=topic, partition=0, cause=cause, offset=at, timestamp_ms=START_MS + at)
        for topic, cause, at in given
    ]


def quorum(*given: tuple[int | None, int, int, int | None]) -> list[Row]:
    names = ("leader_id", "controller_epoch", "timestamp_ms", "end_timestamp_ms")
    return [row(QUORUM_HISTORY, offset=n, **dict(zip(names, each, strict=True))) for n, each in enumerate(given)]


def brokers(*given: tuple[int, int]) -> list[Row]:
    return [row(BROKER_HISTORY, broker_id=broker, offset=at, timestamp_ms=START_MS + at) for broker, at in given]


def test_the_incident_is_where_the_undecided_and_proven_windows_are(tmp_path: Path) -> None:
    early = finding("x", verdict="excluded", start_timestamp_ms=START_MS, end_timestamp_ms=START_MS + 1000)
    found = loaded(tmp_path, [early, finding(), exposure("e"), fault("f", start_timestamp_ms=None)])
    assert found.log == (START_MS, START_MS + 30_000)
    assert found.shown == (START_MS + 7000, START_MS + 30_000)  # 15 % more on each side, but not beyond the log
    assert [each["finding_id"] for each in found.windows] == ["x", "hwm-1"]
    assert [each["finding_id"] for each in found.exposures] == ["e"]
    assert found.no_time == 1


@pytest.mark.parametrize(
    ("focus", "shown"),
    [
        (Focus(START_MS + 12_000, START_MS + 90_000), (12_000, 30_000)),
        (Focus(None, START_MS + 15_000), (10_000, 15_000)),
        (Focus(START_MS + 40_000, None), (10_000, 30_000)),  # after the log: what is there
    ],
)
def test_a_narrowed_timeline_shows_its_span(tmp_path: Path, focus: Focus, shown: tuple[int, int]) -> None:
    assert loaded(tmp_path, [finding()], focus).shown == tuple(START_MS + time for time in shown)


def test_records_of_one_term_are_one_row(tmp_path: Path) -> None:
    found = loaded(
        tmp_path, [], quorum_history=quorum((None, 0, 1, 2), (3000, 1, 2, 3), (3000, 1, 3, 9), (3001, 2, 9, None))
    )
    terms = [(term["leader_id"], term["timestamp_ms"], term["end_timestamp_ms"]) for term in found.controllers]
    assert terms == [(3000, 2, 9), (3001, 9, None)]


def test_the_gravest_elections_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_ELECTIONS", 2)
    some = elections(("ledger", "isr", 1), ("ledger", "unclean", 4), ("ledger", "elr", 2), ("audit", "isr", 3))
    found = loaded(tmp_path, [], elections=some)
    assert [each["cause"] for each in found.elections] == ["elr", "unclean"]  # in the order of time
    assert found.left_out == {"elections": 2}
    assert [e["offset"] for e in loaded(tmp_path, [], Focus(topic="audit"), elections=some).elections] == [3]


def test_brokers_that_windows_are_about_come_before_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_BROKERS", 2)
    rows = brokers((1, 0), (2, 0), (5, 0), (7, 0), (7, 15_000))
    found = loaded(tmp_path, [finding(recorded_leader=5)], broker_history=rows)
    assert {broker: len(each) for broker, each in found.brokers.items()} == {5: 1, 7: 2}
    assert found.left_out == {"brokers": 2}


def test_times_that_no_clock_shows_do_not_stretch_the_timeline(tmp_path: Path) -> None:
    damaged = [finding("a", start_timestamp_ms=2**62), finding("b", start_timestamp_ms=-1)]
    files = [evidence_file(last_timestamp_ms=2**60, captured_at_ms=-9)]
    found = loaded(tmp_path, [finding(), *damaged], evidence_files=files)
    assert found.log == (START_MS + 10_000, START_MS + 30_000)
    assert found.captured == []
    assert found.no_time == 2


def test_records_of_one_time_have_a_span(tmp_path: Path) -> None:
    """The report divides by the span's length."""
    moment = fault("f", start_timestamp_ms=None)
    found = loaded(tmp_path, [moment], quorum_history=quorum((1, 1, START_MS, None)))
    assert found.log == (START_MS, START_MS)
    assert found.shown == (START_MS, START_MS + 1)


def test_settings_that_a_topic_was_created_with_are_no_change(tmp_path: Path) -> None:
    given = [
        ("topic", "ledger", "min.insync.replicas", None, 0),
        ("topic", "ledger", "min.insync.replicas", "2", 1),
        ("topic", "ledger", "min.insync.replicas", "2", 2),  # the broker's default changed: what is set stays
        ("topic", "ledger", "min.insync.replicas", "1", 3),
        ("topic", "ledger", "min.insync.replicas", None, 4),
        ("topic", "audit", "min.insync.replicas", None, 5),
        ("topic", "audit", "min.insync.replicas", "3", 6),
        ("broker", "", "unclean.leader.election.enable", "true", 7),
        ("topic", "ledger", "retention.ms", "1000", 8),
    ]
    names = ("resource_type", "resource_name", "name", "value", "offset")
    rows = [row(CONFIG_HISTORY, **dict(zip(names, each, strict=True))) for each in given]
    for each in rows:  # a topic and its configs are created in one batch
        each["timestamp_ms"] = START_MS + max(each["offset"], 1)
    found = loaded(tmp_path, [], config_history=rows)
    changed = [(each["offset"], each["before"], each["value"]) for each in found.configs]
    assert changed == [(3, "2", "1"), (4, "1", None), (6, None, "3"), (7, None, "true")]
    of_audit = load_events(Lake(tmp_path), CLUSTER, NO_FINDINGS, Focus(topic="audit")).configs
    assert [each["offset"] for each in of_audit] == [6, 7]


def test_departures_are_judged_with_the_boot_ids_of_the_machines(tmp_path: Path) -> None:
    up = {"broker_id": 3, "incarnation_id": "a", "broker_epoch": 1, "fenced": False, "in_controlled_shutdown": False}
    rows = [
        row(BROKER_HISTORY, **up | {"offset": at, "timestamp_ms": START_MS + at * 1000} | change)
        for at, change in (
            (10, {}),
            (20, {"fenced": True}),
            (30, {"incarnation_id": "b", "broker_epoch": 30, "fenced": True, "restart_class": "unclean"}),
        )
    ]
    boots = [{"node_id": 3, "boot_id": boot, "captured_at_ms": START_MS + at} for boot, at in (("x", 0), ("y", 60_000))]
    for name, given, way in (("without", {}, "killed"), ("with", {"boot_ids": boots}, "rebooted")):
        (gone,) = loaded(tmp_path / name, [finding()], broker_history=rows, **given).departures
        assert (gone.broker_id, gone.offset, gone.way, gone.deduced) == (3, 20, way, True)


CASE = ROOT / "tests" / "cases" / "drill_plan_random_4.3.1_2"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return judged_lake(tmp_path_factory.mktemp("plan") / "lake", CASE / "capture-1.tar.xz")


def steps_of(lake: Lake) -> dict[str, Any]:
    (cluster,) = lake.clusters()
    return {step["code"]: step for step in load_plan(lake, cluster)["steps"]}


def test_the_last_known_leader_whose_log_was_cut_does_not_lead(lake: Lake) -> None:
    """Brokers 2 and 3 are in the ELR, and 3 led last. Its machine lost power: its log ends at 38, that of 2 at 50. All
    were killed, so that Kafka elects 3 in the end; the plan of an earlier release lost six records by it."""
    steps = steps_of(lake)
    start = steps["start"]
    order = start["brokers"]
    assert order.index(2) < order.index(3)
    (command,) = [text for text in start["commands"] if "--topic safe --partition 0 " in text]
    assert "# once broker 2 has started, " in command
    (fact,) = [text for text in start["facts"] if text.startswith("safe-0: without a leader, ")]
    ends = "the log of broker 1 ended at 50, the log of broker 2 ended at 50, the log of broker 3 ended at 38."
    assert fact.endswith(ends)
    assert "safe-0" in steps["copy"]["places"]


def test_the_plan_says_how_much_space_a_copy_takes(tmp_path: Path) -> None:
    shutil.unpack_archive(CASE / "capture-1.tar.xz", tmp_path)
    for broker, size in ((1, 3 << 20), (2, 900)):
        entry = f"-rw-r--r-- 1 0 0 {size} Nov 26 22:21 {0:020d}.log"
        (tmp_path / f"capture-1/node-{broker}/listing-logdir0.txt").write_text(f"/d:\n/d/safe-0:\ntotal 4\n{entry}\n")
    (tmp_path / "capture-1/node-3/listing-logdir0.txt").write_text("/data/safe-0:\ntotal 4\n-rw-r--r-- 1 0\n")
    lake = judged_lake(tmp_path / "lake", tmp_path / "capture-1")
    facts = [fact.split(" (listing of 20")[0] for fact in steps_of(lake)["copy"]["facts"] if "A copy takes" in fact]
    assert [fact.partition(" for ")[0] for fact in facts] == [
        "A copy takes about 3.0 MiB on node 1",
        "A copy takes about 900 B on node 2",
    ]
    (bad,) = lake.rows("quarantine", None, ("path", "reason"))
    assert bad == {"path": "node-3/listing-logdir0.txt", "reason": "bad_listing"}


def test_logs_that_were_read_before_there_was_no_leader_say_nothing(lake: Lake, tmp_path: Path) -> None:
    """They may have grown since, or be of an earlier topic of that name, so the lists in the metadata decide."""
    (cluster,) = lake.clusters()
    rows = lake.read("partition_history", cluster)
    at = rows.schema.get_field_index("timestamp_ms")
    read_ms = pc.max(lake.read("log_end_offsets", cluster, ("captured_at_ms",))["captured_at_ms"]).as_py()
    later = rows.set_column(at, rows.schema.field(at), pa.array([read_ms + 1] * len(rows), pa.int64()))
    made = Lake(shutil.copytree(Path(str(lake.root)), tmp_path / "lake"))
    made.put("partition_history", cluster, later)
    steps = steps_of(made)
    assert [text for text in steps["start"]["commands"] if "--topic safe " in text] == []
    assert "safe-0" in steps["no_unclean_election"]["places"]
    assert (load_input(lake, cluster).last_seen == {}, load_input(made, cluster).last_seen) == (False, {})
