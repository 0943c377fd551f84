"""How long partitions had no leader, or only one replica that must hold what was acknowledged: stretches of recorded
states, as findings.

Both kinds are facts of the log. Vectorised: when many brokers fail together there is one for every partition.

Sources: Kafka's PartitionChangeBuilder (who may be elected from where), KIP-966.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow import sets
from replay.arrow.ragged import PAD, Array, as_lists, to_matrix
from replay.arrow.schemas import FINDINGS
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import ClusterFacts
from replay.controller.transitions import Bucket
from replay.findings.columns import StatementColumn, finding_table, states_shown
from replay.findings.kinds import LAST_REPLICA, LEADERLESS, finding_id
from replay.partitions.elections import States, previous_leaders

# Of those that ended, and of those of which no end is known.
_SEVERITY = {LEADERLESS: ("medium", "medium"), LAST_REPLICA: ("low", "medium")}
_RULE_VERSION = 1
_ASSUMED = "assumed_default"


@dataclass(frozen=True, slots=True)
class Stretches:
    """Maximal stretches of consecutive known states, as row numbers into the history, one element a stretch.

    first, last: its first and last state; end: the row behind it, -1 if there is none: it lasted to the log's end, or
    (hole: true) the states behind it are not known.
    """

    first: Array
    last: Array
    end: Array
    hole: Array


def stretches(states: States, where: Array) -> Stretches:
    """The maximal stretches of known states for which `where` (bool, one a row of the history) holds."""
    # One row more, of another partition: what begins there ends what is before it.
    begins, key, inside = np.append(states.begins, True), np.append(states.key, -1), np.append(where, False)
    goes_on = inside[1:] & inside[:-1] & ~begins[1:]
    first = np.flatnonzero(where & ~np.append(False, goes_on)[:-1])
    last = np.flatnonzero(where & ~goes_on)
    new = begins[last + 1]
    return Stretches(first, last, np.where(new, -1, last + 1), new & (key[last + 1] == states.key[last]))


def exposure_findings(bucket: Bucket) -> pa.Table:
    """schemas.FINDINGS of both kinds."""
    history, states, cluster = bucket.history, bucket.states, bucket.facts
    if not len(history):
        return FINDINGS.empty_table()
    isr, elr = to_matrix(history["isr"]), to_matrix(history["elr"])
    holders = sets.join(isr, elr)
    # A partition with one replica has no other state: it is left out.
    alone = (sets.size(holders) == 1) & (sets.size(states.replicas) > 1) & ~states.removed
    leaderless = _Found(history, states, stretches(states, ~states.removed & (states.leader < 0)), cluster)
    last_replica = _Found(history, states, stretches(states, alone), cluster)
    return pa.concat_tables([_leaderless(leaderless, isr, elr), _last_replica(last_replica, holders)])


class _Found:
    """The stretches of one kind: what both kinds say of them. first, last: the states (rows of the history) with which
    each begins and ends; ended: numbers of those of which the end is known, end: the states behind those."""

    def __init__(self, history: pa.Table, states: States, of: Stretches, cluster: ClusterFacts) -> None:
        self.states, self.of, self.cluster = states, of, cluster
        self.count = len(of.first)
        self.ended = np.flatnonzero(of.end >= 0)
        self.first, self.last, self.end = (history.take(pa.array(r)) for r in (of.first, of.last, of.end[self.ended]))

    def state(self, code: str, where: Array, **figures: Any) -> StatementColumn:
        """A statement about the stretches where `where` is true; figures: one element for each stretch."""
        at = np.flatnonzero(where)
        chosen = {n: v.take(pa.array(at)) if isinstance(v, pa.ChunkedArray) else v[at] for n, v in figures.items()}
        if "brokers" in chosen and chosen["brokers"].ndim > 1:
            chosen["brokers"] = as_lists(chosen["brokers"])
        return StatementColumn(code, at, **chosen)

    def behind(self, values: Array, missing: Any) -> Array:
        """For each stretch the value (one for each of `ended`) of the state behind it, or `missing`."""
        result = np.full((self.count, *values.shape[1:]), missing, dtype=values.dtype)
        result[self.ended] = values
        return result

    def findings(self, kind: str, said: Sequence[StatementColumn], leader: pa.Array | None = None) -> pa.Table:
        ended = self.of.end >= 0
        place = {name: self.first[name] for name in ("topic_id", "topic", "partition")}
        keys = zip(*(self.first[n].to_pylist() for n in ("topic_id", "partition", "offset")), strict=True)
        offset, timestamp = (self.behind(self.end[n].to_numpy(), 0) for n in ("offset", "timestamp_ms"))
        columns = {
            **place,
            "finding_id": pa.array([finding_id(self.cluster.cluster_id, kind, *key) for key in keys], pa.string()),
            "kind": kind,
            "start_offset": self.first["offset"],
            "end_offset": pa.array(offset, mask=~ended),
            "start_timestamp_ms": self.first["timestamp_ms"],
            "end_timestamp_ms": pa.array(timestamp, mask=~ended),
            "verdict": "proven",
            "severity": pc.if_else(pa.array(ended), *_SEVERITY[kind]),
            "recorded_leader": leader,
            "rule": kind,
            "rule_version": _RULE_VERSION,
        }
        shown = [
            states_shown("exposure_start", np.arange(self.count), self.first),
            states_shown("exposure_end", self.ended, self.end),
        ]
        return finding_table(columns, said, shown, self.count)

    def lasted(self) -> Iterator[StatementColumn]:
        """How long, by the timestamps of the records; at least, where its beginning or its end is not in the log."""
        begin, last = self.first["timestamp_ms"].to_numpy(), self.last["timestamp_ms"].to_numpy()
        ended, at_log_end = self.of.end >= 0, (self.of.end < 0) & ~self.of.hole
        end = np.where(ended, self.behind(self.end["timestamp_ms"].to_numpy(), 0), last)
        if self.cluster.log_end_ms is not None:
            end = np.where(at_log_end, self.cluster.log_end_ms, end)
        snapshot = self.first["origin"].to_numpy(zero_copy_only=False) == "checkpoint"
        yield self.state("exposed_since_snapshot", snapshot, offset=self.first["offset"])
        yield self.state("exposed_for", ended & ~snapshot, value=end - begin)
        yield self.state("exposed_for_at_least", ~ended | snapshot, value=end - begin)
        yield self.state("exposed_at_log_end", at_log_end)
        yield self.state("exposed_into_hole", self.of.hole)


def _leaderless(found: _Found, isr: Array, elr: Array) -> pa.Table:
    """isr, elr: of every row of the history, `lists.to_matrix`."""
    states, of = found.states, found.of
    isr, elr = isr[of.last], elr[of.last]
    led, offset, epoch = previous_leaders(states)[of.first], found.first["offset"], states.leader_epoch[of.first]
    said = [
        found.state("leader_lost", led >= 0, brokers=led, offset=offset, leader_epoch=epoch),
        found.state("no_leader", led < 0, offset=offset, leader_epoch=epoch),
        *found.lasted(),
        *_waited_for(found, isr, elr),
        *_might_have_been_elected(found),
        *_ended_by(found, isr, elr),
        found.state("leaderless_means", np.ones(found.count, dtype=bool)),
    ]
    leader = found.behind(states.leader[of.end[found.ended]], -1)
    return found.findings(LEADERLESS, said, pa.array(leader, pa.int32(), mask=leader < 0))


def _waited_for(found: _Found, isr: Array, elr: Array) -> Iterator[StatementColumn]:
    """What the last state of each stretch waits for. isr, elr: of that state."""
    known = to_matrix(found.last["last_known_elr"])
    in_isr = ~sets.is_empty(isr)
    in_elr = ~in_isr & ~sets.is_empty(elr)
    # Kafka elects a last known leader only from a list of one member.
    last_known = ~in_isr & ~in_elr & (sets.size(known) == 1) & (known[:, 0] >= 0)
    nobody = ~in_isr & ~in_elr & ~last_known
    yield found.state("leaderless_isr", in_isr, brokers=isr)
    yield found.state("leaderless_elr", in_elr, brokers=elr)
    yield found.state("leaderless_last_known", last_known, brokers=known)
    yield found.state("leaderless_nobody", nobody, brokers=known)
    yield found.state("clean_return", in_isr | in_elr, brokers=sets.where(in_isr, isr, elr))
    yield found.state("last_known_return", last_known, brokers=known)
    yield found.state("no_return", nobody)


def _might_have_been_elected(found: _Found) -> Iterator[StatementColumn]:
    """The replicas that an unclean election could have elected, and whether it was allowed."""
    alive = _alive(found.cluster.brokers, found.states.replicas[found.of.first], found.first)
    some = ~sets.is_empty(alive)
    yield found.state("replicas_alive", np.ones(found.count, dtype=bool), brokers=alive, offset=found.first["offset"])
    yield found.state("unclean_possible", some, brokers=alive)
    enabled = found.last["unclean_leader_election_enable"]
    source = found.last["unclean_leader_election_enable_source"]
    assumed = source.to_numpy(zero_copy_only=False) == _ASSUMED
    on = pc.fill_null(enabled, False).to_numpy(zero_copy_only=False).astype(bool)
    yield found.state("unclean_on", on & ~assumed, text=source)
    yield found.state("unclean_off", ~on & ~assumed, text=source)
    yield found.state("unclean_assumed", assumed, text=enabled.cast(pa.string()))


def _alive(brokers: BrokerTimeline, replicas: Array, states: pa.Table) -> Array:
    """The replicas of each state on brokers that may lead once the state's batch was applied."""
    # No other batch begins between a record and its own batch's begin.
    return sets.keep(replicas, brokers.active_members(replicas, states["offset"].to_numpy()))


def _ended_by(found: _Found, isr: Array, elr: Array) -> Iterator[StatementColumn]:
    """Who became leader, and from where; or that the topic was removed. isr, elr: of the last state."""
    rows = found.of.end[found.ended]
    leader, epoch = (found.behind(values[rows], -1) for values in (found.states.leader, found.states.leader_epoch))
    offset, led = found.behind(found.end["offset"].to_numpy(), -1), leader >= 0
    in_isr, in_elr = led & sets.has(isr, leader), led & sets.has(elr, leader)
    in_elr &= ~in_isr
    figures = {"brokers": leader, "offset": offset, "leader_epoch": epoch}
    yield found.state("ended_from_isr", in_isr, **figures)
    yield found.state("ended_from_elr", in_elr, **figures)
    yield found.state("ended_by_outsider", led & ~in_isr & ~in_elr, **figures)
    yield found.state("exposed_until_removal", found.behind(found.states.removed[rows], False), offset=offset)


def _last_replica(found: _Found, holders: Array) -> pa.Table:
    """holders: ISR and ELR of every row of the history."""
    states, of = found.states, found.of
    everywhere = np.ones(found.count, dtype=bool)
    begin, last = holders[of.first].max(axis=1), holders[of.last].max(axis=1)
    rows = of.end[found.ended]
    after = found.behind(holders[rows], PAD)
    removed, offset = found.behind(states.removed[rows], False), found.behind(found.end["offset"].to_numpy(), -1)
    changed = (of.end >= 0) & ~removed
    # Where there are still as many holders, it is the replicas that became fewer.
    single = changed & (sets.size(after) == 1)
    min_isr, source = found.last["min_isr"], found.last["min_isr_source"]
    assumed = source.to_numpy(zero_copy_only=False) == _ASSUMED
    led_states = np.append(0, np.cumsum(states.leader >= 0))
    led = led_states[of.last + 1] - led_states[of.first]
    whole = led == of.last + 1 - of.first
    said = [
        found.state("last_replica", everywhere, brokers=begin, offset=found.first["offset"]),
        found.state("last_replica_at_end", begin != last, brokers=last),
        *found.lasted(),
        found.state("min_isr_in_force", ~assumed, value=min_isr, text=source),
        found.state("min_isr_assumed", assumed, value=min_isr),
        found.state("last_replica_led", whole),
        found.state("last_replica_led_partly", ~whole & (led > 0)),
        found.state("last_replica_not_led", led == 0),
        found.state("more_replicas", changed & (sets.size(after) > 1), brokers=after, offset=offset),
        found.state("no_replica_left", changed & (sets.size(after) == 0), offset=offset),
        found.state("single_replica", single, offset=offset),
        found.state("exposed_until_removal", removed, offset=offset),
        found.state("last_replica_means", everywhere),
    ]
    return found.findings(LAST_REPLICA, said)
