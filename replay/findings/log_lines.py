"""Lines of nodes' own logs that contradict the metadata log: a state with another leader, leader epoch or ISR than the
replayed history has at that partition epoch.

Brokers apply committed records only, and so do standby controllers. So the history was altered, or is another
cluster's. The active controller logs a change before it is committed: its line alone shows nothing. Two controllers
with the same line count, since one of them was not active. Only lines that print the topic id are used, and only states
from before the last committed batch: later ones may be of a controller that was cut off.

Sources: Kafka's Partition.makeLeader and makeFollower (state-change.log), PartitionRegistration.maybeLogPartitionChange
and QuorumController.handleCommit (controller.log).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Row
from replay.arrow.schemas import FINDINGS, PARTITION_KEY, PROVENANCE_NAMES
from replay.cluster.log import Problem
from replay.controller.transitions import Bucket
from replay.findings.faults import fault
from replay.findings.statements import cited
from replay.offsets.broker_lines import LED, UNCHANGED

KIND = "log_line_mismatch"
MAX_FINDINGS = 1_000
FOLLOWS, UNCLEAN = "follower_unchanged", "unclean_election"
# What a line of the kind prints of the state; a leader's `leader` is the node itself.
_PRINTED = {
    LED: ("leader", "leader_epoch", "isr"),
    UNCHANGED: ("leader", "leader_epoch", "isr"),
    FOLLOWS: ("leader_epoch",),
    UNCLEAN: ("leader", "leader_epoch", "isr"),
}
COMPARED = tuple(_PRINTED)
_STATE = (
    *(*PARTITION_KEY, "partition_epoch", "topic", "leader", "leader_epoch", "isr", "offset", "timestamp_ms", "removed"),
    *PROVENANCE_NAMES,
)


def line_findings(bucket: Bucket, events: pa.Table | None, cluster_id: str) -> pa.Table:
    """schemas.FINDINGS of a bucket, at most MAX_FINDINGS. events: see `replay.bucket.detect`."""
    if events is None or not len(events):
        return FINDINGS.empty_table()
    lines = events.filter(pc.is_in(events["kind"], pa.array(list(_PRINTED))))
    lines = lines.filter(pc.and_(pc.is_valid(lines["node_id"]), pc.is_valid(lines["partition_epoch"])))
    about = pc.is_in(bucket.history["topic_id"], lines["topic_id"].unique())
    until_ms = bucket.facts.log_end_ms or 0
    by_place = {
        (row["topic_id"], row["partition"], row["partition_epoch"]): row
        for row in bucket.history.select(_STATE).filter(about).to_pylist()
        if not row["removed"] and row["timestamp_ms"] < until_ms
    }
    found = []
    of_controllers: dict[Any, list[Row]] = defaultdict(list)
    for line in lines.to_pylist():
        state = by_place.get((line["topic_id"], line["partition"], line["partition_epoch"]))
        if state is None or line["topic_id"] not in (line["message"] or "") or not _differ(line, state):
            continue
        if line["kind"] == UNCLEAN:
            of_controllers[state["offset"], line["topic_id"], line["partition"], _words(line, line)].append(line)
        else:
            found.append(_finding([line], state, cluster_id))
    found += _of_two_nodes(of_controllers.values(), by_place, cluster_id)
    return pa.Table.from_pylist(found[:MAX_FINDINGS], schema=FINDINGS)


def _of_two_nodes(groups: Iterable[list[Row]], by_place: dict[Any, Row], cluster_id: str) -> Iterator[Row]:
    for lines in groups:
        first = {line["node_id"]: line for line in reversed(lines)}
        if len(first) > 1:
            place = lines[0]["topic_id"], lines[0]["partition"], lines[0]["partition_epoch"]
            yield _finding([first[node] for node in sorted(first)], by_place[place], cluster_id)


def _values(line: Row, row: Row) -> Row:
    """What the line prints, of the line itself or of a state."""
    values = {name: row[name] for name in _PRINTED[line["kind"]]}
    if row is line and line["kind"] in (LED, UNCHANGED):
        values["leader"] = line["node_id"]
    return {name: sorted(value) if name == "isr" and value is not None else value for name, value in values.items()}


def _differ(line: Row, state: Row) -> bool:
    printed, recorded = _values(line, line), _values(line, state)
    return any(printed[n] != recorded[n] for n in printed if None not in (printed[n], recorded[n]))


def _words(line: Row, row: Row) -> str:
    names = {"leader": "leader", "leader_epoch": "leader epoch", "isr": "ISR"}
    return ", ".join(f"{names[n]} {value}" for n, value in _values(line, row).items() if value is not None)


def _finding(lines: list[Row], state: Row, cluster_id: str) -> Row:
    line = lines[0]
    nodes = " and ".join(str(each["node_id"]) for each in lines)
    who = "Broker" if line["kind"] != UNCLEAN else "Controllers"
    message = (
        f"{who} {nodes} logged that {state['topic']}-{state['partition']} has {_words(line, line)} in the state with "
        f"partition epoch {line['partition_epoch']}; the metadata log has {_words(line, state)} in that state."
    )
    evidence = both_sides(lines, "partition_history", state)
    row = fault(cluster_id, Problem(KIND, state["offset"], message), f"{line['sha256']}@{line['position']}", evidence)
    return {**row, **{n: state[n] for n in ("topic_id", "topic", "partition")}}


def both_sides(lines: Iterable[Row], table: str, row: Row) -> list[Row]:
    """The evidence of a contradiction: the lines, and the row of a replayed table that they differ from."""
    logged = (cited("logged", line["kind"], line, captured_at_ms=line["logged_at_utc_ms"]) for line in lines)
    return [*logged, cited("replayed", table, row, offset=row["offset"])]
