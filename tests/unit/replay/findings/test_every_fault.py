"""A real metadata log with each fault that a log's continuity, snapshots and history can have, and what comes of it.

The log is the bundled capture's (three controllers, snapshots at 80, 162 and 248). Faults are put into what was decoded
from it, so that everything else is as Kafka wrote it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from replay.cluster.branches import Holders, commit_states
from replay.cluster.features import ELR_VERSION
from replay.cluster.log import Hole, clip_validity
from replay.cluster.state import ConflictError, log_shape
from replay.findings.faults import rival_snapshots
from tests.support.paths import capture
from tests.support.pure import Decoded, cluster_state, decode, history_of

Row = dict[str, Any]
LOG_END = 322
LAST_SNAPSHOT = 248


@pytest.fixture(scope="module")
def whole() -> Decoded:
    return decode(capture("unclean"))


def without(decoded: Decoded, gone: Callable[[int], bool], **changed: Any) -> Decoded:
    """The log without the batches whose base offset is `gone`."""
    return replace(
        decoded,
        batches=[b for b in decoded.batches if not gone(b["base_offset"])],
        records=[r for r in decoded.records if not gone(r["batch_base_offset"])],
        **changed,
    )


def states(decoded: Decoded) -> list[Row]:
    history, state = history_of(decoded)
    return clip_validity(history.table, state.shape.runs, state.shape.log_end).to_pylist()


def problems(decoded: Decoded) -> list[tuple[str, int]]:
    return [(p.kind, p.offset) for p in cluster_state(decoded).problems]


def without_origin(rows: list[Row]) -> list[Row]:
    dropped = ("capture", "path", "sha256", "position", "batch_base_offset", "origin")
    return [{k: v for k, v in row.items() if k not in dropped} for row in rows]


def changed(decoded: Decoded, kind: str, **fields: Any) -> Decoded:
    """The last record of a kind with other data."""
    index = max(i for i, r in enumerate(decoded.records) if r["type"] == kind)
    record = decoded.records[index]
    other = {**record, "data": {**record["data"], **fields}}
    return replace(decoded, records=[*decoded.records[:index], other, *decoded.records[index + 1 :]])


def added(decoded: Decoded, *records: tuple[str, Row]) -> Decoded:
    """The log with further records behind its end."""
    last, offset = decoded.records[-1], LOG_END
    more = [
        {
            **last,
            "offset": offset + i,
            "batch_base_offset": offset,
            "type": kind,
            "data": data,
            "partition_change": None,
        }
        for i, (kind, data) in enumerate(records)
    ]
    batch = {**decoded.batches[-1], "base_offset": offset, "last_offset": offset + len(more) - 1, "crc": 1}
    return replace(decoded, batches=[*decoded.batches, batch], records=[*decoded.records, *more])


def test_22_state_is_unknown_from_a_gap_up_to_the_next_snapshot(whole: Decoded) -> None:
    holed = without(whole, lambda base: 100 <= base < 110)
    found = problems(holed)
    gap = next(offset for kind, offset in found if kind == "offset_gap")
    assert 100 <= gap < 110
    rows = states(holed)
    assert not [r for r in rows if gap <= r["offset"] < 161]
    assert all(r["end_offset"] <= gap for r in rows if r["offset"] < gap)
    behind = [r for r in states(whole) if r["offset"] >= 162]
    assert without_origin([r for r in rows if r["offset"] >= 162]) == without_origin(behind)


def test_23_the_same_bytes_twice_are_one_history(whole: Decoded) -> None:
    assert len({(b["epoch"], b["base_offset"], b["crc"]) for b in whole.batches}) == len(whole.batches)
    assert {tuple(b["nodes"]) for b in whole.batches} >= {(3000, 3001, 3002)}


def test_24_of_diverging_logs_the_later_epoch_counts_and_the_other_is_kept() -> None:
    decoded = decode(capture("diverge"))
    shape = cluster_state(decoded).shape
    (branch,) = shape.branches
    assert (branch.epoch, branch.offset, branch.nodes) == (1, 46, (3001,))
    assert not [r for r in states(decoded) if r["controller_epoch"] == 1 and r["offset"] >= 46]
    assert [r["offset"] for r in decoded.records if (r["epoch"], r["offset"] >= 46) == (1, True)] == list(range(46, 52))


def test_25_one_epoch_and_offset_with_two_contents_is_refused(whole: Decoded) -> None:
    tampered = {**whole.batches[10], "crc": 12345, "path": "other.log"}
    with pytest.raises(ConflictError, match=r"different bytes in .* and other\.log"):
        cluster_state(replace(whole, batches=[*whole.batches, tampered]))


def test_30_a_log_that_begins_later_without_a_snapshot_has_no_states(whole: Decoded) -> None:
    tail = without(whole, lambda base: base < 260, snapshots=[])
    assert problems(tail)[0][0] == "no_snapshot"
    assert states(tail) == []


def test_30_a_log_that_begins_behind_a_snapshot_begins_with_it(whole: Decoded) -> None:
    tail = without(whole, lambda base: base < LAST_SNAPSHOT)
    assert "no_snapshot" not in [kind for kind, _ in problems(tail)]
    # Which controller is active, and so whose static file counts, is not in a snapshot.
    source = "unclean_leader_election_enable_source"
    behind = [[r for r in states(log) if r["offset"] >= LAST_SNAPSHOT] for log in (tail, whole)]
    both = [[{k: v for k, v in r.items() if k != source} for r in without_origin(rows)] for rows in behind]
    assert both[0] == both[1] != []
    assert {r[source] for r in behind[0]} == {"topic", "assumed_default"}


def test_31_a_snapshot_behind_the_logs_end_is_a_jump(whole: Decoded) -> None:
    head = without(whole, lambda base: base >= 170)
    end = head.batches[-1]["last_offset"] + 1
    assert ("unobserved", end) in problems(head)
    rows = states(head)
    assert not [r for r in rows if end <= r["offset"] < LAST_SNAPSHOT - 1]
    known = {(r["topic_id"], r["partition"]) for r in rows if r["offset"] == LAST_SNAPSHOT - 1}
    assert len(known) == len({(r["topic_id"], r["partition"]) for r in states(whole) if r["offset"] < LAST_SNAPSHOT})


def test_29_snapshots_of_one_offset_and_two_epochs_are_told() -> None:
    found = rival_snapshots([(80, 1), (162, 1), (162, 3)])
    assert [(p.kind, p.offset) for p in found] == [("two_snapshots", 162)]
    assert "epochs 1, 3" in found[0].message


def test_33_a_broker_epoch_that_does_not_match_is_not_applied(whole: Decoded) -> None:
    wrong = changed(whole, "BROKER_REGISTRATION_CHANGE_RECORD", brokerEpoch=999_999)
    state = cluster_state(wrong)
    (offset,) = [p.offset for p in state.problems if p.kind == "broker_epoch_mismatch"]
    broker = next(r["data"]["brokerId"] for r in wrong.records if r["offset"] == offset)
    before = cluster_state(whole).brokers.states[broker]
    assert state.brokers.states[broker] == [s for s in before if s.offset != offset]


def test_34_records_about_what_does_not_exist_are_told_and_change_nothing(whole: Decoded) -> None:
    topic = next(r["data"]["topicId"] for r in whole.records if r["type"] == "TOPIC_RECORD")
    twice = added(whole, ("REMOVE_TOPIC_RECORD", {"topicId": topic}), ("REMOVE_TOPIC_RECORD", {"topicId": topic}))
    assert [p for p in problems(twice) if p not in problems(whole)] == [("unknown_topic", LOG_END + 1)]
    assert [r["offset"] for r in states(twice) if r["removed"] and r["topic_id"] == topic] == [LOG_END] * 3


def test_35_a_topic_created_anew_is_another_topic(whole: Decoded) -> None:
    topic = next(r["data"] for r in whole.records if r["type"] == "TOPIC_RECORD")
    again = added(
        whole,
        ("REMOVE_TOPIC_RECORD", {"topicId": topic["topicId"]}),
        ("TOPIC_RECORD", {"name": topic["name"], "topicId": "Z" * 22}),
    )
    names = cluster_state(again).configs.topic_names
    assert names[topic["topicId"]] == names["Z" * 22] == topic["name"]
    assert {r["topic"] for r in states(again) if r["topic_id"] == topic["topicId"]} == {topic["name"]}


def test_36_reassignment_keeps_the_order_of_replicas() -> None:
    rows = [r for r in states(decode(capture("elr"))) if r["adding_replicas"] or r["removing_replicas"]]
    assert rows
    assert any(r["replicas"] != sorted(r["replicas"]) for r in rows)


def test_37_a_restart_is_a_new_incarnation_not_a_new_registration(whole: Decoded) -> None:
    brokers = cluster_state(whole).brokers
    for broker in (1, 2, 3, 4):
        found = [s.incarnation_id for s in brokers.restarts(broker, -1)]
        assert len(found) == len(set(found)) >= 2


def test_38_without_the_static_files_min_isr_is_only_assumed(whole: Decoded) -> None:
    unset = replace(whole, static={}, records=[r for r in whole.records if r["type"] != "CONFIG_RECORD"])
    unset = replace(unset, snapshots=[r for r in whole.snapshots if r["type"] != "CONFIG_RECORD"])
    sources = {r["min_isr_source"] for r in states(unset) if not r["removed"]}
    assert sources == {"assumed_default"}


def test_38_a_min_isr_that_is_no_number_is_told(whole: Decoded) -> None:
    data = {"resourceType": 2, "resourceName": "ledger", "name": "min.insync.replicas", "value": "two"}
    bad = added(whole, ("CONFIG_RECORD", data))
    assert [p for p in problems(bad) if p not in problems(whole)] == [("bad_config", LOG_END)]


def test_39_elr_is_on_between_its_feature_records() -> None:
    state = cluster_state(decode(capture("churn")))
    offsets, levels = state.features.levels[ELR_VERSION]
    assert {0, 1} <= set(levels)
    for offset, level in zip(offsets, levels, strict=True):
        assert state.elr_enabled(offset) == (level >= 1)


@pytest.mark.parametrize(
    ("records", "kind"),
    [
        (["BEGIN_TRANSACTION_RECORD", "TOPIC_RECORD"], "open_transaction"),
        (["BEGIN_TRANSACTION_RECORD", "BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD"], "nested_transaction"),
        (["ABORT_TRANSACTION_RECORD"], "stray_transaction_end"),
    ],
)
def test_41_transactions_that_do_not_end_well_drop_their_records(whole: Decoded, records: list[str], kind: str) -> None:
    data = {"name": "new", "topicId": "Z" * 22}
    bad = added(whole, *((r, data if r == "TOPIC_RECORD" else {}) for r in records))
    assert [k for k, _ in problems(bad) if (k, LOG_END) not in problems(whole)][-1] == kind
    assert "Z" * 22 not in cluster_state(bad).configs.topic_names


def test_an_unknown_record_ends_what_is_known_up_to_the_next_snapshot(whole: Decoded) -> None:
    ends = whole.snapshot_ends
    shape = log_shape(whole.batches, ends, [Hole(100, whole.batches[20]["epoch"], "not known")])
    assert [(r.start, r.end) for r in shape.runs] == [(0, 100), (162, LOG_END)]


def test_every_record_of_the_majority_is_committed(whole: Decoded) -> None:
    columns = [np.array([b[n] for b in whole.batches]) for n in ("epoch", "base_offset", "last_offset")]
    found = commit_states(*columns, Holders.of_rows(b["nodes"] for b in whole.batches), frozenset({3000, 3001, 3002}))
    assert set(found) == {"committed"}
