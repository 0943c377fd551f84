"""Every window of a bucket, judged: elections that exposed partitions, with the evidence about them and the verdict.

The search for suspects is vectorised; only partitions that are suspected are then judged one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.cases import Case, Cluster, Facts, facts_of, partition_cases
from replay.elections import States
from replay.lists import Array
from replay.offsets import PROPAGATION_MS, Clock, Evidence, Replica, Row, index_rows, last_told
from replay.policies import Situation
from replay.verdicts import Judgement, judge
from replay.windows import build_windows

_PLACE = ["topic_id", "partition"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A case with the recorded states around it and its judgement. start_row: of the history, where the window opened;
    start, before, after, end: states (rows of the history) there, before and after the election, and where the
    partition was safe again (None: never). steady: replicas whose broker ran without a break since they were last seen:
    their logs can only have grown."""

    case: Case
    start_row: int
    start: Row
    before: Row
    after: Row
    end: Row | None
    judgement: Judgement
    situation: Situation
    steady: frozenset[int]
    clock: Clock


def judged_windows(history: pa.Table, states: States, offsets: pa.Table, cluster: Cluster) -> Iterator[Seen]:
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
        yield _see(cases[election], start, rows, cluster)


def loss_of(seen: Seen, replica: Replica) -> tuple[int, int | None]:
    """What electing the replica would have lost.

    Its log may have grown after it was last seen, unless nobody led any more and it was not the last leader, which may
    not know that. It may have parted from the partition's log, unless it had records of the last leader's epoch. And it
    may have lost its tail, if its broker stopped since.
    """
    floor, ceiling, case = seen.judgement.floor.value, seen.judgement.ceiling.value, seen.case
    since = case.leaderless_ms if replica.broker_id != case.previous_leader else None
    still = since is not None and seen.clock.surely_after(replica.row, since + PROPAGATION_MS)
    loss_min = max(0, floor - replica.log_end_offset) if floor is not None and still else 0
    same = replica.last_written_leader_epoch == case.last_epoch and replica.broker_id in seen.steady
    return loss_min, max(0, ceiling - replica.log_end_offset) if ceiling is not None and same else None


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
    keys = keys_of(marks, history, states)
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


def keys_of(rows: pa.Table, history: pa.Table, states: States) -> Array:
    """The key that `states` gives the partition of each row; -1 if the history does not have it."""
    begin = np.flatnonzero(np.append(True, states.key[1:] != states.key[:-1])[: len(states.key)])
    known = history.select(_PLACE).take(pa.array(begin)).append_column("key", pa.array(states.key[begin]))
    numbered = rows.select(_PLACE).append_column("row", pa.array(np.arange(len(rows))))
    joined = numbered.join(known, _PLACE, join_type="inner")
    keys = np.full(len(rows), -1, dtype=np.int64)
    keys[joined["row"].to_numpy()] = joined["key"].to_numpy()
    return keys


def evidence_of(history: pa.Table, states: States, offsets: pa.Table, wanted: Array) -> dict[int, Evidence]:
    """What was seen of the logs of some partitions (by the key that `states` gives them)."""
    keys = keys_of(offsets, history, states)
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


def _see(case: Case, start_row: int, rows: tuple[Row, Row, Row, Row | None], cluster: Cluster) -> Seen:
    start, before, after, end = rows
    known, batch = before["last_known_elr"], after["batch_base_offset"]
    moment, error_ms = after["timestamp_ms"], cluster.clock.error_ms
    sights = (last_told(case.evidence, b, moment, cluster.clock) for b in after["replicas"])
    replicas = [sight for sight in sights if sight]
    since = {r.broker_id: r.row["captured_at_ms"] - error_ms for r in replicas}
    situation = Situation(
        replicas=after["replicas"],
        isr=before["isr"],
        elr=before["elr"],
        alive=[b for b in after["replicas"] if cluster.brokers.active(b, batch)],
        waited_for=known[0] if len(known) == 1 else case.previous_leader if case.previous_leader >= 0 else None,
        seen={r.broker_id: r for r in replicas},
        recorded=after["leader"],
    )
    return Seen(
        case=case,
        start_row=start_row,
        start=start,
        before=before,
        after=after,
        end=end,
        judgement=judge(case.election, case.evidence, case.floor, case.log_end_min, cluster.clock),
        situation=situation,
        steady=frozenset(b for b, at_ms in since.items() if cluster.brokers.steady(b, at_ms, moment)),
        clock=cluster.clock,
    )
