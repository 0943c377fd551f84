"""Windows, verdicts and counterfactuals of one bucket of partitions: history + log-end offsets -> tables.

The search for suspects is vectorised; only partitions that are suspected are then judged one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay import explain, policies, tables
from replay.cases import Case, Cluster, Facts, facts_of, partition_cases
from replay.elections import States, build_elections, states_of
from replay.lists import Array
from replay.offsets import PROPAGATION_MS, Clock, Evidence, Replica, Row, index_rows, last_seen
from replay.verdicts import EXCLUDED, RULE, RULE_VERSION, SEVERITY, Judgement, judge
from replay.windows import build_windows

__all__ = ["Cluster", "Detected", "detect", "finding_id"]

KIND = "hwm_regression"
_PLACE = ["topic_id", "partition"]


@dataclass(frozen=True, slots=True)
class Detected:
    """tables.ELECTIONS, tables.FINDINGS and tables.COUNTERFACTUALS of a bucket; and what was judged: its history, in
    the order of tables.sorted_history, and that as arrays."""

    history: pa.Table
    states: States
    elections: pa.Table
    findings: pa.Table
    counterfactuals: pa.Table


@dataclass(frozen=True, slots=True)
class _Seen:
    """A case with the recorded states around it (rows of the history) and its judgement."""

    case: Case
    start: Row
    before: Row
    after: Row
    end: Row | None
    judgement: Judgement
    situation: policies.Situation
    clock: Clock
    finding_id: str


@dataclass(frozen=True, slots=True)
class Loss:
    """A judged window. row: of the history, its election; start, place: base offsets of the batches that opened it and
    that elected. by_leader: broker -> (least, most) offsets lost by electing it, most None without a bound."""

    row: int
    start: int
    place: int
    recorded_leader: int
    by_leader: Mapping[int, tuple[int, int | None]]


def finding_id(*parts: object) -> str:
    """A stable id: the same cluster, kind, partition and place give the same id whenever it is computed."""
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]


def detect(history: pa.Table, offsets: pa.Table, cluster: Cluster) -> Detected:
    """Judge every window.

    history: tables.PARTITION_HISTORY rows of whole partitions; offsets: LOG_END_OFFSETS rows with their topic_id filled
    in.
    """
    history = tables.sorted_history(history)
    states = states_of(history)
    findings: list[Row] = []
    counterfactuals: list[Row] = []
    judged = list(_judged(history, states, offsets, cluster))
    for seen, picks in zip(judged, _counterfactuals(judged), strict=True):
        findings.append(_finding(seen, picks))
        counterfactuals += picks
    return Detected(
        history,
        states,
        build_elections(history, states, cluster.brokers),
        pa.Table.from_pylist(findings, schema=tables.FINDINGS),
        pa.Table.from_pylist(counterfactuals, schema=tables.COUNTERFACTUALS),
    )


def losses(history: pa.Table, offsets: pa.Table, cluster: Cluster) -> list[Loss]:
    """What electing any other replica would have lost, for every judged window. Arguments as of `detect`."""
    history = tables.sorted_history(history)
    return [_losses(seen) for seen in _judged(history, states_of(history), offsets, cluster)]


def _losses(seen: _Seen) -> Loss:
    judgement, situation = seen.judgement, seen.situation
    recorded = (judgement.loss_min, judgement.loss_max)
    by_leader: dict[int, tuple[int, int | None]] = {
        broker: _loss(seen, situation.seen[broker]) if broker in situation.seen else (0, None)
        for broker in situation.replicas
    }
    start, place = seen.start["batch_base_offset"], seen.after["batch_base_offset"]
    return Loss(seen.case.row, start, place, situation.recorded, {**by_leader, situation.recorded: recorded})


def _judged(history: pa.Table, states: States, offsets: pa.Table, cluster: Cluster) -> Iterator[_Seen]:
    """Every window, judged."""
    facts = facts_of(history, states, cluster)
    suspicious = _contradicted(history, states, facts, offsets, cluster)
    windows = build_windows(states, suspicious)
    cases = _cases(history, states, facts, offsets, windows.election, cluster)
    around = _states_around(history, [windows.start, windows.election - 1, windows.election, windows.end])
    for start, election, end in zip(
        windows.start.tolist(), windows.election.tolist(), windows.end.tolist(), strict=True
    ):
        rows = (around[start], around[election - 1], around[election], around[end] if end >= 0 else None)
        yield _see(cases[election], rows, cluster)


def _contradicted(history: pa.Table, states: States, facts: Facts, offsets: pa.Table, cluster: Cluster) -> Array:
    """Elections whose leader's log ended below a high watermark read before them: worth judging, nothing more."""
    result = np.zeros(len(states.key), dtype=bool)
    rows = np.flatnonzero(facts.changes & (states.leader >= 0))
    lines = offsets.filter(offsets["epoch_start_offset"].is_valid())
    marks = offsets.filter(pc.and_(offsets["high_watermark"].is_valid(), offsets["captured_at_ms"].is_valid()))
    if not len(rows) or not len(lines) or not len(marks):
        return result
    first = lines.group_by([*_PLACE, "leader_epoch"]).aggregate([("epoch_start_offset", "min")])
    elected = history.select([*_PLACE, "leader_epoch"]).take(pa.array(rows)).append_column("row", pa.array(rows))
    joined = elected.join(first, [*_PLACE, "leader_epoch"], join_type="inner")
    rows, starts = joined["row"].to_numpy(), joined["epoch_start_offset_min"].to_numpy()
    # The highest mark read so far, by partition and time, looked up at every election.
    keys = _keys(marks, history, states)
    read_ms = marks["captured_at_ms"].to_numpy() + pc.fill_null(marks["uncertainty_ms"], 0).to_numpy()
    values = marks["high_watermark"].to_numpy()
    at = np.concatenate([read_ms + cluster.clock.error_ms, facts.timestamp_ms[rows]])
    where = np.concatenate([keys, states.key[rows]])
    # An election is below a mark only if the mark was read before it: at the same time elections sort first.
    order = np.lexsort((np.arange(len(at)) < len(values), at, where))
    mark = np.concatenate([values, np.full(len(rows), -1)])[order]
    _, part = np.unique(where[order], return_inverse=True)
    step = int(mark.max()) + 2
    highest = np.maximum.accumulate(mark + part * step) - part * step
    found = np.empty(len(order), dtype=np.int64)
    found[order] = highest
    result[rows[starts < found[len(values) :]]] = True
    return result


def _keys(rows: pa.Table, history: pa.Table, states: States) -> Array:
    """The key that `states` gives the partition of each row; -1 if the history does not have it."""
    begin = np.flatnonzero(np.append(True, states.key[1:] != states.key[:-1]))
    known = history.select(_PLACE).take(pa.array(begin)).append_column("key", pa.array(states.key[begin]))
    numbered = rows.select(_PLACE).append_column("row", pa.array(np.arange(len(rows))))
    joined = numbered.join(known, _PLACE, join_type="inner")
    keys = np.full(len(rows), -1, dtype=np.int64)
    keys[joined["row"].to_numpy()] = joined["key"].to_numpy()
    return keys


def evidence_of(history: pa.Table, states: States, offsets: pa.Table, wanted: Array) -> dict[int, Evidence]:
    """What was seen of the logs of some partitions (by the key that `states` gives them)."""
    keys = _keys(offsets, history, states)
    chosen = np.isin(keys, wanted)
    rows: dict[int, list[Row]] = {key: [] for key in wanted.tolist()}
    for key, row in zip(keys[chosen].tolist(), offsets.filter(pa.array(chosen)).to_pylist(), strict=True):
        rows[key].append(row)
    return {key: index_rows(seen) for key, seen in rows.items()}


def _cases(
    history: pa.Table, states: States, facts: Facts, offsets: pa.Table, rows: Array, cluster: Cluster
) -> dict[int, Case]:
    """The cases by row of the election. Only evidence of the judged partitions is looked at."""
    if not len(rows):
        return {}
    judged = np.unique(states.key[rows])
    evidence = evidence_of(history, states, offsets, judged)
    firsts = np.searchsorted(states.key, judged, "left").tolist()
    behinds = np.searchsorted(states.key, judged, "right").tolist()
    groups = np.split(rows, np.searchsorted(states.key[rows], judged[1:]))
    result = {}
    for key, first, behind, group in zip(judged.tolist(), firsts, behinds, groups, strict=True):
        for case in partition_cases(facts, states, (first, behind), group.tolist(), evidence[key], cluster):
            result[case.row] = case
    return result


def _states_around(history: pa.Table, rows: list[Array]) -> dict[int, Row]:
    wanted = np.unique(np.concatenate(rows))
    wanted = wanted[wanted >= 0]
    return dict(zip(wanted.tolist(), history.take(pa.array(wanted)).to_pylist(), strict=True))


def _see(case: Case, rows: tuple[Row, Row, Row, Row | None], cluster: Cluster) -> _Seen:
    start, before, after, end = rows
    known, batch = before["last_known_elr"], after["batch_base_offset"]
    replicas = (last_seen(case.evidence, b, after["timestamp_ms"], cluster.clock) for b in after["replicas"])
    situation = policies.Situation(
        replicas=after["replicas"],
        isr=before["isr"],
        elr=before["elr"],
        alive=[b for b in after["replicas"] if cluster.brokers.active(b, batch)],
        waited_for=known[0] if len(known) == 1 else case.previous_leader if case.previous_leader >= 0 else None,
        seen={r.broker_id: r for r in replicas if r},
        recorded=after["leader"],
    )
    return _Seen(
        case=case,
        start=start,
        before=before,
        after=after,
        end=end,
        judgement=judge(case.election, case.evidence, case.floor, case.log_end_min, cluster.clock),
        situation=situation,
        clock=cluster.clock,
        finding_id=finding_id(cluster.cluster_id, KIND, after["topic_id"], after["partition"], after["offset"]),
    )


def _counterfactuals(judged: Sequence[_Seen]) -> list[list[Row]]:
    """What each policy would have picked, for every window; nothing for an excluded one."""
    asked = [seen for seen in judged if seen.judgement.verdict != EXCLUDED]
    situations = [seen.situation for seen in asked]
    by_policy = [policies.picks(name, situations) for name in policies.POLICIES] if asked else []
    rows: dict[str, list[Row]] = {seen.finding_id: [] for seen in judged}
    for picks in by_policy:
        for seen, pick in zip(asked, picks, strict=True):
            rows[seen.finding_id].append(_counterfactual(seen, pick))
    return [rows[seen.finding_id] for seen in judged]


def _counterfactual(seen: _Seen, pick: policies.Pick) -> Row:
    replica = seen.situation.seen.get(pick.leader) if pick.leader is not None else None
    loss_min: int | None = None
    loss_max: int | None = None
    if pick.leader == seen.situation.recorded:
        loss_min, loss_max = seen.judgement.loss_min, seen.judgement.loss_max
    elif replica:
        loss_min, loss_max = _loss(seen, replica)
    return {
        "finding_id": seen.finding_id,
        **{n: seen.after[n] for n in ("topic_id", "topic", "partition", "offset")},
        "policy": pick.policy,
        "outcome": pick.outcome,
        "leader": pick.leader,
        "last_written_leader_epoch": replica.last_written_leader_epoch if replica else None,
        "log_end_offset": replica.log_end_offset if replica else None,
        "loss_min": loss_min,
        "loss_max": loss_max,
        "differs": None if pick.leader is None else pick.leader != seen.situation.recorded,
        "explanation": pick.explanation,
    }


def _loss(seen: _Seen, replica: Replica) -> tuple[int, int | None]:
    """What electing the replica would have lost.

    Its log may have grown after it was last seen, unless nobody led any more and it was not the last leader, which may
    not know that. And it may have parted from the partition's log, unless it had records of the last leader's epoch.
    """
    floor, ceiling, case = seen.judgement.floor.value, seen.judgement.ceiling.value, seen.case
    since = case.leaderless_ms if replica.broker_id != case.previous_leader else None
    still = since is not None and seen.clock.surely_after(replica.row, since + PROPAGATION_MS)
    loss_min = max(0, floor - replica.log_end_offset) if floor is not None and still else 0
    same = replica.last_written_leader_epoch == case.last_epoch
    return loss_min, max(0, ceiling - replica.log_end_offset) if ceiling is not None and same else None


def _finding(seen: _Seen, picks: list[Row]) -> Row:
    differing = next((p for p in picks if p["policy"] == policies.ALL_REPLICAS and p["differs"]), None)
    judgement, after, end = seen.judgement, seen.after, seen.end
    finding: dict[str, Any] = {
        "finding_id": seen.finding_id,
        "kind": KIND,
        **{n: after[n] for n in ("topic_id", "topic", "partition")},
        "start_offset": seen.start["offset"],
        "end_offset": end["offset"] if end else None,
        "start_timestamp_ms": seen.start["timestamp_ms"],
        "end_timestamp_ms": end["timestamp_ms"] if end else None,
        "election_offset": after["offset"],
        "verdict": judgement.verdict,
        "severity": SEVERITY[judgement.verdict],
        "loss_min": judgement.loss_min,
        "loss_max": judgement.loss_max,
        "first_lost_offset": judgement.first_lost_offset,
        # The old leader's log end when it stopped would bound this; no source tells when that was.
        "unacked_max": None,
        "recorded_leader": after["leader"],
        "would_be_leader": differing["leader"] if differing else None,
        "policy": differing["policy"] if differing else None,
        "rule": RULE,
        "rule_version": RULE_VERSION,
        "evidence": explain.evidence_rows(seen.before, after, seen.start, judgement, seen.situation.seen),
    }
    finding["explanation"] = explain.prose(finding, seen.case.election, judgement, seen.before, after)
    return finding
