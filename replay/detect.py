"""Windows, verdicts and counterfactuals of one bucket of partitions: history + log-end offsets -> tables.

The search for suspects is vectorised; only partitions that are suspected are then judged one by one.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from replay import explain, policies, tables
from replay.brokers import BrokerTimeline
from replay.elections import States, build_elections, leader_changes, previous_leaders, states_of
from replay.lists import Array
from replay.offsets import Clock, Replica, Row, last_seen
from replay.verdicts import EXCLUDED, RULE, RULE_VERSION, SEVERITY, Election, Judgement, Lineage, judge
from replay.windows import Windows, build_windows

KIND = "hwm_regression"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What holds for the whole cluster. elr_enabled: whether ELR was on at an offset (FeatureLevelRecord)."""

    cluster_id: str
    brokers: BrokerTimeline
    elr_enabled: Callable[[int], bool]
    clock: Clock


@dataclass(frozen=True, slots=True)
class Detected:
    """tables.ELECTIONS, tables.FINDINGS and tables.COUNTERFACTUALS of a bucket."""

    elections: pa.Table
    findings: pa.Table
    counterfactuals: pa.Table


def finding_id(*parts: object) -> str:
    """A stable id: the same cluster, kind, partition and place give the same id whenever it is computed."""
    return hashlib.sha256("|".join(map(str, parts)).encode()).hexdigest()[:16]


def detect(history: pa.Table, offsets: pa.Table, cluster: Cluster) -> Detected:
    """Judge every window. history: tables.PARTITION_HISTORY rows of whole partitions; offsets: LOG_END_OFFSETS rows with
    their topic_id filled in."""
    order = [("topic_id", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    history = history.sort_by(order).combine_chunks()
    states = states_of(history)
    windows = build_windows(states, _contradicted(history, states, offsets))
    findings: list[Row] = []
    counterfactuals: list[Row] = []
    judged = set(states.key[windows.election].tolist())
    evidence = _by_partition(offsets, history, states, judged)
    for key, positions in _groups(states.key[windows.election]):
        lineage = Lineage()
        for position in positions:
            case = _Case(history, states, windows, position, cluster, evidence[key])
            judgement = judge(case.election, case.rows, lineage, cluster.clock)
            lineage = judgement.lineage
            picks = _counterfactuals(case, judgement)
            findings.append(_finding(case, judgement, picks))
            counterfactuals += picks
    return Detected(
        build_elections(history, states, cluster.brokers),
        pa.Table.from_pylist(findings, schema=tables.FINDINGS),
        pa.Table.from_pylist(counterfactuals, schema=tables.COUNTERFACTUALS),
    )


def _contradicted(history: pa.Table, states: States, offsets: pa.Table) -> Array:
    """Elections whose leader's log ended below a high watermark reported at any time: worth judging, nothing more."""
    result = np.zeros(len(states.key), dtype=bool)
    rows = leader_changes(states)
    rows = rows[states.leader[rows] >= 0]
    starts = offsets.filter(offsets["epoch_start_offset"].is_valid())
    marks = offsets.filter(offsets["high_watermark"].is_valid())
    if not len(rows) or not len(starts) or not len(marks):
        return result
    place = ["topic_id", "partition"]
    first = starts.group_by([*place, "leader_epoch"]).aggregate([("epoch_start_offset", "min")])
    highest = marks.group_by(place).aggregate([("high_watermark", "max")])
    elected = history.select([*place, "leader_epoch"]).take(pa.array(rows)).append_column("row", pa.array(rows))
    joined = elected.join(first, [*place, "leader_epoch"], join_type="inner").join(highest, place, join_type="inner")
    below = joined["epoch_start_offset_min"].to_numpy() < joined["high_watermark_max"].to_numpy()
    result[joined["row"].to_numpy()[below]] = True
    return result


def _groups(keys: Array) -> Iterator[tuple[int, list[int]]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for position, key in enumerate(keys.tolist()):
        groups[key].append(position)
    yield from groups.items()


def _by_partition(offsets: pa.Table, history: pa.Table, states: States, judged: set[int]) -> dict[int, list[Row]]:
    """The evidence rows of the judged partitions, by the key that `states` gives a partition."""
    rows = np.flatnonzero(states.begins & np.isin(states.key, list(judged)))
    names = history.select(["topic_id", "partition"]).take(pa.array(rows)).to_pylist()
    keys = {(n["topic_id"], n["partition"]): int(k) for n, k in zip(names, states.key[rows], strict=True)}
    wanted = pa.table({"topic_id": [k[0] for k in keys], "partition": pa.array([k[1] for k in keys], type=pa.int32())})
    result: dict[int, list[Row]] = defaultdict(list)
    if keys:
        for row in offsets.join(wanted, ["topic_id", "partition"], join_type="inner").to_pylist():
            result[keys[row["topic_id"], row["partition"]]].append(row)
    return result


class _Case:
    """One judged election with everything that is asked about it."""

    def __init__(
        self, history: pa.Table, states: States, windows: Windows, position: int, cluster: Cluster, rows: list[Row]
    ) -> None:
        at = int(windows.election[position])
        end = int(windows.end[position])
        self.cluster, self.rows, self.states, self.at = cluster, rows, states, at
        self.first = int(np.flatnonzero(states.begins[: at + 1])[-1])
        # The partition's known states up to the election, and the next one: all that a verdict looks at.
        self.timeline = history.slice(self.first, at - self.first + 1).to_pylist()
        self.after, self.before = self.timeline[-1], self.timeline[-2]
        self.start = self.timeline[int(windows.start[position]) - self.first]
        self.end = history.slice(end, 1).to_pylist()[0] if end >= 0 else None
        self.previous_leader = int(previous_leaders(_slice(states, self.first, at + 1))[-1])
        self.replaced_ms = self._replaced(history)
        self.election = self._election()

    def _replaced(self, history: pa.Table) -> int | None:
        epoch = self.after["leader_epoch"]
        for index in range(self.at + 1, len(self.states.key)):
            if self.states.key[index] != self.states.key[self.at] or self.states.begins[index]:
                return None
            if self.states.leader_epoch[index] != epoch:
                return int(history["timestamp_ms"][index].as_py())
        return None

    def _election(self) -> Election:
        winner = self.after["leader"]
        held = winner in self.before["isr"] or winner in self.before["elr"]
        joined = self.before
        for state in reversed(self.timeline[:-1]):
            if winner not in state["isr"] and winner not in state["elr"]:
                break
            joined = state
        restarted = self.cluster.brokers.restarted(winner, joined["offset"], self.after["offset"])
        # With ELR on, the controller itself takes a broker that restarted uncleanly off the ISR and the ELR.
        vouched = self.cluster.elr_enabled(self.after["offset"])
        frozen, leaders = self._frozen()
        return Election(
            leader=winner,
            leader_epoch=self.after["leader_epoch"],
            elected_ms=self.after["timestamp_ms"],
            replaced_ms=self.replaced_ms,
            frozen=frozen,
            leaders=leaders,
            held=held,
            restarted=restarted and not vouched,
        )

    def _frozen(self) -> tuple[tuple[int, int] | None, tuple[int, ...]]:
        """The stretch right before the election in which |ISR| < min ISR kept the high watermark where it was."""
        start, leaders = None, set()
        for state in reversed(self.timeline[:-1]):
            if state["min_isr_source"] == "assumed_default" or len(state["isr"]) >= state["min_isr"]:
                break
            start = state["timestamp_ms"]
            leaders.add(state["leader"])
        if start is None:
            return None, ()
        return (start, self.after["timestamp_ms"]), tuple(leaders - {-1})

    def seen(self) -> dict[int, Replica]:
        found = {}
        for broker in self.after["replicas"]:
            replica = last_seen(self.rows, broker, self.after["timestamp_ms"], self.cluster.clock)
            if replica:
                found[broker] = replica
        return found

    def situation(self) -> policies.Situation:
        known = self.before["last_known_elr"]
        batch = self.after["batch_base_offset"]
        return policies.Situation(
            replicas=self.after["replicas"],
            isr=self.before["isr"],
            elr=self.before["elr"],
            alive=[b for b in self.after["replicas"] if self.cluster.brokers.active(b, batch)],
            waited_for=known[0] if len(known) == 1 else self.previous_leader if self.previous_leader >= 0 else None,
            seen=self.seen(),
            recorded=self.after["leader"],
        )

    def finding_id(self) -> str:
        place = (self.after["topic_id"], self.after["partition"], self.after["offset"])
        return finding_id(self.cluster.cluster_id, KIND, *place)


def _slice(states: States, start: int, end: int) -> States:
    return States(*(getattr(states, name)[start:end] for name in States.__slots__))


def _counterfactuals(case: _Case, judgement: Judgement) -> list[Row]:
    """What each policy would have picked; nothing for an excluded window."""
    if judgement.verdict == EXCLUDED:
        return []
    situation = case.situation()
    return [_counterfactual(case, judgement, situation, policies.pick(name, situation)) for name in policies.POLICIES]


def _counterfactual(case: _Case, judgement: Judgement, situation: policies.Situation, pick: policies.Pick) -> Row:
    replica = situation.seen.get(pick.leader) if pick.leader is not None else None
    loss_min: int | None = None
    loss_max: int | None = None
    if pick.leader == situation.recorded:
        loss_min, loss_max = judgement.loss_min, judgement.loss_max
    elif replica:
        if judgement.floor.value is not None:
            loss_min = max(0, judgement.floor.value - replica.log_end_offset)
        if judgement.ceiling.value is not None:
            loss_max = max(0, judgement.ceiling.value - replica.log_end_offset)
    return {
        "finding_id": case.finding_id(),
        "topic_id": case.after["topic_id"],
        "topic": case.after["topic"],
        "partition": case.after["partition"],
        "offset": case.after["offset"],
        "policy": pick.policy,
        "outcome": pick.outcome,
        "leader": pick.leader,
        "last_written_leader_epoch": replica.last_written_leader_epoch if replica else None,
        "log_end_offset": replica.log_end_offset if replica else None,
        "loss_min": loss_min,
        "loss_max": loss_max,
        "differs": None if pick.leader is None else pick.leader != situation.recorded,
        "explanation": pick.explanation,
    }


def _finding(case: _Case, judgement: Judgement, picks: list[Row]) -> Row:
    differing = next((p for p in picks if p["policy"] == policies.ALL_REPLICAS and p["differs"]), None)
    finding: dict[str, Any] = {
        "finding_id": case.finding_id(),
        "kind": KIND,
        "topic_id": case.after["topic_id"],
        "topic": case.after["topic"],
        "partition": case.after["partition"],
        "start_offset": case.start["offset"],
        "end_offset": case.end["offset"] if case.end else None,
        "start_timestamp_ms": case.start["timestamp_ms"],
        "end_timestamp_ms": case.end["timestamp_ms"] if case.end else None,
        "election_offset": case.after["offset"],
        "verdict": judgement.verdict,
        "severity": SEVERITY[judgement.verdict],
        "loss_min": judgement.loss_min,
        "loss_max": judgement.loss_max,
        "first_lost_offset": judgement.first_lost_offset,
        "unacked_max": 0 if judgement.verdict == EXCLUDED else None,
        "recorded_leader": case.after["leader"],
        "would_be_leader": differing["leader"] if differing else None,
        "policy": differing["policy"] if differing else None,
        "rule": RULE,
        "rule_version": RULE_VERSION,
        "evidence": explain.evidence_rows(case.before, case.after, case.start, judgement, case.situation().seen),
    }
    finding["explanation"] = explain.prose(finding, case.election, judgement, case.before, case.after)
    return finding
