"""One record at a time, the way Kafka does it: slow, obvious, and the measure of replay.partitions.reducer.

PartitionRegistration's constructor and merge, TopicsDelta's replay of RemoveTopicRecord and ClearElrRecord.
"""

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]

MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"
LISTS = ("replicas", "isr", "elr", "last_known_elr", "removing_replicas", "adding_replicas", "directories")
STATE = (*LISTS, "leader", "leader_epoch", "partition_epoch", "leader_recovery_state")
_PROVENANCE = ("batch_base_offset", "capture", "path", "sha256", "position")
_FROM_RECORD = ("offset", "timestamp_ms", "controller_epoch", *_PROVENANCE)


def reduce_rows(changes: Iterable[Row], topic_events: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """(history rows sorted by topic, partition, offset; orphaned changes). Rows as in replay.partitions.reducer.CHANGES
    and TOPIC_EVENTS, in any order. Configs and topic names are left out."""
    events = [(c["offset"], c["topic_id"], "change", c) for c in changes]
    events += [(e["offset"], e["topic_id"], "event", e) for e in topic_events]
    current: dict[tuple[str, int], Row] = {}
    history: list[Row] = []
    orphans: list[Row] = []
    for _, topic_id, kind, record in sorted(events, key=lambda e: e[0]):
        if kind == "change":
            place = (topic_id, record["partition"])
            if record["full"]:
                state = _registration(record)
            elif place in current:
                state = _merge(current[place], record)
            else:
                orphans.append(record)
                continue
            current[place] = state
            history.append(_row(state, record, place, record["origin"]))
            continue
        for place in sorted(p for p in current if p[0] == topic_id):
            if record["removes"]:
                del current[place]
                history.append(_row(None, record, place, "log"))
            elif current[place]["elr"] or current[place]["last_known_elr"]:
                current[place] = _merge(current[place], {"elr": [], "last_known_elr": []})
                history.append(_row(current[place], record, place, "log"))
    history.sort(key=lambda r: (r["topic_id"], r["partition"], r["offset"]))
    for row, following in zip(history, [*history[1:], None], strict=False):
        same = following is not None and all(row[n] == following[n] for n in ("topic_id", "partition"))
        row["end_offset"] = following["offset"] if following and same else None
        row["end_timestamp_ms"] = following["timestamp_ms"] if following and same else None
    return history, orphans


def _registration(record: Row) -> Row:
    state = {name: list(record[name] or []) for name in LISTS}
    state |= {name: record[name] for name in ("leader", "leader_epoch", "partition_epoch", "leader_recovery_state")}
    return _default_to_migrating(state)


def _merge(old: Row, change: Row) -> Row:
    state = dict(old)
    for name in LISTS:
        if change.get(name) is not None:
            state[name] = list(change[name])
    if change.get("leader") not in (None, -2):
        state["leader"] = change["leader"]
        state["leader_epoch"] = _int32(old["leader_epoch"] + 1)
    if change.get("leader_recovery_state") not in (None, -1):
        state["leader_recovery_state"] = change["leader_recovery_state"]
    state["partition_epoch"] = _int32(old["partition_epoch"] + 1)
    return _default_to_migrating(state)


def _int32(value: int) -> int:
    """As Java's int overflows."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _default_to_migrating(state: Row) -> Row:
    if all(directory == MIGRATING for directory in state["directories"]):
        state["directories"] = [MIGRATING] * len(state["replicas"])
    return state


def _row(state: Row | None, record: Row, place: tuple[str, int], origin: str) -> Row:
    shown = dict.fromkeys(STATE) if state is None else {name: state[name] for name in STATE}
    if state is not None:
        shown["leader_recovery_state"] = ("RECOVERED", "RECOVERING")[state["leader_recovery_state"]]
    return {
        **{name: record[name] for name in _FROM_RECORD},
        **shown,
        "topic_id": place[0],
        "partition": place[1],
        "origin": origin,
        "removed": state is None,
    }
