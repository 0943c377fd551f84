"""Findings of the time during which partitions had no leader, or one last replica in ISR and ELR.

Each is a stretch of recorded states, so both kinds are facts of the log. Vectorised: when many brokers fail together
every partition gets a finding.

Sources: Kafka's PartitionChangeBuilder (who may be elected from where), KIP-966.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow import sets
from replay.arrow.ragged import Array, as_lists, bools, to_matrix
from replay.arrow.schemas import FINDINGS
from replay.arrow.sets import resize
from replay.controller.transitions import Bucket
from replay.findings.columns import StatementColumn, finding_ids, finding_table, row_evidence, stated
from replay.findings.kinds import LAST_REPLICA, LEADERLESS

# By kind: severity if the end is known, severity if it is not.
_SEVERITY = {LEADERLESS: ("medium", "medium"), LAST_REPLICA: ("low", "medium")}
_RULE_VERSION = 5
# findings.end_reason by the code of the statement that says it.
_END_REASON = {
    "ended_from_isr": "elected_from_isr",
    "ended_from_elr": "elected_from_elr",
    "ended_by_outsider": "elected_outsider",
    "more_replicas": "more_replicas",
    "no_replica_left": "no_replica_left",
    "single_replica": "single_replica",
    "exposed_until_removal": "removed",
    "exposed_at_log_end": "log_end",
    "exposed_into_hole": "hole",
}
_ASSUMED = "assumed_default"
# Fields of evidence by the column of a state.
_PLACE = {"broker_id": "leader", "leader_epoch": "leader_epoch", "offset": "offset", "captured_at_ms": "timestamp_ms"}


def exposure_findings(bucket: Bucket) -> pa.Table:
    """schemas.FINDINGS of both kinds for a bucket."""
    states = bucket.states
    if not len(bucket.history):
        return FINDINGS.empty_table()
    isr, elr = states.lists["isr"], states.lists["elr"]
    # A partition with one replica is always in this state, so it is left out.
    alone = states.isr_size + sets.size(sets.without(elr, isr)) == 1
    alone &= (sets.size(states.replicas) > 1) & ~states.removed
    leaderless = _Exposures(bucket, ~states.removed & (states.leader < 0))
    begin = leaderless.begin
    replicas, offset = states.replicas[begin], leaderless.first["offset"].to_numpy()
    known, placed = bucket.availability, resize(bucket.directory_codes_at(begin), replicas.shape[1])
    # No other batch begins between a record and the start of its own batch.
    could = sets.keep(replicas, known.acceptable(replicas, placed, known.states_after(replicas, offset)))
    last_replica = _last_replica(_Exposures(bucket, alone), isr, elr)
    return pa.concat_tables([_leaderless(leaderless, isr, elr, could), last_replica])


class _Exposures:
    """The maximal stretches of known states for which `where` (bool, one per row of the history) is true, and what the
    findings of both kinds have in common.

    begin, until, after: numbers of the history's rows with the first and last state of each stretch, and of the one
    after it; -1 if there is none: it lasted to the log's end, or the states after it are unknown. first, last: the
    first and last state. lasted_ms: by the records' timestamps, at least this where the log lacks its begin
    (since_snapshot) or its end. ended: whether its end is known; end: the states that follow those of which it is;
    end_offset, end_ms: of these, -1 for the others.
    """

    def __init__(self, bucket: Bucket, where: Array) -> None:
        history, states, cluster = bucket.history, bucket.states, bucket.facts
        self.states, self.cluster = states, cluster
        begins, inside = np.append(states.begins, True), np.append(where, False)
        goes_on = inside[1:] & inside[:-1] & ~begins[1:]
        self.begin = np.flatnonzero(where & ~np.append(False, goes_on)[:-1])
        self.until = np.flatnonzero(where & ~goes_on)
        self.after = np.where(begins[self.until + 1], -1, self.until + 1)
        self.count = len(self.begin)
        self.ended = self.after >= 0
        rows = (self.begin, self.until, self.after[self.ended])
        self.first, self.last, self.end = (history.take(pa.array(row)) for row in rows)
        self.end_offset, self.end_ms = (self.after_end(history[n].to_numpy(), -1) for n in ("offset", "timestamp_ms"))
        # Where a gap follows, the last known state ends at it (clip_validity).
        self.at_log_end = ~self.ended & bools(pc.is_null(self.last["end_offset"]))
        self.since_snapshot = bools(pc.equal(self.first["origin"], "checkpoint"))
        begin, last = self.first["timestamp_ms"].to_numpy(), self.last["timestamp_ms"].to_numpy()
        end = np.where(self.ended, self.end_ms, last)
        if cluster.log_end_ms is not None:
            # A snapshot may be newer than the log.
            end = np.where(self.at_log_end, np.maximum(cluster.log_end_ms, last), end)
        self.lasted_ms = end - begin

    def after_end(self, values: Array, missing: Any) -> Array:
        """One value per stretch: that of the state after it (`values`: one per row of the history), else `missing`."""
        return np.where(self.ended, values[self.after], missing)

    def findings(self, kind: str, statements: Sequence[StatementColumn], **more: pa.Array) -> pa.Table:
        """schemas.FINDINGS of the stretches. more: columns that only this kind has."""
        keys = (self.first[n].to_pylist() for n in ("topic_id", "partition", "offset"))
        columns = {
            **{name: self.first[name] for name in ("topic_id", "topic", "partition")},
            "finding_id": finding_ids(self.cluster.cluster_id, kind, *keys),
            "kind": kind,
            "start_offset": self.first["offset"],
            "end_offset": pa.array(self.end_offset, mask=~self.ended),
            "start_timestamp_ms": self.first["timestamp_ms"],
            "end_timestamp_ms": pa.array(self.end_ms, mask=~self.ended),
            "verdict": "proven",
            "severity": pc.if_else(pa.array(self.ended), *_SEVERITY[kind]),
            "lasted_ms": pa.array(self.lasted_ms),
            "lasted_at_least": pa.array(~self.ended | self.since_snapshot),
            "end_reason": self._end_reason(statements),
            **more,
            "rule": kind,
            "rule_version": _RULE_VERSION,
        }
        evidence = [
            row_evidence("exposure_start", "partition_history", np.arange(self.count), self.first, **_PLACE),
            row_evidence("exposure_end", "partition_history", np.flatnonzero(self.ended), self.end, **_PLACE),
        ]
        return finding_table(columns, statements, evidence, self.count)

    def duration(self) -> Iterator[StatementColumn]:
        """How long each lasted by the records' timestamps; a lower bound where the log lacks its beginning or end."""
        ended, snapshot = self.ended, self.since_snapshot
        yield stated("exposed_since_snapshot", snapshot, offset=self.first["offset"])
        yield stated("exposed_for", ended & ~snapshot, value=self.lasted_ms)
        yield stated("exposed_for_at_least", ~ended | snapshot, value=self.lasted_ms)
        yield stated("exposed_at_log_end", self.at_log_end)
        yield stated("exposed_into_hole", ~ended & ~self.at_log_end)

    def _end_reason(self, statements: Sequence[StatementColumn]) -> pa.Array:
        reason = np.full(self.count, None, dtype=object)
        for column in statements:
            if column.code in _END_REASON:
                reason[column.at] = _END_REASON[column.code]
        return pa.array(reason, pa.string())


def _leaderless(found: _Exposures, isr: Array, elr: Array, could: Array) -> pa.Table:
    """Findings of stretches without a leader. isr, elr: of every row of the history, from `ragged.to_matrix`. could: of
    each stretch, the replicas that an unclean election could have elected when it began."""
    states, begin = found.states, found.begin
    isr, elr = isr[found.until], elr[found.until]
    led, offset, epoch = states.previous_leader[begin], found.first["offset"], states.leader_epoch[begin]
    waits_for, waiting = _waiting_for(found, isr, elr)
    statements = [
        stated("leader_lost", led >= 0, brokers=led, offset=offset, leader_epoch=epoch),
        stated("no_leader", led < 0, offset=offset, leader_epoch=epoch),
        *found.duration(),
        *waiting,
        *_unclean_candidates(found, could),
        *_ending(found, isr, elr),
        stated("leaderless_means", np.ones(found.count, dtype=bool)),
    ]
    leader = found.after_end(states.leader, -1)
    leader = pa.array(leader, pa.int32(), mask=leader < 0)
    return found.findings(LEADERLESS, statements, recorded_leader=leader, waits_for=as_lists(waits_for))


def _waiting_for(found: _Exposures, isr: Array, elr: Array) -> tuple[Array, list[StatementColumn]]:
    """Whose return the last state of each stretch waits for, and the statements of it. isr, elr: of that state."""
    known, replicas = to_matrix(found.last["last_known_elr"]), found.states.replicas[found.until]
    in_isr = ~sets.is_empty(isr)
    in_elr = ~in_isr & ~sets.is_empty(elr)
    # Only replicas are elected (LeaderAcceptor), the last known leader only if the list has one member.
    last_known = ~in_isr & ~in_elr & (sets.size(known) == 1) & sets.has(replicas, known[:, 0])
    nobody = ~in_isr & ~in_elr & ~last_known
    holders = sets.where(in_isr, isr, elr)
    holders = sets.keep(holders, sets.is_in(holders, replicas))
    clean = ~sets.is_empty(holders)
    return sets.where(last_known, known, holders), [
        stated("leaderless_isr", in_isr, brokers=isr),
        stated("leaderless_elr", in_elr, brokers=elr),
        stated("leaderless_last_known", last_known, brokers=known),
        stated("leaderless_nobody", nobody, brokers=known),
        stated("clean_return", clean, brokers=holders),
        stated("last_known_return", last_known, brokers=known),
        stated("no_return", ~clean & ~last_known),
    ]


def _unclean_candidates(found: _Exposures, could: Array) -> Iterator[StatementColumn]:
    """The replicas that an unclean election could have elected, and whether the config allowed one."""
    replicas, offset = found.states.replicas[found.begin], found.first["offset"]
    alive = sets.keep(replicas, found.cluster.brokers.active_members(replicas, offset.to_numpy()))
    yield stated("replicas_alive", np.ones(found.count, dtype=bool), brokers=alive, offset=offset)
    yield stated("unclean_possible", ~sets.is_empty(could), brokers=could)
    enabled = found.last["unclean_leader_election_enable"]
    source = found.last["unclean_leader_election_enable_source"]
    assumed = bools(pc.equal(source, _ASSUMED))
    on = bools(enabled)
    # A state has the configs of its begin.
    in_force = {"offset": found.last["offset"], "text": source}
    yield stated("unclean_on", on & ~assumed, **in_force)
    yield stated("unclean_off", ~on & ~assumed, **in_force)
    yield stated("unclean_assumed", assumed, text=enabled.cast(pa.string()))


def _ending(found: _Exposures, isr: Array, elr: Array) -> Iterator[StatementColumn]:
    """Who became leader, and from which list, or that the topic was removed. isr, elr: of the last state."""
    leader, epoch = (found.after_end(values, -1) for values in (found.states.leader, found.states.leader_epoch))
    offset, led = found.end_offset, leader >= 0
    in_isr, in_elr = led & sets.has(isr, leader), led & sets.has(elr, leader)
    in_elr &= ~in_isr
    figures = {"brokers": leader, "offset": offset, "leader_epoch": epoch}
    yield stated("ended_from_isr", in_isr, **figures)
    yield stated("ended_from_elr", in_elr, **figures)
    yield stated("ended_by_outsider", led & ~in_isr & ~in_elr, **figures)
    yield stated("exposed_until_removal", found.after_end(found.states.removed, False), offset=offset)


def _last_replica(found: _Exposures, isr: Array, elr: Array) -> pa.Table:
    """Findings of stretches with one last replica. isr, elr: of every row of the history."""
    states = found.states
    everywhere = np.ones(found.count, dtype=bool)
    places = (found.begin, found.until, found.after)
    begin, last, holders_after = (sets.join(isr[rows], elr[rows]) for rows in places)
    begin, last, offset = begin.max(axis=1), last.max(axis=1), found.end_offset
    removed = found.after_end(states.removed, False)
    changed = found.ended & ~removed
    # If there is still one holder, the number of replicas fell to one.
    single = changed & (sets.size(holders_after) == 1)
    min_isr, source = found.last["min_isr"], found.last["min_isr_source"]
    assumed = bools(pc.equal(source, _ASSUMED))
    led_states = np.append(0, np.cumsum(states.leader >= 0))
    led = led_states[found.until + 1] - led_states[found.begin]
    whole = led == found.until + 1 - found.begin
    statements = [
        stated("last_replica", everywhere, brokers=begin, offset=found.first["offset"]),
        stated("last_replica_at_end", begin != last, brokers=last),
        *found.duration(),
        stated("min_isr_in_force", ~assumed, offset=found.last["offset"], value=min_isr, text=source),
        stated("min_isr_assumed", assumed, value=min_isr),
        stated("last_replica_led", whole),
        stated("last_replica_led_partly", ~whole & (led > 0)),
        stated("last_replica_not_led", led == 0),
        stated("more_replicas", changed & (sets.size(holders_after) > 1), brokers=holders_after, offset=offset),
        stated("no_replica_left", changed & (sets.size(holders_after) == 0), offset=offset),
        stated("single_replica", single, offset=offset),
        stated("exposed_until_removal", removed, offset=offset),
        stated("last_replica_means", everywhere),
    ]
    return found.findings(LAST_REPLICA, statements)
