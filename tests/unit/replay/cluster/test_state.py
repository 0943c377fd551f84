"""The cluster-wide part of a replay: topics, configs, features, what a gap in the log means."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.arrow.schemas import CHANGES
from replay.cluster.features import ZK_MIGRATION_STATE
from replay.cluster.log import Hole
from replay.cluster.state import ClusterState, ConflictError, changes_that_count, log_shape, resolve_cluster
from replay.controller.profiles import PROFILES, possible_profiles
from tests.support.records import batch, config, elr, leader, record, register, registered, topic, unregistered
from tests.support.window_table import Entry, beside, entries

Row = dict[str, Any]


def row_of(item: str) -> Row:
    """A record of the text file beside this module."""
    offset, what, *words = (word for word in item.split() if not re.fullmatch(r"base=\d+|e\d+", word))
    at, first = int(offset), words[0] if words else ""
    match what:
        case "topic":
            found = topic(at, first, words[1])
        case "clear":
            found = record(at, "CLEAR_ELR_RECORD", topicName=first)
        case "remove":
            found = record(at, "REMOVE_TOPIC_RECORD", topicId=first)
        case "config":
            name, _, value = first.partition("=")
            found = config(at, value, *(("", 4) if name == "cluster" else (name, 2)))
        case "elr":
            found = elr(at, int(first))
        case "version":
            found = record(at, "FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=int(first))
        case "migration":
            found = record(at, ZK_MIGRATION_STATE, zkMigrationState=int(first))
        case "register":
            found = register(at, words[1], int(first), fenced=False)
        case "leads":
            found = leader(at, int(first))
        case "controller":
            found = registered(at, int(first))
        case "gone":
            found = unregistered(at, int(first))
        case _:
            found = record(at, f"{what.upper()}_TRANSACTION_RECORD")
    base, epoch = re.search(r"base=(\d+)", item), re.search(r" e(\d+)", item)
    found |= {"batch_base_offset": int(base[1])} if base else {}
    return found | ({"epoch": int(epoch[1])} if epoch else {})


def resolve(items: list[str]) -> ClusterState:
    batches, holes, snapshot = [], [], []
    for item in (item for item in items if not item[0].isdigit()):
        word, place, *words = item.split()
        epoch = next((int(each[1:]) for each in words if re.fullmatch(r"e\d+", each)), 1)
        if word == "batch":
            crc = next((int(each[4:]) for each in words if each.startswith("crc=")), None)
            batches.append(batch(*map(int, place.split("-")), epoch, crc))
        elif word == "hole":
            holes.append(Hole(int(place), epoch, "not known"))
        else:
            snapshot.append({**row_of(" ".join(words)), "snapshot_end_offset": int(place), "snapshot_epoch": 1})
    ends = sorted({(r["snapshot_end_offset"], r["snapshot_epoch"]) for r in snapshot})
    records = [row_of(item) for item in items if item[0].isdigit()]
    return resolve_cluster(log_shape(batches or [batch(0, 99)], ends, holes), records, snapshot, {})


def shown(state: ClusterState, part: str) -> str:
    """What a part of an answer says of this state."""
    word, _, rest = part.partition(" ")
    what, _, offsets = rest.partition("=")[0].rpartition("@")
    at = (
        [int(offset) for offset in offsets.split(",")]
        if word in ("isr", "active", "elr", "migration", "visible")
        else []
    )
    match word:
        case "events":
            rows = state.topic_events.to_pylist()
            assert all(row["position"] == row["offset"] for row in rows if row["offset"] != 59)  # of a snapshot
            words = sorted(f"{e['offset']}/{e['topic_id']}{'-' * e['removes']}" for e in rows)
        case "topics":
            words = [f"{topic_id}={name}" for topic_id, name in state.configs.topic_names.items()]
        case "problems" | "transactions":
            kinds = [problem for problem in state.problems if word == "problems" or "transaction" in problem.kind]
            words = [f"{problem.kind}@{problem.offset}" for problem in kinds]
        case "truncated":
            words = [f"{epoch}/{base}" for epoch, base in state.shape.truncated]
        case "runs":
            words = [f"{run.start}-{run.end}" for run in state.shape.runs]
        case "isr":
            found = state.configs.min_isr.resolve([what], np.zeros(len(at), dtype=np.int64), np.array(at))
            words = [f"{what}@{offsets}={','.join(found.pairs[i][0] for i in found.index)}"]
        case "active":
            words = [f"{what}@{offsets}={','.join(str(int(state.brokers.active(int(what), o))) for o in at)}"]
        case "migration":
            levels = state.features.at_each(ZK_MIGRATION_STATE, np.array(at))
            words = [f"{offsets}={','.join(map(str, levels))}"]
        case "elr":
            words = [f"{offsets}={','.join(str(int(state.elr_enabled(o))) for o in at)}"]
        case _:
            rows = [{"offset": o, "origin": "log"} for o in at] + [{"offset": 59, "origin": "checkpoint"}]
            kept = changes_that_count(pa.Table.from_pylist(rows, schema=CHANGES), state)["offset"].to_pylist()
            assert kept[-1] == 59
            words = [f"{offsets}={','.join(str(int(o in kept)) for o in at)}"]
    return " ".join([word, *words])


@pytest.mark.parametrize("entry", entries(beside(__file__)), ids=lambda entry: entry.name)
def test_what_a_cluster_is(entry: Entry) -> None:
    for story, answer in entry.cases:
        state = resolve(story.split("; "))
        parts = answer.split("; ")
        assert [shown(state, part) for part in parts] == parts, story


@pytest.mark.parametrize("base", [10, 15])
def test_one_epoch_with_two_contents_is_refused(base: int) -> None:
    """A CRC does not cover the offset: the same batch, moved by a flipped bit, must not be applied twice."""
    with pytest.raises(ConflictError, match=f"offset {base} of epoch 1 has different bytes in a of c and b of c"):
        log_shape([batch(10, 19), batch(base, base + 9, crc=99, path="b")], [])


def test_a_snapshot_behind_a_gap_takes_back_controllers_that_are_not_in_it() -> None:
    """Controller 2 was unregistered in the gap, and leads after it; 3 was before."""
    before = ["1 controller 1", "2 controller 2", "3 controller 3", "4 gone 3", "in 60 0 controller 1"]
    terms = ["60 leads 1 e2", "70 leads 2 e3", "80 leads 3 e4"]
    state = resolve([*before, *terms, "batch 0-49", "batch 60-69 e2", "batch 70-79 e3", "batch 80-99 e4"])
    found = [r for r in state.records if r["type"] == "UNREGISTER_CONTROLLER_RECORD"]
    assert [(r["offset"], r["data"]["controllerId"]) for r in found] == [(4, 3), (59, 2)]
    every = tuple(PROFILES)
    assert [possible_profiles(state.controller_releases).at(o) for o in (60, 70, 80)] == [("4.3",), every, every]
    assert [p.kind for p in state.problems] == ["offset_gap", "unknown_prefix"]
