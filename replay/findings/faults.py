"""Findings about the log and the evidence themselves: each fault has a fixed verdict and severity.

A fault is a fact about the evidence, or about what cannot be known. Nothing here judges a loss.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import INT64_MAX, Row
from replay.arrow.runs import Events
from replay.arrow.schemas import FINDINGS
from replay.cluster.branches import COMMITTED, Branch
from replay.cluster.log import LogBatches, Problem
from replay.controller.transitions import Bucket
from replay.findings.kinds import EVIDENCE_GAP, FAULTS, GAPS, finding_id
from replay.findings.statements import cited, statement
from replay.loss.verdict import RULE_VERSION


def fault(cluster: str, problem: Problem, place: str = "", evidence: Sequence[Row] = ()) -> Row:
    """The schemas.FINDINGS row of a problem. place: distinguishes problems of one kind and offset in the finding id."""
    verdict, severity = FAULTS[problem.kind]
    return {
        "finding_id": finding_id(cluster, problem.kind, problem.offset, place or problem.message),
        "kind": EVIDENCE_GAP if problem.kind in GAPS else problem.kind,
        "start_offset": problem.offset,
        "verdict": verdict,
        "severity": severity,
        "rule": problem.kind,
        "rule_version": RULE_VERSION,
        "evidence": list(evidence),
        "reason": [statement("fault", offset=problem.offset, text=problem.message)],
        "explanation": problem.message,
    }


def divergence(cluster: str, branch: Branch, batches: Sequence[Row] | LogBatches) -> Row:
    """The finding of controllers' logs that diverge: where, which side was committed, and the suffix that was not.

    batches: log_batches rows; the branch refers to them by index.
    """
    suffix = [batches[i] for i in branch.batches]
    first, last = suffix[0]["base_offset"], suffix[-1]["last_offset"]
    epochs = ", ".join(str(e) for e in sorted({b["epoch"] for b in suffix}))
    nodes = _nodes(branch.nodes)
    point = f"epoch {branch.epoch}, offset {branch.offset}" if branch.epoch >= 0 else f"offset {branch.offset}"
    other = batches[branch.replaced_by] if branch.replaced_by is not None else None
    is_committed = other is not None and other["commit_state"] == COMMITTED
    message = (
        f"Logs diverge at {point}: {nodes} wrote offsets {first} to {last} in epoch {epochs}; a later epoch replaced "
        f"them. They {'were never committed and ' if is_committed else ''}are not applied."
    )
    if other is not None:
        state = "committed" if is_committed else "not known to be committed"
        winners, place = _nodes(other["nodes"]), f"offset {other['base_offset']} in epoch {other['epoch']}"
        message += f" {winners[0].upper()}{winners[1:]} went on from {place}: {state}."
    rows = [_evidence("truncated_branch", b) for b in suffix] + ([_evidence("replaced_by", other)] if other else [])
    row = fault(cluster, Problem("controller_divergence", branch.offset, message), f"{branch.nodes} {epochs}", rows)
    return {**row, "end_offset": last + 1, "start_timestamp_ms": suffix[0]["base_timestamp_ms"]}


def conflict(cluster: str, message: str, batches: Sequence[Row]) -> Row:
    """The finding of different batches at the same offset and epoch."""
    evidence = [_evidence("conflicting", b) for b in batches]
    return fault(cluster, Problem("log_conflict", batches[0]["base_offset"], message), evidence=evidence)


def _nodes(nodes: Sequence[int]) -> str:
    named = ", ".join(map(str, nodes)) or "an unknown node"
    return f"node{'s' if len(nodes) > 1 else ''} {named}" if nodes else named


def _evidence(role: str, batch: Row) -> Row:
    return cited(role, "log_batches", batch, leader_epoch=batch["epoch"], offset=batch["base_offset"])


def file_faults(cluster: str, quarantine: Sequence[Row]) -> list[Row]:
    """Findings of quarantined byte ranges that contradict the rest of the evidence; each points at its bytes, in every
    file that has them: controllers' logs, and a copy of a file, may be equal."""
    rows: dict[str, Row] = {}
    for q in quarantine:
        evidence = cited("quarantined", "quarantine", q, offset=q["offset"])
        row = fault(cluster, Problem(q["reason"], q["offset"], q["message"]), f"{q['sha256']}@{q['position']}")
        rows.setdefault(row["finding_id"], row)["evidence"].append(evidence)
    return list(rows.values())


def rival_snapshots(snapshots: Sequence[tuple[int, int]]) -> list[Problem]:
    """Problems of snapshots with the same end offset and different epochs: they belong to different branches."""
    epochs: dict[int, set[int]] = {}
    for end, epoch in snapshots:
        epochs.setdefault(end, set()).add(epoch)
    return [
        Problem("two_snapshots", end, f"snapshots at offset {end} name the epochs {', '.join(map(str, sorted(found)))}")
        for end, found in sorted(epochs.items())
        if len(found) > 1
    ]


def described(cluster: str, printed: Row, states: Sequence[Row], topic: Mapping[str, Any]) -> Row:
    """The finding of a state that Kafka's own tool printed and that the replayed history never had in that time."""
    shown, partition = _state_text(printed), f"{printed['topic']}-{printed['partition']}"
    replayed = "; ".join(f"after offset {s['offset']}: {_state_text(s)}" for s in states)
    message = f"{printed['source']} printed {shown} for {partition}; replayed: {replayed}."
    evidence = [cited("printed", printed["source"], printed, captured_at_ms=printed["captured_at_ms"])]
    evidence += [cited("replayed", "partition_history", state, offset=state["offset"]) for state in states]
    problem = Problem("describe_mismatch", states[0]["offset"], message)
    row = fault(cluster, problem, f"{printed['sha256']}@{printed['position']}", evidence)
    return {**row, **topic, "partition": printed["partition"], "start_timestamp_ms": printed["captured_at_ms"]}


def _state_text(row: Row) -> str:
    fields = [f"leader {row['leader']}"]
    for name in ("replicas", "isr", "elr", "last_known_elr"):
        if row[name] is not None:
            fields.append(f"{name} [{','.join(map(str, row[name]))}]")
    return " ".join(fields)


def led_on_findings(bucket: Bucket, cluster_id: str) -> pa.Table:
    """schemas.FINDINGS: one for each registration of another process of a broker within a term that it leads, with the
    partitions of the bucket: what its log had lost is of no election, and so of no window.

    Without ELR a registration changes no partition in 3.9.1 (ReplicationControlManager.handleBrokerUncleanShutdown).
    From 4.0 on it ends the term (handleBrokerShutdown).
    """
    history, states, begun = bucket.history, bucket.states, bucket.facts.brokers.new_incarnations
    places = np.array([(s.broker_id, s.offset) for s in begun], dtype=np.int64).reshape(-1, 2)
    end = pc.fill_null(history["end_offset"], INT64_MAX).to_numpy()
    rows, which = Events(*places.T).between(states.leader, history["offset"].to_numpy(), end)
    # A leader that is elected in the batch of its registration (KAFKA-19522) had not led yet.
    new = states.begins | np.append(True, states.leader_epoch[1:] != states.leader_epoch[:-1])[: len(end)]
    batches = np.array([s.batch_base_offset for s in begun], dtype=np.int64)
    had_led = ~new[rows] | (history["batch_base_offset"].to_numpy()[rows] != batches[which])
    led = zip(which[had_led].tolist(), rows[had_led].tolist(), strict=True)
    found = []
    for number, own in groupby(sorted(led), itemgetter(0)):
        (_, first), *more = own
        state = history.slice(first, 1).to_pylist()[0]
        place = f"{state['topic'] or state['topic_id']}-{state['partition']}"
        message = (
            f"Broker {begun[number].broker_id} registered again at metadata offset {begun[number].offset} while it led "
            f"{place}{f' and {len(more)} more' if more else ''}: what its log had lost by then is of no election"
        )
        problem = Problem("leader_registered_again", begun[number].offset, message)
        found.append(fault(cluster_id, problem, f"{state['topic_id']} {place}"))
    return pa.Table.from_pylist(found, schema=FINDINGS)
