"""Every window of a bucket, judged: elections that exposed partitions, with the evidence about them and the verdict.

The search for suspects is vectorised; only partitions that are suspected are then judged one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array
from replay.arrow.schemas import PARTITION_KEY
from replay.cluster.facts import Clock, ClusterFacts, read_by
from replay.controller.transitions import Bucket
from replay.loss.contradictions import NO_CONTRADICTIONS, Contradictions
from replay.loss.election_facts import Case, partition_cases
from replay.loss.facts import StateFacts, facts_of
from replay.loss.liveness import sessions_of
from replay.loss.verdict import Judgement, judge
from replay.offsets.evidence import PROPAGATION_MS, Replica, Row, last_seen_with_epoch
from replay.offsets.partition_rows import evidence_of, keys_of
from replay.partitions.elections import States
from replay.partitions.windows import build_windows


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """A case with the recorded states around it and its judgement. start_row: of the history, where the window opened;
    start, before, after, end: states (rows of the history) there, before and after the election, and where the
    partition was safe again (None: never). steady: replicas whose broker ran, as one process, since they were last
    seen, and followed no leader that may have restarted: their logs can only have grown. still: replicas last seen when
    their brokers surely knew that nobody led any more: their logs did not grow since. assumed_timeout_ms: the session
    timeout where no file says it, else None."""

    case: Case
    start_row: int
    start: Row
    before: Row
    after: Row
    end: Row | None
    judgement: Judgement
    situation: Situation
    steady: frozenset[int]
    still: frozenset[int]
    clock: Clock
    assumed_timeout_ms: int | None


def judged_windows(
    bucket: Bucket, offsets: pa.Table, against: Contradictions = NO_CONTRADICTIONS
) -> Iterator[JudgedWindow]:
    """Every window, judged. offsets: LOG_END_OFFSETS rows with their topic_id filled in."""
    history, states, cluster = bucket.history, bucket.states, bucket.facts
    facts = facts_of(history, states, cluster)
    suspicious = _contradicted(history, states, facts, offsets, cluster)
    windows = build_windows(states, suspicious)
    cases = _cases(history, states, facts, offsets, windows.election, cluster, against)
    around = _states_around(history, [windows.start, windows.election - 1, windows.election, windows.end])
    rows = zip(*(a.tolist() for a in (windows.start, windows.election, windows.end, windows.exposed)), strict=True)
    for start, election, end, exposed in rows:
        states_there = (around[start], around[election - 1], around[election], around[end] if end >= 0 else None)
        seen = _see(cases[election], start, states_there, cluster)
        # What spoke against it may be a report of a log that was lost long before.
        if exposed or seen.judgement.speaks_against:
            yield seen


def loss_of(seen: JudgedWindow, replica: Replica) -> tuple[int, int | None]:
    """What electing the replica would have lost.

    Its log may have grown after it was last seen, unless nobody led any more and it was not the last leader, which may
    not know that. It may have parted from the partition's log, unless it had records of the last leader's epoch. And it
    may have lost its tail, if its broker stopped since.
    """
    floor, ceiling, case = seen.judgement.floor.value, seen.judgement.ceiling.value, seen.case
    still = replica.broker_id in seen.still and replica.broker_id != case.previous_leader
    loss_min = max(0, floor - replica.log_end_offset) if floor is not None and still else 0
    same = replica.last_written_leader_epoch == case.last_epoch and replica.broker_id in seen.steady
    return loss_min, max(0, ceiling - replica.log_end_offset) if ceiling is not None and same else None


def _contradicted(
    history: pa.Table, states: States, facts: StateFacts, offsets: pa.Table, cluster: ClusterFacts
) -> Array:
    """Elections whose leader's log ended below a high watermark read before them: worth judging, nothing more."""
    result = np.zeros(len(states.key), dtype=bool)
    rows = np.flatnonzero(facts.changes & (states.leader >= 0))
    lines = offsets.filter(offsets["epoch_start_offset"].is_valid())
    marks = offsets.filter(pc.and_(offsets["high_watermark"].is_valid(), offsets["captured_at_ms"].is_valid()))
    if not len(rows) or not len(lines) or not len(marks):
        return result
    first = lines.group_by([*PARTITION_KEY, "leader_epoch"]).aggregate([("epoch_start_offset", "min")])
    elected = history.select([*PARTITION_KEY, "leader_epoch"]).take(pa.array(rows)).append_column("row", pa.array(rows))
    joined = elected.join(first, [*PARTITION_KEY, "leader_epoch"], join_type="inner")
    rows, starts = joined["row"].to_numpy(), joined["epoch_start_offset_min"].to_numpy()
    # The highest mark read so far, by partition and time, looked up at every election.
    keys = keys_of(marks, history, states)
    read_ms = marks["captured_at_ms"].to_numpy() + pc.fill_null(marks["uncertainty_ms"], 0).to_numpy()
    # Ranks in place of values: a partition's number and any 64-bit value fit one sortable number.
    ranks = np.unique(np.concatenate([marks["high_watermark"].to_numpy(), starts]), return_inverse=True)[1] + 1
    values, starts = ranks[: len(marks)], ranks[len(marks) :]
    at = np.concatenate([read_ms + cluster.clock.error_ms, facts.timestamp_ms[rows]])
    where = np.concatenate([keys, states.key[rows]])
    # An election is below a mark only if the mark was read before it: at the same time elections sort first.
    order = np.lexsort((np.arange(len(at)) < len(values), at, where))
    mark = np.concatenate([values, np.zeros(len(rows), dtype=np.int64)])[order]
    _, part = np.unique(where[order], return_inverse=True)
    step = len(ranks) + 2
    highest = np.maximum.accumulate(mark + part * step) - part * step
    found = np.empty(len(order), dtype=np.int64)
    found[order] = highest
    result[rows[starts < found[len(values) :]]] = True
    return result


def _cases(
    history: pa.Table,
    states: States,
    facts: StateFacts,
    offsets: pa.Table,
    rows: Array,
    cluster: ClusterFacts,
    against: Contradictions,
) -> dict[int, Case]:
    """The cases by row of the election. Only evidence of the judged partitions is looked at."""
    if not len(rows):
        return {}
    judged = np.unique(states.key[rows])
    evidence = evidence_of(history, states, offsets, judged)
    firsts = np.searchsorted(states.key, judged, "left").tolist()
    behinds = np.searchsorted(states.key, judged, "right").tolist()
    groups = np.split(rows, np.searchsorted(states.key[rows], judged[1:]))
    timestamp_ms = history["timestamp_ms"].to_numpy()
    around = cluster, sessions_of(cluster, timestamp_ms), cluster.end_ms(timestamp_ms)
    result = {}
    for key, first, behind, group in zip(judged.tolist(), firsts, behinds, groups, strict=True):
        directories = history["directories"].slice(first, behind - first).to_pylist()
        span = first, behind
        for case in partition_cases(facts, states, span, group.tolist(), evidence[key], against, around, directories):
            result[case.row] = case
    return result


def _states_around(history: pa.Table, rows: list[Array]) -> dict[int, Row]:
    wanted = np.unique(np.concatenate(rows))
    wanted = wanted[wanted >= 0]
    return dict(zip(wanted.tolist(), history.take(pa.array(wanted)).to_pylist(), strict=True))


def _see(case: Case, start_row: int, rows: tuple[Row, Row, Row, Row | None], cluster: ClusterFacts) -> JudgedWindow:
    start, before, after, end = rows
    known, batch = before["last_known_elr"], after["batch_base_offset"]
    moment, error_ms = after["timestamp_ms"], cluster.clock.error_ms
    sights = (last_seen_with_epoch(case.evidence, b, moment, cluster.clock) for b in after["replicas"])
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
    return JudgedWindow(
        case=case,
        start_row=start_row,
        start=start,
        before=before,
        after=after,
        end=end,
        judgement=judge(case.election, case.evidence, case.floor, case.log_end_min, cluster.clock),
        situation=situation,
        steady=frozenset(b for b, at_ms in since.items() if b in case.undisturbed and _steady(case, b, at_ms, cluster)),
        still=frozenset(r.broker_id for r in replicas if _still(case, r, cluster)),
        clock=cluster.clock,
        assumed_timeout_ms=cluster.session_timeout_ms if cluster.session_timeout_source != "static" else None,
    )


def _steady(case: Case, broker: int, since_ms: int, cluster: ClusterFacts) -> bool:
    """Whether the broker was active, as one process, from a time to the election."""
    elected_ms = case.election.elected_ms
    session = case.sessions.get(broker)
    return (
        session is not None and session.ran_until(elected_ms) and cluster.brokers.steady(broker, since_ms, elected_ms)
    )


def _still(case: Case, replica: Replica, cluster: ClusterFacts) -> bool:
    """Whether the replica was last seen when its broker surely knew that nobody led. One that is fenced may go on to
    follow a leader that is cut off, too."""
    since, error = case.leaderless_ms, cluster.clock.error_ms
    session = case.sessions.get(replica.broker_id)
    if since is not None and session is not None and session.registered and session.begin_ms > since + error:
        # It came when nobody led, and has followed nobody since.
        return cluster.clock.surely_after(replica.row, session.begin_ms)
    if since is None or not cluster.clock.surely_after(replica.row, since + cluster.heard_ms + PROPAGATION_MS):
        return False
    return cluster.brokers.steady(replica.broker_id, since - error, read_by(replica.row) + error)


@dataclass(frozen=True, slots=True)
class Situation:
    """A partition right before an election. seen: last sight of each replica, where there is one.

    waited_for: whom Balanced waits for: the last known leader, else the last leader; None when neither is known.
    """

    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int]
    alive: Sequence[int]
    waited_for: int | None
    seen: dict[int, Replica]
    recorded: int


@dataclass(frozen=True, slots=True)
class Loss:
    """A judged window. row: of the history, its election; start, place: base offsets of the batches that opened it and
    that elected. by_leader: broker -> (least, most) offsets lost by electing it, most None without a bound."""

    row: int
    start: int
    place: int
    recorded_leader: int
    by_leader: Mapping[int, tuple[int, int | None]]


def losses(bucket: Bucket, offsets: pa.Table) -> list[Loss]:
    """What electing any other replica would have lost, for every judged window. offsets: as of `judged_windows`."""
    return [_losses(seen) for seen in judged_windows(bucket, offsets)]


def _losses(seen: JudgedWindow) -> Loss:
    judgement, situation = seen.judgement, seen.situation
    recorded = (judgement.loss_min, judgement.loss_max)
    by_leader: dict[int, tuple[int, int | None]] = {
        broker: loss_of(seen, situation.seen[broker]) if broker in situation.seen else (0, None)
        for broker in situation.replicas
    }
    start, place = seen.start["batch_base_offset"], seen.after["batch_base_offset"]
    return Loss(seen.case.row, start, place, situation.recorded, {**by_leader, situation.recorded: recorded})
