"""Random logs for Hypothesis: partition records with every field given or left out, topics that go, ELRs cleared."""

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
