"""Lines of brokers' own logs that contradict the metadata log: a broker led or followed in a state that the replayed
history does not have.

A broker applies committed records only, so the history was altered, or is another cluster's. Only lines that print the
topic id count, and only states that are known.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.schemas import FINDINGS, PARTITION_KEY, PROVENANCE_NAMES
from replay.cluster.log import Problem
from replay.controller.transitions import Bucket
from replay.findings.faults import fault
from replay.offsets.broker_lines import LED, UNCHANGED

Row = dict[str, Any]

KIND = "log_line_mismatch"
MAX_FINDINGS = 1_000
_STATE = (*PARTITION_KEY, "partition_epoch", "topic", "leader", "leader_epoch", "offset", "removed", *PROVENANCE_NAMES)


def line_findings(bucket: Bucket, events: pa.Table | None, cluster_id: str) -> pa.Table:
    """schemas.FINDINGS of a bucket, at most MAX_FINDINGS. events: see `replay.bucket.detect`."""
    if events is None or not len(events):
        return FINDINGS.empty_table()
    lines = events.filter(pc.is_in(events["kind"], pa.array((LED, UNCHANGED))))
    lines = lines.filter(pc.and_(pc.is_valid(lines["node_id"]), pc.is_valid(lines["partition_epoch"])))
    by_place = {
        (row["topic_id"], row["partition"], row["partition_epoch"]): row
        for row in bucket.history.select(_STATE).filter(_named(bucket.history, lines)).to_pylist()
        if not row["removed"]
    }
    found = []
    for line in lines.to_pylist():
        state = by_place.get((line["topic_id"], line["partition"], line["partition_epoch"]))
        same = state is None or (state["leader"], state["leader_epoch"]) == (line["node_id"], line["leader_epoch"])
        if state is not None and not same and line["topic_id"] in (line["message"] or ""):
            found.append(_finding(line, state, cluster_id))
    return pa.Table.from_pylist(found[:MAX_FINDINGS], schema=FINDINGS)


def _named(history: pa.Table, lines: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(history["topic_id"], lines["topic_id"].unique())


def _finding(line: Row, state: Row, cluster_id: str) -> Row:
    message = (
        f"Broker {line['node_id']} logged that it leads {state['topic']}-{state['partition']} in leader epoch "
        f"{line['leader_epoch']} with partition epoch {line['partition_epoch']}; the metadata log has leader "
        f"{state['leader']} and leader epoch {state['leader_epoch']} in that state."
    )
    place = {n: line[n] for n in PROVENANCE_NAMES}
    evidence = [
        {"role": "logged", "source": line["kind"], "captured_at_ms": line["logged_at_utc_ms"], **place},
        {
            "role": "replayed",
            "source": "partition_history",
            "offset": state["offset"],
            **{n: state[n] for n in PROVENANCE_NAMES},
        },
    ]
    row = fault(cluster_id, Problem(KIND, state["offset"], message), f"{line['sha256']}@{line['position']}", evidence)
    return {**row, **{n: state[n] for n in ("topic_id", "topic", "partition")}}
