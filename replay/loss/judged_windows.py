"""The judged windows of a bucket: elections that exposed partitions, with the evidence about them and the verdict.

The search for suspected elections is vectorised; only the suspected partitions are then judged one by one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array
from replay.arrow.runs import highest_before
from replay.arrow.schemas import PARTITION_KEY
from replay.cluster.facts import Clock, ClusterFacts, read_by
from replay.controller.transitions import Bucket
from replay.loss.election_facts import ElectionFacts, partition_elections
from replay.loss.likely import Likely, likely
from replay.loss.partition_floors import NO_CONTRADICTIONS, Contradictions
from replay.loss.verdict import Judgement
from replay.offsets.broker_lines import NO_LINES, below_logged, lines_of
from replay.offsets.evidence import PROPAGATION_MS, Evidence, Replica, Row, last_seen_with_epoch
from replay.offsets.partition_rows import evidence_of, keys_of
from replay.partitions.elections import States
from replay.partitions.windows import build_windows
from replay.terms.facts import StateFacts, after_old_log_ends, after_restarts, facts_of, from_elr
from replay.terms.leader_terms import LeaderTerms
from replay.terms.liveness import Sessions, sessions_of
from replay.terms.read_again import is_first
from replay.terms.replica_logs import Recorded, settled_ms


class TooManyWindowsError(Exception):
    """A topic has more windows than are judged. topic: its name, or its id."""

    def __init__(self, topic: str, count: int) -> None:
        super().__init__(topic, count)
        self.topic, self.count = topic, count


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """An election with the recorded states around it and its judgement.

    start_row: row of the history where the window opened. start, before, after, end: states (rows of the history) at
    that row, before and after the election, and where the partition was safe again (None: never). steady: replicas
    whose broker ran as one process since they were last seen and followed no leader that may have restarted, so that
    their logs can only have grown. still: replicas last seen when their brokers knew that nobody led any
    more, so that their logs have not grown since. assumed_timeout_ms: the session timeout if no file shows it, else
    None. likely: where it leans; None if it is decided.
    """

    election_facts: ElectionFacts
    start_row: int
    start: Row
    before: Row
    after: Row
    end: Row | None
    situation: "Situation"
    steady: frozenset[int]
    still: frozenset[int]
    clock: Clock
    assumed_timeout_ms: int | None
    likely: Likely | None = None

    @property
    def judgement(self) -> Judgement:
        return self.election_facts.judgement


def judged_windows(
    bucket: Bucket,
    offsets: pa.Table,
    against: Contradictions = NO_CONTRADICTIONS,
    events: pa.Table | None = None,
    most: int | None = None,
    known: Mapping[int, Evidence] = MappingProxyType({}),
) -> Iterator[JudgedWindow]:
    """Judge every window of a bucket. offsets: LOG_END_OFFSETS rows with their topic_id filled in; events: see
    `replay.bucket.detect`; known: their evidence, by partition key, as far as it has been read. Errors:
    TooManyWindowsError if a topic has more than `most`."""
    history, states, cluster = bucket.history, bucket.states, bucket.facts
    if not len(history):
        return
    facts = facts_of(bucket)
    suspicious = _contradicted(history, states, facts, offsets, cluster)
    suspicious[below_logged(history, states, events, np.flatnonzero(facts.changes & (states.leader >= 0)))] = True
    sessions = sessions_of(cluster, history["timestamp_ms"].to_numpy())
    noted = np.isin(facts.offset, list(against.changes))
    for rows in (offsets, events):
        if rows is not None and len(rows):
            noted |= np.isin(states.key, keys_of(rows, history, states))
    suspicious |= after_old_log_ends(states, facts, cluster, sessions, noted)
    doubtful = after_restarts(states, facts, sessions, settled_ms(cluster)) | from_elr(states, facts)
    windows = build_windows(states, suspicious | doubtful)
    if most is not None:
        _check_topics(history, windows.election, most)
    how = zip(windows.election.tolist(), windows.exposed.tolist(), doubtful[windows.election].tolist(), strict=True)
    exposed = {row: None if is_doubtful and not is_exposed else is_exposed for row, is_exposed, is_doubtful in how}
    elections = _election_facts(history, states, facts, offsets, exposed, cluster, sessions, against, events, known)
    kept = np.isin(windows.election, list(elections))
    start, election, end = (at[kept] for at in (windows.start, windows.election, windows.end))
    state = _states_around(history, [start, election - 1, election, end])
    for first, row, last in zip(start.tolist(), election.tolist(), end.tolist(), strict=True):
        around = (state[first], state[row - 1], state[row], state[last] if last >= 0 else None)
        yield _judged_window(elections[row], first, around, cluster)


def check_count(bucket: Bucket, most: int) -> None:
    """Count the windows that follow from the history alone, before anything is worked out for them.

    Errors: TooManyWindowsError if a topic has more than `most`. `judged_windows` may find more."""
    if np.bincount(bucket.states.key >> 32).max(initial=0) > most:  # rows of one topic
        windows = build_windows(bucket.states, np.zeros(len(bucket.history), dtype=bool))
        _check_topics(bucket.history, windows.election, most)


def _check_topics(history: pa.Table, rows: Array, most: int) -> None:
    """rows: of the elections in windows."""
    if len(rows) <= most:
        return
    elections = history.select(["topic", "topic_id"]).take(pa.array(rows))
    for counted in elections["topic_id"].value_counts().to_pylist():
        if counted["counts"] > most:
            named = elections.filter(pc.equal(elections["topic_id"], counted["values"]))["topic"][0].as_py()
            raise TooManyWindowsError(named or counted["values"], counted["counts"])


def loss_if_led(window: JudgedWindow, broker: int) -> tuple[int | None, int | None]:
    """(least, most) offsets that electing that broker would have lost; None: unknown."""
    if broker == window.situation.recorded:
        return window.judgement.loss_min, window.judgement.loss_max
    replica = window.situation.last_seen.get(broker)
    return loss_of(window, replica) if replica else (None, None)


def loss_of(window: JudgedWindow, replica: Replica) -> tuple[int, int | None]:
    """(at least, at most) how many offsets electing the replica would have lost; at most None: no bound.

    Its log may have grown after it was last seen, unless nobody led any more and it was not the last leader, which may
    not know that. Its log may have diverged from the partition's, unless it ended in the last leader's epoch. It may
    have lost its tail, if its broker has stopped since.
    """
    facts, judgement = window.election_facts, window.judgement
    floor, ceiling = judgement.floor.value, judgement.ceiling.value
    still = replica.broker_id in window.still and replica.broker_id != facts.previous_leader
    loss_min = max(0, floor - replica.log_end_offset) if floor is not None and still else 0
    same = _ended_in(facts, replica) and replica.broker_id in window.steady
    return loss_min, max(0, ceiling - replica.log_end_offset) if ceiling is not None and same else None


def _ended_in(facts: ElectionFacts, replica: Replica) -> bool:
    """Whether the log ended in the last leader's epoch when its end was read. A line of the same round may be from
    after that, when the follower had truncated its log (ReplicaFetcherThread); the first leader truncates none."""
    epoch, row = facts.last_epoch, replica.row
    if replica.last_written_leader_epoch != epoch:
        return False
    lines = facts.evidence.epoch_rows.get(replica.broker_id, [])
    before = any(r["leader_epoch"] == epoch and read_by(r) < row["captured_at_ms"] for r in lines)
    return epoch == 0 or row["last_written_leader_epoch"] is not None or before


def _contradicted(
    history: pa.Table, states: States, facts: StateFacts, offsets: pa.Table, cluster: ClusterFacts
) -> Array:
    """Mask of the elections whose leader's log ended below a high watermark read before them: worth judging, no
    verdict."""
    result = np.zeros(len(states.key), dtype=bool)
    rows = np.flatnonzero(facts.changes & (states.leader >= 0))
    lines = offsets.filter(offsets["epoch_start_offset"].is_valid())
    reports = offsets.filter(pc.and_(offsets["high_watermark"].is_valid(), offsets["captured_at_ms"].is_valid()))
    if not len(rows) or not len(lines) or not len(reports):
        return result
    first = lines.group_by([*PARTITION_KEY, "leader_epoch"]).aggregate([("epoch_start_offset", "min")])
    elected = history.select([*PARTITION_KEY, "leader_epoch"]).take(pa.array(rows)).append_column("row", pa.array(rows))
    joined = elected.join(first, [*PARTITION_KEY, "leader_epoch"], join_type="inner")
    rows, starts = joined["row"].to_numpy(), joined["epoch_start_offset_min"].to_numpy()
    # The highest report read so far, by partition and time, looked up at every election.
    keys = keys_of(reports, history, states)
    read_ms = reports["captured_at_ms"].to_numpy() + pc.fill_null(reports["uncertainty_ms"], 0).to_numpy()
    known = keys, read_ms + cluster.clock.error_ms, reports["high_watermark"].to_numpy()
    result[rows[starts < highest_before(known, states.key[rows], facts.timestamp_ms[rows])]] = True
    return result


def _election_facts(
    history: pa.Table,
    states: States,
    facts: StateFacts,
    offsets: pa.Table,
    exposed: Mapping[int, bool | None],
    cluster: ClusterFacts,
    sessions: Sessions,
    against: Contradictions,
    events: pa.Table | None,
    known: Mapping[int, Evidence],
) -> dict[int, ElectionFacts]:
    """The elections that matter by row of the history. exposed: those to judge, in order, see `partition_elections`.
    Uses only evidence of the judged partitions."""
    if not exposed:
        return {}
    rows = np.fromiter(exposed, np.int64, len(exposed))
    judged = np.unique(states.key[rows])
    unread = np.array([key for key in judged.tolist() if key not in known], dtype=np.int64)
    evidence = {**known, **evidence_of(history, states, offsets, unread)}
    firsts = np.searchsorted(states.key, judged, "left").tolist()
    ends = np.searchsorted(states.key, judged, "right").tolist()
    groups = np.split(rows, np.searchsorted(states.key[rows], judged[1:]))
    end_ms = cluster.end_ms(history["timestamp_ms"].to_numpy())
    lines = lines_of(history, states, events, judged, partial(is_first, facts, sessions, cluster))
    result, named = {}, history.select(["topic", "directories", "partition_epoch"])
    for key, first, end, group in zip(judged.tolist(), firsts, ends, groups, strict=True):
        own = named.slice(first, end - first)
        recorded = Recorded(own["topic"][0].as_py(), own["directories"].to_pylist(), own["partition_epoch"].to_pylist())
        found, of_partition = evidence[key], lines.get(key, NO_LINES)
        found = replace(found, scrapes=sessions.of_current_processes(found.scrapes, cluster.clock))
        extended = sessions.extended(found.scrapes, cluster.clock)
        logged = recorded, of_partition, found.scrapes
        terms = LeaderTerms(facts, states, first, end, extended, cluster, end_ms, found.stopped, *logged)
        for election in partition_elections(terms, found, against, {row: exposed[row] for row in group.tolist()}):
            result[election.row] = election
    return result


def _states_around(history: pa.Table, rows: list[Array]) -> dict[int, Row]:
    wanted = np.unique(np.concatenate(rows))
    wanted = wanted[wanted >= 0]
    return dict(zip(wanted.tolist(), history.take(pa.array(wanted)).to_pylist(), strict=True))


def _judged_window(
    facts: ElectionFacts, start_row: int, rows: tuple[Row, Row, Row, Row | None], cluster: ClusterFacts
) -> JudgedWindow:
    start, before, after, end = rows
    known, batch = before["last_known_elr"], after["batch_base_offset"]
    elected_ms, error_ms = after["timestamp_ms"], cluster.clock.error_ms
    observed = (last_seen_with_epoch(facts.evidence, b, elected_ms, cluster.clock) for b in after["replicas"])
    replicas = [replica for replica in observed if replica]
    since = {r.broker_id: r.row["captured_at_ms"] - error_ms for r in replicas}
    situation = Situation(
        replicas=after["replicas"],
        isr=before["isr"],
        elr=before["elr"],
        alive=[b for b in after["replicas"] if cluster.brokers.active(b, batch)],
        waited_for=known[0] if len(known) == 1 else facts.previous_leader if facts.previous_leader >= 0 else None,
        last_seen={r.broker_id: r for r in replicas},
        recorded=after["leader"],
    )
    return JudgedWindow(
        election_facts=facts,
        start_row=start_row,
        start=start,
        before=before,
        after=after,
        end=end,
        situation=situation,
        steady=frozenset(
            b for b, at_ms in since.items() if b in facts.undisturbed and _steady(facts, b, at_ms, cluster)
        ),
        still=frozenset(r.broker_id for r in replicas if _still(facts, r, cluster)),
        clock=cluster.clock,
        assumed_timeout_ms=cluster.session_timeout_ms if cluster.session_timeout_source != "static" else None,
        likely=likely(facts, facts.judgement),
    )


def _steady(facts: ElectionFacts, broker: int, since_ms: int, cluster: ClusterFacts) -> bool:
    """Whether the broker was active, as one process, from since_ms to the election, and its log has no other records
    than the partition's (H12)."""
    elected_ms = facts.election.elected_ms
    session = facts.sessions.get(broker)
    return (
        session is not None
        and session.was_alone_until(elected_ms)
        and cluster.brokers.steady(broker, since_ms, elected_ms)
        and not facts.membership(broker).may_differ
    )


def _still(facts: ElectionFacts, replica: Replica, cluster: ClusterFacts) -> bool:
    """Whether the replica was last seen when its broker knew that nobody led. A fenced broker may go on
    following a leader that is cut off too."""
    since, error = facts.leaderless_ms, cluster.clock.error_ms
    session = facts.sessions.get(replica.broker_id)
    if since is not None and session is not None and session.registered and session.begin_ms > since + error:
        # It registered when nobody led, and has followed nobody since.
        return cluster.clock.surely_after(replica.row, session.begin_ms)
    if since is None or not cluster.clock.surely_after(replica.row, cluster.heard_by_ms(since) + PROPAGATION_MS):
        return False
    return cluster.brokers.steady(replica.broker_id, since - error, read_by(replica.row) + error)


@dataclass(frozen=True, slots=True)
class Situation:
    """A partition right before an election.

    waited_for: the broker that strategy Balanced waits for: the last known leader, else the last leader; None if
    neither is known. last_seen: by broker, the last observation of each replica that was observed.
    """

    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int]
    alive: Sequence[int]
    waited_for: int | None
    last_seen: dict[int, Replica]
    recorded: int
