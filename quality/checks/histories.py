"""Checks of histories: intervals, epochs, the records that made them, and what agrees with them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quality.check import Check, Kind, Limits, Scope, Violations, broken
from quality.checks.holes import HOLES, Holes
from quality.columns import NULL, Array, Rows, Tables, numbers, unknown
from quality.digests import RECORD_OFFSETS, TRANSACTIONS, covered
from quality.invariants import COLUMNS, INVARIANTS, States

# The columns that identify what a history is about.
SUBJECTS = {
    "partition_history": ("topic_id", "partition"),
    "feature_history": ("name",),
    "config_history": ("resource_type", "resource_name", "name"),
    "broker_history": ("broker_id",),
    "quorum_history": (),
    "cluster_metrics": ("metric", "topic_id", "partition"),
}
_HISTORY = "partition_history"
_KEY = (*SUBJECTS[_HISTORY], "offset")
_EPOCHS = ("leader_epoch", "partition_epoch")
_PLACE = ("partition_change.topic_id", "partition_change.partition")
_AGREEING = ("leader", *_EPOCHS, "replicas", "isr")
_INTERVAL = ("offset", "timestamp_ms", "end_offset", "end_timestamp_ms", "origin")
_AGAIN = "Run replay and detect again on a lake of this release; if it is still broken, report it with the capture."
_LATEST = np.iinfo(np.int64).max


def checks() -> Iterator[Check]:
    for table, subject in SUBJECTS.items():
        scope = Scope.TOPIC if table in (_HISTORY, "cluster_metrics") else Scope.CLUSTER
        yield Check(
            table,
            "intervals_join",
            Kind.CONSISTENCY,
            "A state ends where the next one of the same subject begins, at the same time; only before a snapshot that "
            "follows a hole in the log it ends earlier.",
            _AGAIN,
            partial(_intervals, table, subject),
            {table: (*subject, *_INTERVAL)},
            (*subject, "offset", "end_offset"),
            scope,
        )
        yield Check(
            table,
            "record_exists",
            Kind.VALIDITY,
            "The record at a state's offset is in metadata_records, and no later epoch replaced it.",
            _AGAIN,
            partial(_record_exists, table),
            {table: (*subject, "offset", "origin"), RECORD_OFFSETS: ("first", "last", "uncommitted")},
            (*subject, "offset"),
            Scope.ROWS,
        )
    for name in INVARIANTS:
        yield Check(
            _HISTORY,
            name,
            Kind.CONSISTENCY,
            f"The invariant {name} (docs/invariants.md), or the state is in invariant_violations.",
            "Detect has not seen this state: run detect again. See docs/invariants.md for what a violation means.",
            partial(_invariant, name),
            {
                _HISTORY: (*COLUMNS, "offset"),
                "invariant_violations": ("invariant", "topic_id", "partition", "start_offset", "end_offset"),
            },
            (*_KEY, "leader", "replicas", "isr", "elr"),
            Scope.TOPIC,
        )
    yield Check(
        _HISTORY,
        "state_whole",
        Kind.COMPLETENESS,
        "A state has leader, epochs, replicas, ISR and min ISR, unless the topic was removed.",
        _AGAIN,
        _state_whole,
        {_HISTORY: (*_KEY, "removed", "leader", *_EPOCHS, "replicas", "isr", "min_isr")},
        _KEY,
        Scope.ROWS,
    )
    yield Check(
        _HISTORY,
        "epochs_rise",
        Kind.CONSISTENCY,
        "From one state of a partition to the next, leader epoch and partition epoch do not fall.",
        "See leader_epoch_never_falls and partition_epoch_by_one in docs/invariants.md.",
        _epochs_rise,
        {_HISTORY: (*_KEY, *_EPOCHS)},
        (*_KEY, *_EPOCHS),
        Scope.TOPIC,
    )
    yield Check(
        _HISTORY,
        "changes_have_states",
        Kind.COMPLETENESS,
        "Every partition record of the surviving log has its state, unless its transaction was aborted, its topic or "
        "partition is not known, or it is in a hole of the history.",
        "States are missing: " + _AGAIN[0].lower() + _AGAIN[1:],
        _changes,
        {
            "metadata_records": ("offset", "commit_state", *_PLACE),
            TRANSACTIONS: ("offset", "type"),
            _HISTORY: _KEY,
            **HOLES,
        },
        ("offset",),
        Scope.TOPIC,
    )
    yield Check(
        _HISTORY,
        "agrees_with_snapshots",
        Kind.AGREEMENT,
        "Leader, epochs, replicas and ISR of a captured snapshot are those of the history at its end, or a "
        "snapshot_mismatch is found.",
        "The history is wrong from some record before the snapshot on: report it with the capture.",
        _agrees,
        {
            "snapshot_records": ("snapshot_end_offset", *_PLACE, *(f"partition_change.{name}" for name in _AGREEING)),
            _HISTORY: (*_KEY, "end_offset", "removed", *_AGREEING),
            "findings": ("kind", "start_offset", "rule"),
        },
        ("snapshot_end_offset",),
        Scope.TOPIC,
    )


def _numbered(rows: Rows, subject: tuple[str, ...]) -> Array:
    if not subject:
        return np.zeros(len(rows), dtype=np.int64)
    (number,) = numbers(rows.columns(*subject))
    return number


def _in_order(rows: Rows, subject: tuple[str, ...]) -> tuple[Rows, Array]:
    """The rows by subject and offset; and where the row before is of the same subject."""
    number = _numbered(rows, subject)
    rows, number = rows.sorted_by(number, rows.ints("offset")), np.sort(number, kind="stable")
    return rows, np.append(False, number[1:] == number[:-1])[: len(rows)]


def _intervals(table: str, subject: tuple[str, ...], tables: Tables, _: Limits) -> Violations:
    rows, follows = _in_order(tables[table], subject)
    next_follows = np.append(follows[1:], False)[: len(rows)]
    offset, end = rows.ints("offset"), rows.ints("end_offset", _LATEST)
    time, end_time = rows.ints("timestamp_ms"), rows.ints("end_timestamp_ms")
    following, following_time = np.roll(offset, -1), np.roll(time, -1)
    restarts = np.roll(~rows.in_set("origin", ("log",)), -1)
    joins = (end == following) & ((end_time == following_time) | (end_time == NULL) | (following_time == NULL))
    return broken(rows, next_follows & ~joins & ~((end < following) & restarts))


def _record_exists(table: str, tables: Tables, _: Limits) -> Violations:
    rows, records = tables[table], tables[RECORD_OFFSETS]
    known = covered(records.where(~records.true("uncommitted")), rows.ints("offset"))
    return broken(rows, rows.in_set("origin", ("log",)) & ~known)


def _invariant(name: str, tables: Tables, _: Limits) -> Violations:
    live, reported = _live(tables[_HISTORY]), tables["invariant_violations"]
    wrong = ~INVARIANTS[name](live.states)
    if wrong.any():
        reported = reported.where(reported.in_set("invariant", (name,)))
        of_state, of_report = numbers(live.columns(*_KEY[:2]), reported.columns(*_KEY[:2]))
        offset, begin = live.ints("offset"), reported.ints("start_offset")
        end = reported.ints("end_offset", _LATEST)
        for at in np.flatnonzero(wrong):
            same = (of_report == of_state[at]) & (begin <= offset[at]) & (offset[at] < end)
            wrong[at] = not same.any()
    return broken(live, wrong)


class _Live(Rows):
    """States that are no removals, with what their invariants are worked out from."""

    def __init__(self, table: pa.Table) -> None:
        super().__init__(table)
        self.states = States(table)


_newest: list[tuple[Rows, _Live]] = []


def _live(rows: Rows) -> _Live:
    """The states of some rows, made once for all invariants."""
    if not _newest or _newest[0][0] is not rows:
        _newest[:] = [(rows, _Live(rows.where(~rows.true("removed")).table))]
    return _newest[0][1]


def _state_whole(tables: Tables, _: Limits) -> Violations:
    rows = tables[_HISTORY]
    whole = np.ones(len(rows), dtype=bool)
    for name in ("leader", *_EPOCHS, "replicas", "isr", "min_isr"):
        whole &= rows.valid(name)
    return broken(rows, ~whole & ~rows.true("removed"))


def _epochs_rise(tables: Tables, _: Limits) -> Violations:
    rows, follows = _in_order(tables[_HISTORY], SUBJECTS[_HISTORY])
    falls = np.zeros(len(rows), dtype=bool)
    for name in _EPOCHS:
        epoch = rows.ints(name)
        falls |= (epoch < np.roll(epoch, 1)) & (epoch != NULL)
    return broken(rows, follows & falls)


def _changes(tables: Tables, _: Limits) -> Violations:
    records = tables["metadata_records"]
    records = records.where(
        records.valid("partition_change") & records.valid("offset") & ~records.in_set("commit_state", ("uncommitted",))
    )
    missing = unknown(records, (*_PLACE, "offset"), (tables[_HISTORY], _KEY))
    at = np.flatnonzero(missing)
    if len(at):
        offsets = records.ints("offset")[at]
        findings = tables["findings"]
        reported = findings.in_set("rule", ("unknown_topic", "unknown_partition", "open_transaction"))
        excused = np.isin(offsets, findings.ints("start_offset")[reported]) | Holes(tables).cover(offsets)
        missing[at[excused | ~_visible(tables[TRANSACTIONS], offsets)]] = False
    change = records.table["partition_change"]

    def text(number: int) -> str:
        found = change[number].as_py()
        return f"topic_id={found['topic_id']}, partition={found['partition']}"

    return broken(records, missing, text)


def _visible(markers: Rows, offsets: Array) -> Array:
    """Which offsets are in no transaction that was aborted or did not end."""
    visible = np.ones(len(offsets), dtype=bool)
    rows = zip(markers.ints("offset").tolist(), markers.table["type"].to_pylist(), strict=True)
    begin: int | None = None
    for offset, kind in sorted(rows):
        ended = kind == "END_TRANSACTION_RECORD"
        if begin is not None and not ended:
            visible &= (offsets < begin) | (offsets > offset)
        begin = offset if kind == "BEGIN_TRANSACTION_RECORD" else None
    return visible & (offsets < begin) if begin is not None else visible


def _agrees(tables: Tables, _: Limits) -> Violations:
    records, history, findings = tables["snapshot_records"], tables[_HISTORY], tables["findings"]
    found = findings.ints("start_offset")[findings.in_set("rule", ("snapshot_mismatch",))]
    ends = records.ints("snapshot_end_offset")
    known = records.valid("partition_change") & ~np.isin(ends, np.append(found, found + 1))
    records = records.where(known & records.valid("snapshot_end_offset"))
    history = history.where(~history.true("removed"))
    own = pa.table({"number": np.arange(len(records)), "end": records.ints("snapshot_end_offset")})
    differs, texts = np.zeros(len(records), dtype=bool), {}
    begins, until = history.ints("offset"), history.ints("end_offset", _LATEST)
    for end in np.unique(own["end"].to_numpy()):
        at = np.flatnonzero(own["end"].to_numpy() == end)
        states = history.where((begins < end) & (until >= end))
        snapshot = Rows(records.table.take(pa.array(at)))
        of_record, of_state = numbers(snapshot.columns(*_PLACE), states.columns(*_KEY[:2]))
        _, first, second = np.intersect1d(of_record, of_state, return_indices=True)
        for name in _AGREEING:
            (taken,) = snapshot.columns(f"partition_change.{name}")
            for number in first[_differ(taken, first, states.table[name], second)]:
                differs[at[number]] = True
                texts[int(at[number])] = (
                    f"{snapshot.table['partition_change'][int(number)].as_py()['topic_id']}: {name}"
                )
    return broken(records, differs, lambda number: texts[number])


def _differ(left: pa.ChunkedArray, at: Array, right: pa.ChunkedArray, where: Array) -> Array:
    """Where two columns, each at its own rows, have other values."""
    one, other = (column.combine_chunks().take(pa.array(rows)) for column, rows in ((left, at), (right, where)))
    if not pa.types.is_list(one.type):
        return (
            pc.fill_null(one.cast(pa.int64()), NULL).to_numpy() != pc.fill_null(other.cast(pa.int64()), NULL).to_numpy()
        )
    return np.array([a != b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], dtype=bool)
