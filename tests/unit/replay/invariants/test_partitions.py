"""Invariants of partitions: what breaks each, what does not, and that real logs break none; and the catalogue."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.arrow.schemas import sorted_history
from replay.cluster.broker_events import SplitEvents, split_events
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.configs import MIN_ISR, UNCLEAN_LEADER_ELECTION, ConfigChange, ElectionConfigs, config_timeline
from replay.cluster.facts import CLUSTER_RECORDS, Clock, ClusterFacts, cluster_facts
from replay.cluster.features import ELR_VERSION, METADATA_VERSION, feature_levels
from replay.cluster.state import ClusterState
from replay.controller.transitions import Bucket
from replay.invariants.catalogue import INVARIANT_VIOLATIONS, INVARIANTS
from replay.invariants.partitions import partition_violations
from replay.invariants.quorum import quorum_violations
from replay.partitions.elections import build_elections, states_of
from tests.support.paths import ROOT, capture
from tests.support.pure import decode, replayed
from tests.support.scenario import SESSION, TOPIC_ID, facts_with, ms, running, sessions, states, together, up
from tests.support.window_table import Entry, beside, entries

Row = dict[str, Any]
CAPTURES = ["unclean", "elr", "churn", "diverge"]
FEATURES = {"version": METADATA_VERSION, "elr": ELR_VERSION}
LEVELS = ((0, METADATA_VERSION, 25), (0, ELR_VERSION, 1))
OF_QUORUM = {
    *("log_epochs_never_decrease", "epoch_begins_with_leader_change", "one_leader_per_epoch", "leader_is_voter"),
    "committed_entries_survive",
}


def facts(*known: str, brokers: BrokerTimeline | None = None) -> ClusterFacts:
    """As `cluster_facts` makes them of a whole log; every topic is called t. known: `cleared 5`, a ClearElrRecord;
    `set 5 1=2`, min.insync.replicas of a resource (`cluster`, `t`, or a node; `-`: deleted); `file 1 2`, the same in a
    node's file (`-`: the file does not name it); `split 7/5`, a batch that goes on with the event of another; `levels`:
    all that are known (else LEVELS)."""
    brokers, static, split = brokers or running(1, 2, 3), {}, SplitEvents()
    configs: list[ConfigChange] = []
    cleared, levels = [], list(LEVELS)
    for what, *words in (item.split() for item in known):
        if what == "cleared":
            cleared = [int(words[0])]
        elif what == "set":
            resource, value = words[1].split("=")
            kind, name = (2, "t") if resource == "t" else (4, "" if resource == "cluster" else resource)
            configs.append(ConfigChange(int(words[0]), kind, name, MIN_ISR, None if value == "-" else value))
        elif what == "split":
            split = SplitEvents(*np.array([word.split("/") for word in words], dtype=np.int64).T)
        elif what == "file":
            static[int(words[0])] = {"process.roles": "broker"} if words[1] == "-" else {MIN_ISR: words[1]}
        else:
            levels = [(int(at), FEATURES[name], int(level)) for name, at, level in (w.split("/") for w in words)]

    def timeline(key: str, nodes: Sequence[tuple[int, int | None]]) -> Any:
        return config_timeline(key, configs, nodes, static)

    records = [
        {"offset": o, "timestamp_ms": ms(o), "capture": "c", "path": "beside", "sha256": "11", "position": o}
        for o in sorted({c.offset for c in configs} | {s.offset for b in brokers.states.values() for s in b})
    ]
    keys = (timeline(key, ((0, 3000),)) for key in (MIN_ISR, UNCLEAN_LEADER_ELECTION))
    return ClusterFacts(
        "c",
        configs=ElectionConfigs({TOPIC_ID: "t"}, *keys),
        brokers=brokers,
        features=feature_levels(levels),
        cleared=np.array(cleared, dtype=np.int64),
        broker_min_isr={b: timeline(MIN_ISR, [(-1, b)]) for b in {*brokers.states, *static}},
        records=pa.Table.from_pylist(records, schema=CLUSTER_RECORDS),
        split=split,
    )


def test_an_event_of_more_records_than_a_batch_takes_is_split() -> None:
    base = np.array([0, 5, 10_005, 20_005, 30_000, 40_000, 50_001])
    last = np.array([4, 10_004, 20_004, 29_999, 39_999, 49_999, 60_000])
    found = split_events(base, last, np.array([1, 1, 1, 1, 2, 3, 3]))
    assert (found.batch.tolist(), found.begin.tolist()) == ([10_005, 20_005], [5, 5])
    assert found.begin_of(base).tolist() == [0, 5, 5, 5, *base[4:]]
    assert split_events(base[:0], last[:0], last[:0]).begin_of(base).tolist() == base.tolist()


def violations(history: pa.Table, known: ClusterFacts | None = None) -> list[Row]:
    known = known or facts()
    elections = build_elections(history, states_of(history), known)
    table = partition_violations(Bucket(history, known), elections)
    assert table.schema.equals(INVARIANT_VIOLATIONS)
    return table.to_pylist()


# What happens: states, what brokers do beside START, and `facts`. What is broken: the invariant, start-end and @brokers
# of its only stretch (`alone`: nothing else is), or `no` with its name, or `nothing`.
START = up(1, 2, 3, at=0)


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_what_is_broken(entry: Entry) -> None:
    for story, answer in entry.cases:
        items = story.split("; ")
        events = [item for item in items if SESSION.match(item)]
        lines = [item for item in items if item[0].isdigit() and item not in events]
        known = facts(*(i for i in items if not i[0].isdigit()), brokers=sessions(*START, *events))
        rows = violations(states(*lines), known)
        stretches = {r["invariant"]: f"{r['start_offset']}-{r['end_offset'] or ''}@" for r in rows}
        assert len(stretches) == len(rows), story
        shown = [f"{n} {stretches[n]}{','.join(map(str, r['brokers']))}" for n, r in zip(stretches, rows, strict=True)]
        word, _, rest = answer.partition(" ")
        if word in ("nothing", "alone"):
            assert shown == [rest] * (word == "alone"), story
        else:
            assert rest not in stretches if word == "no" else answer in shown, (story, shown)


def with_column(history: pa.Table, name: str, values: list[Any]) -> pa.Table:
    index = history.schema.get_field_index(name)
    return history.set_column(index, history.schema.field(name), pa.array(values, type=history.schema.field(name).type))


@pytest.mark.parametrize(
    ("lines", "epochs", "expected"),
    [
        (["1", "5", "9", "11"], [3, 4, 5, 6], []),
        (["1", "5", "9", "11"], [3, 4, 6, 7], [(9, 11, [5, 9])]),
        (["1", "5", "9", "11"], [3, 3, 4, 5], [(5, 9, [1, 5])]),
        (["1", "5", "9 checkpoint", "11"], [3, 4, 8, 9], []),
        (["1", "5", "9 checkpoint", "11"], [3, 4, 4, 5], []),
        (["1", "5", "9 checkpoint", "11"], [3, 4, 2, 3], [(9, 11, [5, 9])]),
        (["1", "5", "9 removed"], [3, 4, None], []),
    ],
)
def test_partition_epoch(lines: list[str], epochs: list[int | None], expected: list[Any]) -> None:
    rows = violations(with_column(states(*lines), "partition_epoch", epochs))
    assert {r["invariant"] for r in rows} <= {"partition_epoch_by_one"}
    assert [(r["start_offset"], r["end_offset"], r["evidence_offsets"]) for r in rows] == expected


def test_a_stretch_that_begins_between_records_points_at_the_record_there() -> None:
    history = states("1", "5 isr=1 elr=2,3", "9 elr=3")
    (row,) = violations(history, facts(brokers=sessions(*START, "7 unregister 2")))
    assert row["evidence_offsets"] == [5, 7]
    assert (row["start_timestamp_ms"], row["end_timestamp_ms"]) == (ms(7), ms(9))
    assert (row["path"], row["position"], row["rows"]) == ("beside", 7, 1)
    assert row["detail"] == "elr=[2,3]"


def test_a_new_leader_brings_its_own_min_isr() -> None:
    known = facts("set 0 cluster=2", "set 3 2=1")
    history = states("1", "5 leader=2", "9 leader=3", "11 isr= elr=1,2,3 leader=-1")
    (row,) = violations(history, known)
    assert (row["start_offset"], row["end_offset"], row["brokers"]) == (5, 9, [2])
    shown = "controller_min_isr=2 controller_layer=cluster leader=2 leader_min_isr=1 leader_layer=broker"
    assert row["detail"] == shown


def test_partition_0_with_other_replicas_moves_the_controllers_line() -> None:
    zero = states("1 replicas=1,2,3", "9 replicas=1,2 isr=1,2", partition=0)
    one = states("1 replicas=1,2 isr=1,2", partition=1)
    (row,) = violations(together(zero, one), facts("set 0 cluster=3"))
    assert (row["invariant"], row["partition"]) == ("min_isr_layers_disagree", 1)
    assert (row["start_offset"], row["end_offset"], row["end_timestamp_ms"]) == (1, 9, ms(9))


def test_a_stretch_is_one_row_with_the_first_records_place() -> None:
    lines = ["1", *(f"{o} isr=1,2 elr={1 + o % 2}" for o in range(10, 22)), "30 isr=1,2 elr="]
    rows = [r for r in violations(states(*lines)) if r["invariant"] == "isr_and_elr_disjoint"]
    expected = {"topic_id": TOPIC_ID, "topic": "t", "partition": 0, "rows": 12, "brokers": [1, 2], "severity": "high"}
    expected |= {"start_timestamp_ms": ms(10), "end_timestamp_ms": ms(30)}
    expected |= {"path": "log", "sha256": "00", "position": 10}
    assert [{name: row[name] for name in expected} for row in rows] == [expected]
    assert rows[0]["evidence_offsets"] == list(range(10, 18))
    assert rows[0]["detail"] == "isr=[1,2] elr=[1]"


def test_evidence_is_the_first_records_that_show_it() -> None:
    lines = ["1 epoch=4", *(f"{o} epoch=3" for o in range(10, 22))]
    (row,) = violations(states(*lines))
    assert (row["rows"], row["evidence_offsets"]) == (12, [1, *range(10, 17)])


def test_the_text_of_a_change_has_both_states() -> None:
    (row,) = violations(states("1 isr=1,2", "5 isr=1"))
    assert row["detail"] == "isr=[1,2]->[1] elr=[]->[] min_isr=2->2"
    assert row["evidence_offsets"] == [1, 5]


def test_stretches_end_with_the_partition_and_at_a_snapshot() -> None:
    one = states("1 isr=1,2,4", "5", "9 checkpoint", "11 removed", partition=0)
    two = states("1 isr=1,2,5", partition=1)
    rows = [r for r in violations(together(one, two)) if r["invariant"] == "isr_within_replicas"]
    found = [(r["partition"], r["start_offset"], r["end_offset"], r["rows"], r["brokers"]) for r in rows]
    assert found == [(0, 1, 9, 2, [4]), (0, 9, 11, 1, [4]), (1, 1, None, 1, [5])]


def test_no_history_no_violations() -> None:
    assert violations(states()) == []


# --- real logs --------------------------------------------------------------------------------------------------------


@cache
def captured(name: str) -> tuple[pa.Table, pa.Table, ClusterState, ClusterFacts, list[Row]]:
    """History, elections, resolved cluster, facts and control records of a real capture."""
    decoded = decode(capture(name))
    history, state = replayed(name)
    table = sorted_history(history.table)
    elections = build_elections(table, states_of(table), facts_with(state.brokers))
    control = [r for r in decoded.records if r["is_control"]]
    return table, elections, state, cluster_facts("c", state, Clock(), None), control


@pytest.mark.parametrize("name", CAPTURES)
def test_real_logs_break_nothing(name: str) -> None:
    table, elections, state, known, control = captured(name)
    assert partition_violations(Bucket(table, known), elections).to_pylist() == []
    assert quorum_violations(state.shape, control).to_pylist() == []
    # What the checks need is known here, for every state and broker.
    assert "assumed_default" not in table["min_isr_source"].to_pylist()
    assert {t.cluster.values[-1][1] for t in known.broker_min_isr.values()} == {"cluster"}
    assert sum(r["type"] == "LEADER_CHANGE" for r in control) >= 1


def test_what_real_logs_did_has_the_reasons_that_excuse_it() -> None:
    """Without the brokers' registrations and the ClearElrRecords the same logs would break promises."""
    found = []
    for name in CAPTURES:
        table, elections, _, known, _ = captured(name)
        blind = replace(known, brokers=BrokerTimeline(), cleared=np.empty(0, dtype=np.int64))
        found += [(name, r["invariant"]) for r in partition_violations(Bucket(table, blind), elections).to_pylist()]
    assert set(found) == {(name, "isr_plus_elr_not_below_min_isr") for name in ("unclean", "churn")}


@pytest.mark.parametrize("name", ["jbod-4.0.2", "jbod-4.1.1"])
def test_real_logs_break_what_a_shorter_replica_list_breaks(name: str) -> None:
    """d-0 was reassigned from three replicas to two while below min ISR: who left the replicas stayed in the ELR, and
    the other partitions' leaders, with three replicas, go by another min ISR than partition 0."""
    table, elections, _, known, _ = captured(name)
    found = partition_violations(Bucket(table, known), elections).to_pylist()
    told = sorted((r["invariant"], r["topic"], r["partition"], r["end_offset"] is not None) for r in found)
    assert told == [
        ("elr_empty_at_min_isr", "d", 0, True),
        ("elr_within_replicas", "d", 0, True),
        ("min_isr_layers_disagree", "d", 1, True),
        ("min_isr_layers_disagree", "d", 1, True),
        ("min_isr_layers_disagree", "d", 2, True),
        ("min_isr_layers_disagree", "d", 2, True),
    ]
    assert {r["brokers"][0] for r in found if r["invariant"] == "elr_within_replicas"} == {4}


# --- the catalogue ----------------------------------------------------------------------------------------------------


# A line of docs/invariants.md: `name` (severity): definition *source* what to do.
_LISTED = re.compile(r"^- `(\w+)` \((\w+)\): (.+?) \*(.+?)\* (.+)$", re.MULTILINE)


def listed_invariants(page: Path) -> dict[str, list[str]]:
    """Name -> severity, definition, source and action, of the page's lists (no invariant may be listed twice)."""
    listed = _LISTED.findall(page.read_text(encoding="utf-8"))
    found = {name: list(about) for name, *about in listed}
    assert len(found) == len(listed)
    return found


def test_the_page_says_what_the_catalogue_says() -> None:
    page = listed_invariants(ROOT / "docs" / "invariants.md")
    assert list(page) == list(INVARIANTS)
    for name, (severity, definition, source, action) in page.items():
        entry = INVARIANTS[name]
        assert (severity, definition, re.sub("`", "", source)) == (entry.severity, entry.definition, entry.source)
        assert action.startswith(entry.meaning)
        assert len(action) > len(entry.meaning)


def test_every_name_is_checked_and_shown() -> None:
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) and name == i.name for name, i in INVARIANTS.items())
    assert {i.severity for i in INVARIANTS.values()} <= {"critical", "high", "medium", "low"}
    assert set(INVARIANTS) >= OF_QUORUM
    for name, entry in INVARIANTS.items():
        assert (name in OF_QUORUM or name == "min_isr_layers_disagree") == (not entry.shows)


def test_expectations_have_the_catalogues_names() -> None:
    files = (ROOT / "quality" / "checks" / "partition_history").glob("*.sql")
    names = [file.stem for file in files if "-- meaning: The invariant " in file.read_text(encoding="utf-8")]
    assert len(names) == 9
    assert set(names) <= set(INVARIANTS)
