"""Findings of replicas that lost what they had: a log that ended lower than before, or a high watermark file that went
back without an election.

What one replica lost is no loss of acknowledged records by itself: `hwm_regression` judges those. A drop counts only if
the order in time is certain and the broker kept the partition in one log directory all that time.

Sources: KIP-101 and KIP-279 (what a replica truncates after an election), KAFKA-16452 (a lost
replication-offset-checkpoint), KIP-858 (a replica's directory).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from replay.arrow.schemas import FINDINGS
from replay.cluster.brokers import BrokerState
from replay.cluster.facts import ClusterFacts
from replay.controller.transitions import Bucket
from replay.findings.kinds import CHECKPOINT_LOST, LOG_TRUNCATION, finding_id
from replay.findings.statements import observation_row, prose, state_row, statement
from replay.offsets.clean_stops import COPIED, HOLDS_LOG
from replay.offsets.evidence import Evidence, Row, read_by
from replay.offsets.log_drops import CHECKPOINT, Drop, Span, drops, line_drops, log_ends, suspected
from replay.offsets.partition_rows import evidence_of
from replay.terms.read_again import kept_its_end
from replay.terms.replica_logs import NO_DIRECTORY, settled_ms

_RULE_VERSION = 11


@dataclass(frozen=True, slots=True)
class _Span:
    """The states of a partition that were in force during an event, as row numbers of its history.

    first: -1 if the state at the beginning is unknown. known: no state in between is missing.
    """

    first: int
    last: int
    known: bool


@dataclass(frozen=True, slots=True)
class Truncations:
    """findings: schemas.FINDINGS of both kinds. By partition key (`States.key`), of those in which a replica may have
    shown less than before: unexplained: the times in which its log went down without an election that explains it;
    evidence: that about the partition."""

    findings: pa.Table
    unexplained: dict[int, list[Span]]
    evidence: dict[int, Evidence]


def truncations(bucket: Bucket, offsets: pa.Table) -> Truncations:
    """What the replicas of a bucket lost. offsets: LOG_END_OFFSETS rows with their topic_id filled in."""
    history, states, cluster = bucket.history, bucket.states, bucket.facts
    keys = suspected(history, states, offsets) if len(history) else np.empty(0, dtype=np.int64)
    if not len(keys):
        return Truncations(FINDINGS.empty_table(), {}, {})
    evidence = evidence_of(history, states, offsets, keys)
    end_ms = cluster.end_ms(history["timestamp_ms"].to_numpy())
    rows: list[Row] = []
    unexplained: dict[int, list[Span]] = {}
    for key in keys.tolist():
        first, end = (int(np.searchsorted(states.key, key, side)) for side in ("left", "right"))
        partition = _Partition(history.slice(first, end - first).to_pylist(), evidence[key], cluster, end_ms)
        rows += partition.findings()
        error = cluster.clock.error_ms
        unexplained[key] = [
            Span(drop.broker, drop.before["captured_at_ms"] - error, drop.end_ms) for drop in partition.unexplained
        ]
    return Truncations(pa.Table.from_pylist(rows, schema=FINDINGS), unexplained, evidence)


class _Partition:
    """One partition. rows: its history, in order; evidence: of its replicas; end_ms: from `ClusterFacts.end_ms`."""

    def __init__(self, rows: Sequence[Row], evidence: Evidence, cluster: ClusterFacts, end_ms: int) -> None:
        self.rows, self.evidence, self.cluster, self.clock, self.end_ms = rows, evidence, cluster, cluster.clock, end_ms
        self.times = np.maximum.accumulate([r["timestamp_ms"] for r in rows]).tolist()
        # By row number, in order: the rows that are known to have opened their leader epoch.
        before = [None, *(r["leader_epoch"] for r in rows)]
        known = ((i, r) for i, r in enumerate(rows) if not r["removed"] and r["origin"] != "checkpoint")
        self.opened = {i: r for i, r in known if r["leader_epoch"] != before[i]}
        # Of those, in order, the ones with a leader.
        self.led = [r for r in self.opened.values() if r["leader"] >= 0]
        # And those that a snapshot shows: their epoch may have begun unseen.
        self.epochs = [i for i, r in enumerate(rows) if i in self.opened or r["origin"] == "checkpoint"]
        # Filled by `findings`.
        self.unexplained: list[Drop] = []

    def findings(self) -> list[Row]:
        """schemas.FINDINGS rows of both kinds. Fills `unexplained`."""
        epochs = [r["leader_epoch"] for r in self.rows if not r["removed"]]
        # Leader epochs only ever rise. If they do not, two histories were mixed and evidence may be about either.
        if epochs != sorted(epochs):
            return []
        findings: list[Row] = []
        for broker in sorted({*self.evidence.log_ends, *(r["broker_id"] for r in self.evidence.high_watermarks)}):
            tail_losses = self._tail_losses(broker)
            findings += [self._truncation(drop, span) for drop, span in tail_losses]
            reports = [r for r in self.evidence.high_watermarks if r["broker_id"] == broker and self._is_rewritten(r)]
            since = -1
            for drop in drops(reports, "high_watermark", self.clock):
                later = [r for r in reports if r["captured_at_ms"] >= since]
                findings += self._lost_checkpoint(drop, later, [loss for loss, _ in tail_losses])
                since = drop.after["captured_at_ms"] if drop.after else since
        return findings

    def _is_rewritten(self, row: Row) -> bool:
        """Whether the row is of a checkpoint file that a running broker rewrites (see P2 in docs/findings.md)."""
        states = self.cluster.brokers.states.get(row["broker_id"], [])
        current = row[HOLDS_LOG] or all(len(state.log_dirs or ()) <= 1 for state in states)
        return row["source"] == CHECKPOINT and current and self._is_in_use(row)

    def _is_in_use(self, row: Row) -> bool:
        """Whether the row cannot be of a disk that was replaced."""
        return row["source"] not in (*COPIED, CHECKPOINT) or not self.cluster.may_be_of_lost_disk(row)

    def _tail_losses(self, broker: int) -> list[tuple[Drop, _Span]]:
        """Each time the replica lost its tail. What log ends and lines show of the same event is one element."""
        ends = [row for row in log_ends(self.evidence, broker) if self._is_in_use(row)]
        opened = {r["leader_epoch"]: r["timestamp_ms"] for r in self.opened.values()}
        lines = [e.row for entries in self.evidence.entries.values() for e in entries if e.broker_id == broker]
        known = drops(ends, "log_end_offset", self.clock)
        result = [(drop, span) for drop in known if (span := self._span(drop))]
        for drop in line_drops(ends, lines, opened, known, self.clock):
            span, line = self._span(drop), drop.line
            same = next((i for i, (shown, _) in enumerate(result) if self._one_event(shown, drop, ends)), None)
            if span and same is None:
                result.append((drop, span))
            elif span and span.known and same is not None and line:
                by_log_end = result[same][0]
                replaced = self.clock.surely_before(by_log_end.before, opened[line["leader_epoch"]])
                if replaced and by_log_end.line is None and line["epoch_start_offset"] < by_log_end.high:
                    result[same] = (by_log_end.with_line(line), result[same][1])
        return result

    def _one_event(self, by_log_end: Drop, by_line: Drop, ends: Sequence[Row]) -> bool:
        """Whether a drop of a replica's log end and one shown by a line may be the same event: their times overlap,
        and no log end between them shows that they are two."""
        if by_log_end.after is None or by_line.before is by_log_end.after or not by_log_end.overlaps(by_line):
            return False
        until, line_ms = by_log_end.after["captured_at_ms"] - self.clock.error_ms, by_line.end_ms
        between = [r for r in ends if line_ms is not None and self.clock.surely_after(r, line_ms)]
        return not any(r["log_end_offset"] > by_log_end.low and self.clock.surely_before(r, until) for r in between)

    def _span(self, drop: Drop) -> _Span | None:
        """The states between the two readings; None if the readings need not be of the same copy of the partition."""
        error = self.clock.error_ms
        first = bisect_right(self.times, drop.before["captured_at_ms"] - error) - 1
        end = len(self.rows) if drop.end_ms is None else bisect_right(self.times, drop.end_ms)
        if first < 0 and self.rows[0]["origin"] != "checkpoint":
            return None
        inside = self.rows[max(first, 0) : end]
        if not all(not r["removed"] and drop.broker in r["replicas"] for r in inside):
            return None
        directories = {
            r["directories"][r["replicas"].index(drop.broker)]
            for r in inside
            if len(r["directories"] or ()) == len(r["replicas"])
        }
        if len(directories.difference(NO_DIRECTORY)) > 1:
            return None
        last = end - 1
        if drop.after is None and not self._may_lead_again(drop):
            last = self._opening(drop)
        unbroken = first >= 0 and self._unbroken(first, end - 1)
        open_ended = any(r["end_offset"] is not None and r["end_timestamp_ms"] is None for r in inside)
        before_log_end = drop.end_ms is None or drop.end_ms <= self.end_ms
        return _Span(first, last, unbroken and not open_ended and before_log_end)

    def _unbroken(self, first: int, last: int) -> bool:
        """Whether no snapshot follows any of the states, so that each was in force until the next one."""
        return not any(r["origin"] == "checkpoint" for r in self.rows[first + 1 : last + 2])

    def _opening(self, drop: Drop) -> int:
        """Number of the row that opened the leader epoch of the drop's line."""
        return next(i for i, r in self.opened.items() if drop.line and r["leader_epoch"] == drop.line["leader_epoch"])

    def _may_lead_again(self, drop: Drop) -> bool:
        """Whether the drop's line may be a later process's, which read that its broker led that epoch, although it does
        not any more (replay/terms/read_again.py)."""
        row = self.rows[self._opening(drop)]
        return row["leader"] == drop.broker and bool(self.cluster.brokers.restarts(drop.broker, row["offset"]))

    def _explained(self, drop: Drop, span: _Span) -> tuple[list[int], list[int]]:
        """Row numbers of elections that may have made the replica truncate its log: those before the first reading that
        it need not have followed by then, and those after it."""
        followed = self._followed(drop)
        rows = [i for i in self.epochs if i <= span.last and self._may_truncate(self.rows[i], drop, followed)]
        return [i for i in rows if i <= span.first], [i for i in rows if i > span.first]

    def _may_truncate(self, row: Row, drop: Drop, followed: int) -> bool:
        """Whether the row's election may have made the replica truncate its log below what it had.

        That takes another broker as leader, in an epoch that the replica is not known to have followed, whose log is
        not known to reach as far with the records of the leader before: a broker that led on unnoticed has others
        there (KIP-101). Any other epoch may have come before a snapshot's epoch.
        """
        if row["origin"] == "checkpoint":
            return bool(not row["removed"] and row["leader_epoch"] > followed)
        if row["leader"] in (-1, drop.broker) or row["leader_epoch"] <= followed:
            return False
        if self.cluster.may_be_compacted(row["topic"]):
            return True  # a log that is copied anew has its lines from the first batches that are left
        entries = self.evidence.entries.get(row["leader_epoch"], [])
        own = [e for e in entries if e.broker_id == row["leader"] and e.exact]
        if not own or min(e.start_offset for e in own) < drop.high or not self._continues(row):
            return True
        times = (e.row["captured_at_ms"] and read_by(e.row) for e in own)
        return self._may_have_led_anew(row, max(self.end_ms if at is None else at for at in (drop.end_ms, *times)))

    def _may_have_led_anew(self, row: Row, until_ms: int) -> bool:
        """Whether the row's leader may have led that epoch, or an older one, anew in its own eyes
        (replay/terms/read_again.py): then its line may be a later one, or it lacked others, and a follower truncates up
        to where its own log says that the older epoch ended (AbstractFetcherThread.getOffsetTruncationState, 3.9.1 to
        4.3.1; see replay/terms/epoch_lines.py). An epoch that is the last one in its log keeps its line."""
        known_ms = max(until_ms + self.clock.error_ms, row["timestamp_ms"])
        first = next(r for r in self.led if r["leader"] == row["leader"] and r["timestamp_ms"] <= known_ms)
        last = next(r for r in reversed(self.led) if r["timestamp_ms"] <= known_ms)
        if first is last or not self.cluster.brokers.restarts(row["leader"], first["offset"]):
            return False
        return not kept_its_end(self.cluster, row["leader"], first["timestamp_ms"], until_ms)

    def _continues(self, row: Row) -> bool:
        """Whether the log of the row's leader is known to have records of the leader before, or is that leader's."""
        count = bisect_left(self.led, row["leader_epoch"], key=itemgetter("leader_epoch"))
        if not count:
            return False
        before = self.led[count - 1]
        holders = {e.broker_id for e in self.evidence.entries.get(before["leader_epoch"], [])}
        return row["leader"] in {before["leader"], *holders}

    def _followed(self, drop: Drop) -> int:
        """The highest leader epoch that the replica's log had reached at the first reading: its
        leader-epoch-checkpoint contained it, or the replica had settled. -1: none is known."""
        read = drop.before["captured_at_ms"] - self.clock.error_ms
        lines = self.evidence.epoch_rows.get(drop.broker, [])
        known = (r for r in lines if self.clock.surely_before(r, read) and not self._may_have_forgotten(drop, r))
        return int(max([*(r["leader_epoch"] for r in known), self._settled(drop)]))

    def _may_have_forgotten(self, drop: Drop, line: Row) -> bool:
        """Whether a process that registered between a line of the replica and the first reading may have led an older
        epoch anew in its own eyes: that takes the line away, and then the replica truncates although it had followed
        that epoch (LeaderEpochFileCache.assign, AbstractFetcherThread.getOffsetTruncationState, 3.9.1 to 4.3.1)."""
        since_ms, until_ms = line["captured_at_ms"] - self.clock.error_ms, read_by(drop.before) + self.clock.error_ms
        first = next((r for r in self.led if r["leader"] == drop.broker), None)
        if first is None or first["leader_epoch"] >= line["leader_epoch"]:
            return False
        begun = (s.timestamp_ms for s in self.cluster.brokers.restarts(drop.broker, first["offset"]))
        again = any(since_ms <= at <= until_ms for at in begun)
        return again and not kept_its_end(self.cluster, drop.broker, since_ms, until_ms)

    def _settled(self, drop: Drop) -> int:
        """The leader epoch under which the replica had been in sync, on a running broker, for `settled_ms` at the
        first reading: it follows its leader's log and has written its high watermark since. -1: not known."""
        # As `ReplicaLogs.settled`, with one condition more: no snapshot may follow the last state either (`_unbroken`).
        # A reading after that state may lie in a gap of the log, and these findings need every state in between.
        row, error = drop.before, self.clock.error_ms
        begin, end = row["captured_at_ms"] - settled_ms(self.cluster) - error, read_by(row) + error
        first, last = (bisect_right(self.times, at) - 1 for at in (begin, end))
        during = self.rows[max(first, 0) : last + 1]
        if first < 0 or not self.cluster.brokers.steady(drop.broker, begin, end) or not self._unbroken(first, last):
            return -1
        in_sync = all(not r["removed"] and r["leader"] >= 0 and drop.broker in r["isr"] for r in during)
        return int(during[0]["leader_epoch"]) if in_sync else -1

    def _truncation(self, drop: Drop, span: _Span) -> Row:
        before, between = self._explained(drop, span)
        by_itself = span.known and not (between or before)
        if by_itself:
            self.unexplained.append(drop)
        leaders = self._leader_restarts(drop, span)
        severity = "low" if between else "high" if by_itself and not leaders else "medium"
        reason = [
            statement("log_end_before", [drop.broker], value=drop.high, text=_time(drop.before)),
            *self._lower_readings(drop),
            statement("tail_lost", value=drop.high - drop.low),
            *self._elections(before, between, span, leaders),
            *self._circumstances(drop, span),
            statement("one_copy_less"),
        ]
        return self._finding(LOG_TRUNCATION, severity, drop, span, reason)

    def _lower_readings(self, drop: Drop) -> Iterator[Row]:
        """Statements about the lower value: of the line and of the later log end."""
        if drop.line:
            line, opened = drop.line, self.rows[self._opening(drop)]["offset"]
            figures = {"leader_epoch": line["leader_epoch"], "value": line["epoch_start_offset"]}
            yield statement("epoch_began_below", offset=opened, **figures)
        if drop.after:
            yield statement("log_end_after", value=drop.after["log_end_offset"], text=_time(drop.after))

    def _elections(
        self, before: list[int], between: list[int], span: _Span, leaders: Sequence[tuple[Row, BrokerState]]
    ) -> list[Row]:
        if between:
            return [
                statement("elections_between", **self._elected(between[-1]), value=len(between)),
                statement("cut_back"),
            ]
        if before:
            return [statement("election_before", **self._elected(before[-1])), statement("maybe_cut_back")]
        if not span.known:
            return []
        if not leaders:
            return [statement("no_election_explains"), statement("lost_by_itself")]
        row, session = leaders[-1]
        figures = {"offset": session.offset, "leader_epoch": row["leader_epoch"]}
        return [
            statement("no_election_explains"),
            statement("leader_restarted", [row["leader"]], **figures),
            statement("maybe_cut_back_to_leader"),
        ]

    def _leader_restarts(self, drop: Drop, span: _Span) -> list[tuple[Row, BrokerState]]:
        """(state, session) of each leader that registered a new incarnation in its own term, up to the drop's end. If
        its log lost its end, a follower that has more is cut back to it, in the same leader epoch
        (AbstractFetcherThread.fetchOffsetAndTruncate, 3.9)."""
        end_ms, found = self._end_ms(drop, span), []
        current = max((i for i in self.epochs if i <= max(span.first, 0)), default=0)
        begins = [current, *(i for i in self.epochs if current < i <= span.last)]
        for begin, after in zip(begins, [*begins[1:], None], strict=True):
            row = self.rows[begin]
            if row["leader"] not in (-1, drop.broker):
                since, until = row["offset"] if begin in self.opened else -1, after and self.rows[after]["offset"]
                sessions = self.cluster.brokers.restarts(row["leader"], since, until)
                found += [(row, s) for s in sessions if s.timestamp_ms <= end_ms]
        return found

    def _elected(self, index: int) -> dict[str, Any]:
        row = self.rows[index]
        leader = [row["leader"]] if row["leader"] >= 0 else []
        return {"brokers": leader, "offset": row["offset"], "leader_epoch": row["leader_epoch"]}

    def _circumstances(self, drop: Drop, span: _Span) -> list[Row]:
        """Statements about what else is recorded of the broker during that time, and what was assumed."""
        restarts = self._restarts(drop, span)
        statements = [statement("restarted_between", offset=s.offset) for s in restarts[-1:]]
        if not restarts and span.known:
            statements.append(statement("not_restarted"))
        if span.first >= 0 and self.rows[span.first]["leader"] == drop.broker:
            statements.append(statement("led_before"))
        if self.rows[span.last]["leader"] == drop.broker:
            statements.append(statement("leads_after"))
        statements += [] if span.known else [statement("states_not_known")]
        return [*statements, statement("clocks", value=self.clock.error_ms)]

    def _restarts(self, drop: Drop, span: _Span) -> list[BrokerState]:
        """The broker's new incarnations between the two readings."""
        begin = drop.before["captured_at_ms"] - self.clock.error_ms
        end_ms = self._end_ms(drop, span)
        return [s for s in self.cluster.brokers.restarts(drop.broker, -1) if begin < s.timestamp_ms <= end_ms]

    def _end_ms(self, drop: Drop, span: _Span) -> int:
        """When the drop had happened: its later reading, else the last state."""
        return int(self.times[span.last]) if drop.end_ms is None else drop.end_ms

    def _lost_checkpoint(self, drop: Drop, reports: Sequence[Row], tail_losses: Sequence[Drop]) -> list[Row]:
        """The finding, if any, of a high watermark that neither an election nor a truncation of the log set back.

        reports: those read since the drop before. The lower value is compared with the last report that shows more and
        was written under the epoch that the partition still had at the drop's end: the file of a broker that
        is down may be older.
        """
        for row in reversed(reports):
            before = self.clock.surely_before(row, (drop.after or row)["captured_at_ms"] - self.clock.error_ms)
            if before and row["high_watermark"] > drop.low:
                lost = replace(drop, before=row, high=row["high_watermark"])
                span = self._span(lost)
                if span and self._settled(lost) == self.rows[span.last]["leader_epoch"]:
                    # A leader that registers again in its own term begins with its file's older high watermark, which
                    # its followers take over (UnifiedLog.updateHighWatermark, 3.9.1).
                    since_ms = lost.before["captured_at_ms"] - self.clock.error_ms
                    began_again = any(s.timestamp_ms > since_ms for _, s in self._leader_restarts(lost, span))
                    explained = began_again or any(lost.overlaps(other) for other in tail_losses)
                    return [] if explained else [self._checkpoint(lost, span)]
        return []

    def _checkpoint(self, drop: Drop, span: _Span) -> Row:
        reason = [
            statement("mark_before", [drop.broker], value=drop.high, text=_time(drop.before)),
            *(statement("mark_after", value=drop.low, text=_time(row)) for row in [drop.after] if row),
            statement("no_election_between", leader_epoch=self.rows[span.last]["leader_epoch"]),
            *self._circumstances(drop, span),
            statement("mark_means"),
        ]
        return self._finding(CHECKPOINT_LOST, "medium", drop, span, reason)

    def _finding(self, kind: str, severity: str, drop: Drop, span: _Span, reason: Sequence[Row]) -> Row:
        start, end = self.rows[span.first] if span.first >= 0 else None, self.rows[span.last]
        partition = {name: end[name] for name in ("topic_id", "topic", "partition")}
        between = [r for i, r in self.opened.items() if span.first < i <= span.last and r["leader"] >= 0]
        event = (drop.broker, drop.before["captured_at_ms"], drop.high)
        states = [("state_before", start)] if start else []
        observations = [("before", drop.before), ("after", drop.after), ("epoch_began", drop.line)]
        observed = [observation_row(role, row) for role, row in observations if row]
        return {
            **partition,
            "finding_id": finding_id(self.cluster.cluster_id, kind, end["topic_id"], end["partition"], *event),
            "kind": kind,
            "start_offset": start["offset"] if start else None,
            "end_offset": end["offset"],
            "start_timestamp_ms": start["timestamp_ms"] if start else None,
            "end_timestamp_ms": end["timestamp_ms"],
            "election_offset": between[0]["offset"] if span.known and len(between) == 1 else None,
            "verdict": "proven" if span.known else "possible",
            "severity": severity,
            "clock_error_ms": self.clock.error_ms,
            "broker_id": drop.broker,
            "value_before": observed[0]["value"],
            "value_after": observed[1]["value"] if len(observed) > 1 else None,
            "rule": kind,
            "rule_version": _RULE_VERSION,
            "evidence": [*observed, *(state_row(name, row) for name, row in [*states, ("state_after", end)])],
            "reason": reason,
            "explanation": prose(reason),
        }


def _time(row: Row) -> str:
    """The capture time as text, in UTC with milliseconds."""
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=row["captured_at_ms"])
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"
