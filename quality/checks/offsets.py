"""Checks of readings: log ends, what tools printed, and views of the quorum."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from quality.check import Check, Kind, Limits, Scope, Violations, broken
from quality.columns import NULL, Tables, numbers, unknown
from quality.digests import TOPIC_NAMES

_READING = ("broker_id", "source", "captured_at_ms", "topic", "partition")
_PRINTED = ("source", "captured_at_ms", "topic", "partition")
_AGAIN = "Ingest the capture into a new lake. If it happens again, report it with the capture."


def checks() -> Iterator[Check]:
    yield Check(
        "log_end_offsets",
        "watermark_in_log",
        Kind.CONSISTENCY,
        "A replica's high watermark and recovery point are not above its log end in the same row.",
        "The source printed offsets that cannot be: capture it again, and compare it with another source.",
        _in_log,
        {"log_end_offsets": (*_READING, "log_end_offset", "high_watermark", "recovery_point_offset")},
        _READING,
        Scope.ROWS,
    )
    yield Check(
        "log_end_offsets",
        "topic_known",
        Kind.VALIDITY,
        "The topic of a reading is a topic of the metadata log.",
        "The reading is of a topic that the captured log does not show: capture older segments or a snapshot.",
        _topic_known,
        {"log_end_offsets": _READING, TOPIC_NAMES: ("topic",)},
        _READING,
        Scope.ROWS,
        warns=True,
    )
    yield Check(
        "described_partitions",
        "state_possible",
        Kind.CONSISTENCY,
        "In a printed state the leader is in the ISR, ISR and ELR are replicas, and no broker is in both.",
        "Kafka's tool printed a state that cannot be: compare it with the history; see docs/invariants.md.",
        _printed_state,
        {"described_partitions": (*_PRINTED, "leader", "replicas", "isr", "elr")},
        _PRINTED,
        Scope.ROWS,
    )
    yield Check(
        "described_partitions",
        "agrees_with_history",
        Kind.AGREEMENT,
        "A printed leader and ISR are those of a state that the history has at most quality.print_delay_ms before or "
        "after that time, or a describe_mismatch is found, or the history begins, or has a hole, near that time.",
        "History and cluster differ: see what detect found; if it found nothing, report it with the capture.",
        _agrees,
        {
            "described_partitions": (*_PRINTED, "uncertainty_ms", "leader", "isr"),
            "partition_history": (
                *("topic", "partition", "origin", "timestamp_ms", "end_offset", "end_timestamp_ms"),
                *("leader", "isr", "removed"),
            ),
            "findings": ("kind", "topic", "partition"),
            "log_batches": ("max_timestamp_ms",),
        },
        _PRINTED,
        Scope.NAME,
    )
    yield Check(
        "quorum_reports",
        "leader_is_voter",
        Kind.CONSISTENCY,
        "The leader of the quorum is among the voters that the report names.",
        "Compare with controller.quorum.voters on every node.",
        _leader_votes,
        {"quorum_reports": ("source", "node_id", "captured_at_ms", "leader_id", "voters")},
        ("source", "node_id", "captured_at_ms", "leader_id"),
        Scope.ROWS,
    )
    yield Check(
        "quorum_reports",
        "agrees_with_history",
        Kind.AGREEMENT,
        "The leader of an epoch is the one that quorum_history has for it.",
        "Two controllers led in one epoch, or the report is of another cluster: compare the cluster ids.",
        _quorum_agrees,
        {
            "quorum_reports": ("source", "node_id", "captured_at_ms", "leader_id", "leader_epoch"),
            "quorum_history": ("controller_epoch", "leader_id"),
        },
        ("source", "node_id", "captured_at_ms", "leader_id", "leader_epoch"),
    )


def _in_log(tables: Tables, _: Limits) -> Violations:
    rows = tables["log_end_offsets"]
    end = rows.ints("log_end_offset")
    above = [rows.ints(name) > end for name in ("high_watermark", "recovery_point_offset")]
    return broken(rows, (end != NULL) & (above[0] | above[1]))


def _topic_known(tables: Tables, _: Limits) -> Violations:
    rows, known = tables["log_end_offsets"], tables[TOPIC_NAMES]
    if not len(known):
        return broken(rows, np.zeros(len(rows), dtype=bool))
    strange = rows.valid("topic") & unknown(rows, ("topic",), (known, ("topic",)))
    return broken(rows, strange & ~rows.in_set("topic", ("__cluster_metadata",)))


def _printed_state(tables: Tables, _: Limits) -> Violations:
    rows = tables["described_partitions"]
    replicas, isr, elr = (rows.lists(name) for name in ("replicas", "isr", "elr"))
    leader = rows.ints("leader", -1)
    possible = ((leader == -1) | isr.has(leader)) & isr.within(replicas) & elr.within(replicas) & elr.apart_from(isr)
    return broken(rows, ~possible)


def _agrees(tables: Tables, limits: Limits) -> Violations:
    rows, history = tables["described_partitions"], tables["partition_history"]
    history = history.where(~history.true("removed") & history.valid("timestamp_ms"))
    log_end = int(tables["log_batches"].ints("max_timestamp_ms").max(initial=0))
    found = tables["findings"]
    found = found.where(found.in_set("kind", ("describe_mismatch",)))
    place = ("topic", "partition")
    rows = rows.where(rows.valid("captured_at_ms") & unknown(rows, place, (found, place)))
    rows = rows.where(rows.ints("captured_at_ms") <= log_end)
    of_row, of_state = numbers(rows.columns(*place), history.columns(*place))
    wanted = np.isin(of_state, of_row)
    history, of_state = history.where(wanted), of_state[wanted]
    since, until = history.ints("timestamp_ms"), history.ints("end_timestamp_ms", np.iinfo(np.int64).max)
    after_hole = history.in_set("origin", ("checkpoint",))
    before_hole = history.valid("end_offset") & ~history.valid("end_timestamp_ms")
    state = list(zip(history.ints("leader").tolist(), map(_members, history.table["isr"].to_pylist()), strict=True))
    printed = list(zip(rows.ints("leader").tolist(), map(_members, rows.table["isr"].to_pylist()), strict=True))
    low = rows.ints("captured_at_ms") - limits.print_delay_ms
    high = rows.ints("captured_at_ms") + rows.ints("uncertainty_ms", 0) + limits.print_delay_ms
    order = np.argsort(of_state, kind="stable")
    wrong = np.zeros(len(rows), dtype=bool)
    for number, key in enumerate(of_row.tolist()):
        own = order[np.searchsorted(of_state[order], key, "left") : np.searchsorted(of_state[order], key, "right")]
        near = own[(since[own] <= high[number]) & (until[own] >= low[number])]
        unknown_then = before_hole[near].any() or (after_hole[near] & (since[near] > low[number])).any()
        wrong[number] = (
            bool(len(near)) and not unknown_then and all(state[at] != printed[number] for at in near.tolist())
        )
    return broken(rows, wrong)


def _members(brokers: list[int] | None) -> frozenset[int]:
    return frozenset(brokers or ())


def _leader_votes(tables: Tables, _: Limits) -> Violations:
    rows = tables["quorum_reports"]
    leader, voters = rows.ints("leader_id", -1), rows.lists("voters")
    return broken(rows, (leader != -1) & (voters.size > 0) & ~voters.has(leader))


def _quorum_agrees(tables: Tables, _: Limits) -> Violations:
    rows, history = tables["quorum_reports"], tables["quorum_history"]
    history = history.where(history.valid("leader_id"))
    known = ~unknown(rows, ("leader_epoch",), (history, ("controller_epoch",)))
    pair = ("leader_epoch", "leader_id")
    differs = unknown(rows, pair, (history, ("controller_epoch", "leader_id")))
    return broken(rows, known & differs & (rows.ints("leader_id", -1) != -1))
