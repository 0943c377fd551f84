"""Random logs for Hypothesis: partition records with every field given or left out, topics that come and go, ELRs
cleared, metadata transactions; and the plain rules for what of them counts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.support.scalar_reducer import MIGRATING

Row = dict[str, Any]

LISTS = ("isr", "elr", "last_known_elr", "removing_replicas", "adding_replicas")
TOPICS = ["A" * 21 + letter for letter in "xyz"]
brokers = st.integers(1, 5)
lists = st.lists(brokers, max_size=4, unique=True)
maybe_list = st.none() | lists


def provenance(offset: int) -> Row:
    where = {"capture": "c", "path": f"file-{offset // 7}", "sha256": "00", "position": offset * 3}
    return {"timestamp_ms": 1_000_000 + offset * 10 + offset % 3, "controller_epoch": offset // 5, **where}


@st.composite
def directories_for(draw: st.DrawFn, count: int) -> list[str] | None:
    known = [f"directory-{i}" for i in range(count)]
    return draw(st.sampled_from([None, [], known, [MIGRATING] * count, [*known[:-1], MIGRATING]]))


@st.composite
def full_record(draw: st.DrawFn) -> Row:
    replicas = draw(st.lists(brokers, min_size=1, max_size=4, unique=True))
    return {
        "full": True,
        "replicas": replicas,
        **{name: draw(lists) for name in LISTS},
        "directories": draw(directories_for(len(replicas))),
        "leader": draw(st.integers(-1, 5)),
        "leader_epoch": draw(st.integers(0, 9)),
        "partition_epoch": draw(st.integers(0, 9)),
        "leader_recovery_state": draw(st.integers(0, 1)),
    }


@st.composite
def change_record(draw: st.DrawFn) -> Row:
    """Any subset of fields: null keeps, an empty list empties, a leader that stays counts as an election."""
    replicas = draw(st.none() | st.lists(brokers, min_size=1, max_size=4, unique=True))
    return {
        "full": False,
        "replicas": replicas,
        **{name: draw(maybe_list) for name in LISTS},
        "directories": draw(directories_for(len(replicas)) if replicas else st.none()),
        "leader": draw(st.none() | st.integers(-2, 5)),
        "leader_epoch": None,
        "partition_epoch": None,
        "leader_recovery_state": draw(st.none() | st.integers(-1, 1)),
    }


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Row], list[Row]]:
    """(changes, topic events) in offset order; also what no controller would write: orphans, repeated removals."""
    changes: list[Row] = []
    events: list[Row] = []
    kinds = st.sampled_from(["full", *["change"] * 5, "clear", "clear all", "remove"])
    for offset in range(draw(st.integers(0, 40))):
        kind, topic = draw(kinds), draw(st.sampled_from(TOPICS))
        here = {"offset": offset * 2, "batch_base_offset": offset * 2 - offset % 2, **provenance(offset)}
        if kind in ("full", "change"):
            place = {"topic_id": topic, "partition": draw(st.integers(0, 2)), "origin": "log"}
            changes.append({**here, **place, **draw(full_record() if kind == "full" else change_record())})
        else:
            touched = TOPICS if kind == "clear all" else [topic]
            events += [{**here, "topic_id": t, "removes": kind == "remove"} for t in touched]
    return changes, events


# Two topics share a name: one is the other created anew.
NAMES = dict(zip(TOPICS, ("orders", "orders", "mail"), strict=True))
BEGIN, END, ABORT = "BEGIN_TRANSACTION_RECORD", "END_TRANSACTION_RECORD", "ABORT_TRANSACTION_RECORD"
CHANGES_OF = {True: "PARTITION_RECORD", False: "PARTITION_CHANGE_RECORD"}


@st.composite
def records(draw: st.DrawFn) -> list[Row]:
    """A metadata log: one row an offset, with type, data and, for partition records, `change` (a CHANGES row).

    Topics are created and removed as a controller would; transactions begin inside others, end or abort without having
    begun, and the log may end in one; changes also speak of partitions that are not there.
    """
    log: list[Row] = []
    alive: set[str] = set()
    before: set[str] | None = None  # alive when the open transaction began
    rare = [BEGIN, END, ABORT, "CLEAR_ELR_RECORD", "CLEAR_ELR_RECORD", "REMOVE_TOPIC_RECORD"]
    kinds = st.sampled_from([*rare, *["TOPIC_RECORD"] * 2, *[CHANGES_OF[True]] * 4, *[CHANGES_OF[False]] * 8])
    for offset in range(draw(st.integers(0, 50))):
        kind, data, change = draw(kinds), {}, None
        if kind == BEGIN:
            alive, before = (alive, set(alive)) if before is None else (set(before), before)
        elif kind in (END, ABORT):
            alive, before = (before if kind == ABORT and before is not None else alive), None
        elif kind == "CLEAR_ELR_RECORD":
            data = {"topicName": draw(st.sampled_from(["", "orders", "mail"]))}
        elif kind == "TOPIC_RECORD":
            free = [t for t in TOPICS if NAMES[t] not in {NAMES[a] for a in alive}]
            if free:
                topic = draw(st.sampled_from(free))
                data = {"topicId": topic, "name": NAMES[topic]}
                alive.add(topic)
        elif kind == "REMOVE_TOPIC_RECORD":
            if alive:
                data = {"topicId": draw(st.sampled_from(sorted(alive)))}
                alive.remove(data["topicId"])
        else:
            # Mostly of topics that are there.
            topics = st.sampled_from(sorted(alive) * 3 + TOPICS)
            place = {"topic_id": draw(topics), "partition": draw(st.integers(0, 2)), "origin": "log"}
            change = {**place, **draw(full_record() if kind == CHANGES_OF[True] else change_record())}
        if not data and kind in ("TOPIC_RECORD", "REMOVE_TOPIC_RECORD"):
            kind = "NO_OP_RECORD"
        here = {"offset": offset, "batch_base_offset": offset - offset % 3, **provenance(offset)}
        log.append(
            {**here, "epoch": here["controller_epoch"], "type": kind, "data": data, "change": change and here | change}
        )
    return log


def committed(log: list[Row]) -> list[Row]:
    """The records that count: none of an aborted or never ended transaction, nor of one that another begins in."""
    result: list[Row] = []
    pending: list[Row] | None = None
    for record in log:
        if record["type"] == BEGIN:
            pending = []
        elif record["type"] in (END, ABORT):
            result += pending or [] if record["type"] == END else []
            pending = None
        elif pending is None:
            result.append(record)
        else:
            pending.append(record)
    return result


def topic_events(log: list[Row]) -> list[Row]:
    """TOPIC_EVENTS rows of records that count: removals, and clearings of every topic that they are about."""
    events: list[Row] = []
    alive: list[str] = []
    for record in log:
        kind, data = record["type"], record["data"]
        if kind == "TOPIC_RECORD":
            alive.append(data["topicId"])
        elif kind == "REMOVE_TOPIC_RECORD":
            alive.remove(data["topicId"])
            events.append({**record, "topic_id": data["topicId"], "removes": True})
        elif kind == "CLEAR_ELR_RECORD":
            about = [t for t in alive if data["topicName"] in ("", NAMES[t])]
            events += [{**record, "topic_id": t, "removes": False} for t in about]
    return events
