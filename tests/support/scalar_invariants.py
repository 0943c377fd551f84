"""The invariants of partitions one state and one offset at a time, with sets: the measure of
replay.invariants.partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.cluster.brokers import BrokerTimeline
from replay.cluster.configs import ConfigChange

Row = dict[str, Any]
# Invariant, topic id, partition, start, end, states, brokers.
Stretch = tuple[str, str, int, int, int | None, int, tuple[int, ...]]

TOPIC, BROKER = 2, 4
MIN_ISR = "min.insync.replicas"
ELR, VERSION = "eligible.leader.replicas.version", "metadata.version"
FIRST_WITH_MARK = 3


@dataclass(frozen=True)
class World:
    """What holds beside the partitions. levels: (offset, feature, level); controllers: (offset, active node);
    configs in offset order; hidden: the elections (topic id, partition, offset) that were unclean without a mark."""

    brokers: BrokerTimeline
    levels: Sequence[tuple[int, str, int]] = ()
    cleared: frozenset[int] = frozenset()
    configs: Sequence[ConfigChange] = ()
    controllers: Sequence[tuple[int, int | None]] = ()
    static: dict[int, dict[str, str]] = field(default_factory=dict)
    hidden: frozenset[tuple[str, int, int]] = frozenset()
    topics: dict[str, str] = field(default_factory=dict)
    last_offset: int = 0

    def level(self, feature: str, offset: int) -> int:
        return next((v for o, name, v in reversed(self.levels) if name == feature and o <= offset), 0)

    def registered(self, broker: int, offset: int) -> bool | None:
        seen = [s for s in self.brokers.states.get(broker, []) if s.offset <= offset]
        return seen[-1].incarnation_id is not None if seen else None

    def excused(self, broker: int, batch: int) -> bool:
        """The batch registers the broker in a new incarnation, or unregisters it."""
        before = None
        for state in self.brokers.states.get(broker, []):
            if state.batch_base_offset == batch and (state.incarnation_id is None or state.incarnation_id != before):
                return True
            before = state.incarnation_id
        return False

    def active(self, offset: int) -> int | None:
        return next((node for at, node in reversed(self.controllers) if at <= offset), None)

    def min_isr(self, node: int | None, topic: str, offset: int) -> int | None:
        """min.insync.replicas as a node resolves it; None if only its file would tell and was not captured."""
        in_force: dict[tuple[int, str], str | None] = {}
        for change in self.configs:
            if change.offset <= offset:
                in_force[change.resource_type, change.resource] = change.value
        for layer in ((TOPIC, topic), (BROKER, str(node)), (BROKER, "")):
            if in_force.get(layer) is not None:
                return int(in_force[layer] or 0)
        file = self.static.get(node) if node is not None else None
        if file is None or not {MIN_ISR, "process.roles"} & file.keys():
            return None
        return int(file.get(MIN_ISR, "1"))


def scalar_stretches(rows: list[Row], world: World) -> list[Stretch]:
    """Every stretch of the history's rows (sorted) that breaks an invariant."""
    found: list[Stretch] = []
    partitions = sorted({(r["topic_id"], r["partition"]) for r in rows})
    for topic_id, partition in partitions:
        own = [r for r in rows if (r["topic_id"], r["partition"]) == (topic_id, partition)]
        zero = [r for r in rows if (r["topic_id"], r["partition"]) == (topic_id, 0)]
        moments = [(number, offset, broken) for number, offset, broken in _moments(own, zero, world)]
        for name in sorted({name for _, _, broken in moments for name in broken}):
            found += [(name, topic_id, partition, *s) for s in _runs(name, moments, own)]
    return sorted(found, key=str)


def _runs(name: str, moments: list[tuple[int, int, dict[str, set[int]]]], rows: list[Row]) -> Iterable[Any]:
    run: list[tuple[int, int, set[int]]] = []
    for number, offset, broken in [*moments, (len(rows), None, {})]:
        anew = number < len(rows) and offset == rows[number]["offset"] and rows[number]["origin"] == "checkpoint"
        if run and (name not in broken or anew):
            last = rows[run[-1][0]]
            inside = number == run[-1][0]
            end = offset if inside else last["end_offset"]
            brokers = set().union(*(b for _, _, b in run))
            yield run[0][1], end, len({n for n, _, _ in run}), tuple(sorted(brokers))
            run = []
        if name in broken:
            run.append((number, offset or 0, broken[name]))


def _moments(rows: list[Row], zero: list[Row], world: World) -> Iterable[tuple[int, int, dict[str, set[int]]]]:
    """(number of the row, offset, what is broken there and whom it is about), at every offset of the partition."""
    highest = -1
    latched: dict[str, set[int]] = {}
    for number, row in enumerate(rows):
        before = rows[number - 1] if number else None
        if row["removed"]:
            latched = {}
            yield number, row["offset"], {}
            continue
        earlier = before if before and not before["removed"] else None
        continues = earlier if row["origin"] != "checkpoint" else None
        broken = _state(row, world)
        latched = _latched(row, continues, latched, world)
        if row["leader_epoch"] < highest:
            broken["leader_epoch_never_falls"] = {row["leader"]} - {-1}
        highest = max(highest, row["leader_epoch"])
        step = row["partition_epoch"] - earlier["partition_epoch"] if earlier else 1
        if step != 1 if continues else step < 0:
            broken["partition_epoch_by_one"] = set()
        end = row["end_offset"] if row["end_offset"] is not None else world.last_offset + 1
        for offset in range(row["offset"], end):
            yield number, offset, broken | latched | _beside(row, zero, offset, world)


def _state(row: Row, world: World) -> dict[str, set[int]]:
    replicas, isr, elr, known = (set(row[n]) for n in ("replicas", "isr", "elr", "last_known_elr"))
    leader = {row["leader"]} - {-1}
    repeated = {b for b in replicas if row["replicas"].count(b) > 1}
    enough = row["min_isr_source"] != "assumed_default" and len(row["isr"]) >= row["min_isr"]
    checks = {
        "isr_and_elr_disjoint": (isr & elr, isr & elr),
        "elr_empty_at_min_isr": (elr and enough, elr),
        "isr_within_replicas": (isr - replicas, isr - replicas),
        "elr_within_replicas": (elr - replicas, elr - replicas),
        "last_known_elr_within_replicas": (known - {-1} - replicas, known - {-1} - replicas),
        "leader_in_isr": (leader - isr, leader - isr),
        "last_known_elr_at_most_one": (len(row["last_known_elr"]) > 1, known - {-1}),
        "last_known_elr_never_minus_one": (-1 in known, set()),
        "recovering_isr_is_leader": (row["leader_recovery_state"] == "RECOVERING" and len(row["isr"]) > 1, isr),
        "replicas_distinct": (repeated, repeated),
        "directories_match_replicas": (len(row["directories"]) != len(row["replicas"]), set()),
    }
    return {name: brokers for name, (is_broken, brokers) in checks.items() if is_broken}


def _latched(row: Row, before: Row | None, latched: dict[str, set[int]], world: World) -> dict[str, set[int]]:
    """What a change broke and no later one mended."""
    if before is None:
        return {}
    held, held_before = (set(r["isr"]) | set(r["elr"]) for r in (row, before))
    low = row["min_isr_source"] != "assumed_default" and len(held) < row["min_isr"]
    recovering = row["leader_recovery_state"] == "RECOVERING"
    epoch_began = row["leader_epoch"] != before["leader_epoch"]
    helpless = row["leader"] == -1 and not held and not row["last_known_elr"]
    now: dict[str, set[int]] = {}

    name = "isr_plus_elr_not_below_min_isr"
    lost = {b for b in (held_before - held) & set(row["replicas"]) if not world.excused(b, row["batch_base_offset"])}
    fell = low and len(held_before) >= row["min_isr"] and world.level(ELR, row["offset"]) >= 1 and lost
    fell = fell and row["offset"] not in world.cleared and not (recovering and epoch_began and row["leader"] >= 0)
    if fell or (low and name in latched):
        now[name] = lost if fell else set()

    name = "elr_cleared_while_leaderless"
    gone = set(before["elr"]) | set(before["last_known_elr"])
    lost = {b for b in gone - {-1} if not world.excused(b, row["batch_base_offset"])}
    gave_up = helpless and before["leader"] == -1 and gone and lost
    if gave_up or (helpless and name in latched):
        now[name] = lost if gave_up else set()

    name = "unclean_without_mark"
    marks = world.level(VERSION, row["offset"]) >= FIRST_WITH_MARK
    starts = marks and (row["topic_id"], row["partition"], row["offset"]) in world.hidden
    if starts or (name in latched and not recovering and not epoch_began):
        now[name] = {row["leader"]} - {-1}
    return now


def _beside(row: Row, zero: list[Row], offset: int, world: World) -> dict[str, set[int]]:
    """What is broken at an offset by what other records say."""
    found: dict[str, set[int]] = {}
    gone = {b for b in row["elr"] if b >= 0 and world.registered(b, offset) is False}
    if gone:
        found["unregistered_broker_in_elr"] = gone
    topic, leader = world.topics[row["topic_id"]], row["leader"]
    first = [r for r in zero if r["offset"] <= offset]
    cap = len(row["replicas"]) if not first or first[-1]["removed"] else len(first[-1]["replicas"])
    controller = world.min_isr(world.active(offset), topic, offset)
    broker = world.min_isr(leader, topic, offset)
    known = controller is not None and broker is not None and leader in {*world.brokers.states, *world.static}
    if known and min(controller or 0, cap) != min(broker or 0, len(row["replicas"])):
        found["min_isr_layers_disagree"] = {leader}
    return found
