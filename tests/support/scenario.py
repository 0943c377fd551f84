"""Small histories in a line a state, for tests that are about rules and not about records.

    states("10 isr=1,2,3 leader=1", "20 isr= elr=1 leader=-1", "30 isr=2 elr= leader=2 recovering")

A line begins with the metadata offset; one offset is one second (`ms`). What a line leaves out stays as it was; the
leader epoch rises by one when the leader changes, unless the line gives one. Words: checkpoint (the state is a
snapshot's), removed, recovering, recovered, assumed (min ISR is only assumed), unclean=true@topic
(effective unclean.leader.election.enable and its layer), batch=9 (the base offset of its batch, else its own),
dirs=a,b,c (the replicas' directories on this line; else d1 for broker 1, and so on).

    evidence("12 b1 hw=80 leo=80 e0@0", "40 b2 hw=100 e0@0 e2@80")

is what broker 1 showed when it was read at second 12, and so on: high watermark, log end, lines of its
leader-epoch-checkpoint. A time of "?" is not known. "? b1 tail=90/2/7" is a log that the session with broker epoch 7
left behind when it stopped cleanly: log end 90, last record of leader epoch 2. "rp=90" is a recovery point, "rp=90/7"
one beside that session's .kafka_cleanshutdown ("future", and for hw "moved": without the partition's own folder;
"elsewhere": another directory has one, too).
"heads=40,45:50/2" is a log with batches at 40 and 45 that ends at 50,
its last one of leader epoch 2. "isr=2 under=1 leo=90 proc=5" is an exporter's text of a process started
at second 5 that leads with two in sync, below min ISR.

    sessions("1 register 1 a", "2 unfence 1", "9 fence 1", "11 shutdown 1", "12 unregister 1")

is the brokers' registrations: offset, what, broker, and for a registration its incarnation, and its directories unless
they are the usual ones ("-": it names none); "13 offline 1 d2" leaves broker 1 only the directory d2; a last word
batch=9 is the base offset of the record's batch.
"""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from evidence.tables import LOG_END_OFFSETS
from replay.arrow.schemas import PARTITION_HISTORY
from replay.cluster.brokers import BrokerTimeline, broker_timeline
from replay.cluster.facts import ClusterFacts
from replay.cluster.features import ELR_VERSION, FeatureLevels, feature_levels

Row = dict[str, Any]

TOPIC_ID = "T" * 22
UNCERTAINTY_MS = 500
# A line of `sessions`, and none of `states`.
SESSION = re.compile(r"\d+ (register|unregister|fence|unfence|offline|shutdown) ")

_LISTS = {
    "replicas": "replicas",
    "isr": "isr",
    "elr": "elr",
    "lke": "last_known_elr",
    "removing": "removing_replicas",
    "adding": "adding_replicas",
}
_NUMBERS = {"leader": "leader", "epoch": "leader_epoch", "min": "min_isr"}
_START: Row = {
    "replicas": [1, 2, 3],
    "isr": [1, 2, 3],
    "elr": [],
    "last_known_elr": [],
    "removing_replicas": [],
    "adding_replicas": [],
    "leader": 1,
    "leader_epoch": 0,
    "partition_epoch": -1,
    "leader_recovery_state": "RECOVERED",
    "min_isr": 2,
    "min_isr_source": "topic",
    "unclean_leader_election_enable": False,
    "unclean_leader_election_enable_source": "default",
    "removed": False,
}


def ms(offset: float) -> int:
    return int(offset * 1000)


def states(*lines: str, topic_id: str = TOPIC_ID, topic: str = "t", partition: int = 0) -> pa.Table:
    """tables.PARTITION_HISTORY of one partition."""
    rows: list[Row] = []
    state = _START
    for line in lines:
        state = _next(state, line.split(), {"topic_id": topic_id, "topic": topic, "partition": partition})
        rows.append(state)
    for row, following in pairwise(rows):
        row["end_offset"], row["end_timestamp_ms"] = following["offset"], following["timestamp_ms"]
    return pa.Table.from_pylist([_shown(r) for r in rows], schema=PARTITION_HISTORY)


def together(*partitions: pa.Table) -> pa.Table:
    """Several partitions' histories as one table, in order."""
    order = [(name, "ascending") for name in ("topic_id", "partition", "offset")]
    return pa.concat_tables(partitions).sort_by(order).combine_chunks()


def _next(before: Row, words: list[str], place: Row) -> Row:
    offset = int(words[0])
    state = {
        **before,
        **place,
        "offset": offset,
        "batch_base_offset": offset,
        "timestamp_ms": ms(offset),
        "controller_epoch": 1,
        "partition_epoch": before["partition_epoch"] + 1,
        "origin": "checkpoint" if "checkpoint" in words else "log",
        "removed": "removed" in words,
        "end_offset": None,
        "end_timestamp_ms": None,
        "capture": "c",
        "path": "log",
        "sha256": "00",
        "position": offset,
    }
    values = dict(word.split("=", 1) for word in words if "=" in word)
    state |= {_LISTS[k]: [int(b) for b in v.split(",") if b] for k, v in values.items() if k in _LISTS}
    state |= {_NUMBERS[k]: int(v) for k, v in values.items() if k in _NUMBERS}
    state |= {"min_isr_source": values["source"]} if "source" in values else {}
    state |= {"timestamp_ms": ms(float(values["at"]))} if "at" in values else {}
    state |= {"batch_base_offset": int(values["batch"])} if "batch" in values else {}
    state |= {"min_isr_source": "assumed_default"} if "assumed" in words else {}
    if "unclean" in values:
        enabled, source = values["unclean"].split("@")
        state |= {"unclean_leader_election_enable": enabled == "true", "unclean_leader_election_enable_source": source}
    for word in ("recovering", "recovered"):
        state |= {"leader_recovery_state": word.upper()} if word in words else {}
    if "epoch" not in values and state["leader"] != before["leader"] and before is not _START:
        state["leader_epoch"] = before["leader_epoch"] + 1
    named = values["dirs"].split(",") if "dirs" in values else [f"d{b}" for b in state["replicas"]]
    return {**state, "directories": named}


def _shown(row: Row) -> Row:
    if not row["removed"]:
        return row
    return {**row, **{n: None for n in (*_START, "directories") if n != "removed"}}


def evidence(*lines: str, topic_id: str = TOPIC_ID, topic: str = "t", partition: int = 0) -> list[Row]:
    """LOG_END_OFFSETS rows of one partition; `offsets_table` makes a table of them."""
    rows: list[Row] = []
    for line in lines:
        time, broker, *words = line.split()
        common = dict.fromkeys(LOG_END_OFFSETS.names) | {
            "broker_id": None if broker == "any" else int(broker[1:]),
            "topic": topic,
            "topic_id": topic_id,
            "partition": partition,
            "captured_at_ms": None if time == "?" else ms(float(time)),
            "uncertainty_ms": None if time == "?" else UNCERTAINTY_MS,
            "capture": "c",
            "sha256": "00",
        }
        position = {"leader_epoch": len(f"0\n{sum('@' in word for word in words)}\n")}
        started = next((ms(float(w.removeprefix("proc="))) for w in words if w.startswith("proc=")), None)
        in_folder = any(word.startswith(("rp=", "hw=")) for word in words) and not {"future", "moved"} & set(words)
        if broker != "any" and (in_folder or "elsewhere" in words):
            # The partition's own folder is in the same directory.
            paths = [f"{time}/{broker}/t-0/batch_heads", f"{time}/{broker}/other/t-0/batch_heads"]
            for path in paths if "elsewhere" in words else paths[:1]:
                rows.append({**common, "source": "batch_heads", "path": path, "position": 0})
        for word in (w for w in words if not w.startswith(("proc=", "future", "moved", "elsewhere"))):
            value = _value(word)
            if value["source"] == "jmx_exporter":
                value["process_start_ms"] = started
            at = position.setdefault(value["source"], 0)
            folder = "t-0/" if value["source"] in ("leader_epoch", "replica_segment", "batch_heads") else ""
            path = f"{time}/{broker}/{folder}{value['source']}"
            rows.append({**common, **value, "path": path, "position": at})
            # As in the files themselves: a line for each word.
            position[value["source"]] += len(word.strip("e").replace("@", " ")) + 1
    return rows


def _value(word: str) -> Row:
    if "@" in word:
        epoch, start = word[1:].split("@")
        return {"source": "leader_epoch", "leader_epoch": int(epoch), "epoch_start_offset": int(start)}
    name, value = word.split("=")
    if name == "tail":
        names = ("log_end_offset", "last_written_leader_epoch", "broker_epoch")
        return {"source": "replica_segment", **dict(zip(names, map(int, value.split("/")), strict=True))}
    if name == "heads":
        batches, end, epoch = value.replace("/", ":").split(":")
        values = {"log_end_offset": int(end), "last_written_leader_epoch": int(epoch)}
        return {"source": "batch_heads", "last_batch_offsets": [int(b) for b in batches.split(",")], **values}
    if name == "rp":
        point, _, epoch = value.partition("/")
        values = {"recovery_point_offset": int(point), "broker_epoch": int(epoch) if epoch else None}
        return {"source": "recovery_point", **values}
    if name in ("isr", "under"):
        gauge = {"in_sync_replicas_count": int(value)} if name == "isr" else {"under_min_isr": value == "1"}
        return {"source": "jmx_exporter", **gauge}
    starts = {"start": "log_start_offset", "begin": "log_start_offset"}
    column = {"hw": "high_watermark", "leo": "log_end_offset", **starts}[name]
    source = {"hw": "replication_offset", "start": "log_start_offset"}.get(name, "jmx_exporter")
    return {"source": source, column: int(value)}


def offsets_table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=LOG_END_OFFSETS)


def sessions(*lines: str) -> BrokerTimeline:
    """The brokers' sessions. A broker's epoch is the offset of its last registration."""
    records: list[Row] = []
    epochs: dict[int, int] = {}
    for line in lines:
        offset, what, broker, *more = line.split()
        batch = next((w.removeprefix("batch=") for w in more if w.startswith("batch=")), offset)
        number = int(broker)
        if what == "register":
            epochs[number] = int(offset)
        epoch = epochs.get(number, -1)
        data: Row = {"brokerId": number, "brokerEpoch": epoch}
        kind = "BROKER_REGISTRATION_CHANGE_RECORD"
        if what == "register":
            kind = "REGISTER_BROKER_RECORD"
            data |= {"incarnationId": more[0], "fenced": True, "inControlledShutdown": False}
            named = [word for word in more[1:] if "=" not in word]
            data |= {"logDirs": named[0].split(",") if named else [f"d{broker}", "other"]} if named != ["-"] else {}
        elif what == "unregister":
            kind = "UNREGISTER_BROKER_RECORD"
        elif what == "offline":
            data |= {"fenced": 0, "inControlledShutdown": 0, "logDirs": [more[0]]}
        elif what == "shutdown":
            data |= {"fenced": 0, "inControlledShutdown": 1}
        else:
            data |= {"fenced": {"fence": 1, "unfence": -1}[what], "inControlledShutdown": 0}
        place = {"offset": int(offset), "batch_base_offset": int(batch), "timestamp_ms": ms(int(offset))}
        records.append({**place, "type": kind, "data": data})
    return broker_timeline(records)


def newer(timeline: BrokerTimeline) -> BrokerTimeline:
    """The same brokers, of 3.7 or later."""
    return BrokerTimeline({b: [replace(s, newest_level=15) for s in own] for b, own in timeline.states.items()})


def up(*brokers: int, at: int | None = None) -> tuple[str, ...]:
    """Lines of `sessions`: brokers register (broker 1 at offset 1, and so on), and then are unfenced. at: both then."""
    registered = (f"{b if at is None else at} register {b} i{b}" for b in brokers)
    unfenced = (f"{b + len(brokers) if at is None else at} unfence {b}" for b in brokers)
    return *registered, *unfenced


def running(*brokers: int) -> BrokerTimeline:
    """Brokers that registered and were unfenced before anything else happened."""
    return sessions(*up(*brokers, at=0))


def elr_levels(on: bool = True, *switches: tuple[int, bool]) -> FeatureLevels:
    """The ELR feature on or off from offset 0 on, and switched at further offsets."""
    return feature_levels([(at, ELR_VERSION, int(value)) for at, value in ((0, on), *switches)])


def facts_with(brokers: BrokerTimeline) -> ClusterFacts:
    """A cluster of which only the brokers matter, with the ELR feature on."""
    return ClusterFacts("c", brokers, elr_levels())
