"""Simulated lives by the kind of fault that they have, and many of them in one cluster, to be judged at once."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replay.brokers import BrokerTimeline
from replay.cases import Cluster
from replay.offsets import Clock
from tests.support.scenario import TOPIC_ID, offsets_table, sessions, together
from tests.unit.replay.simulated import GAPS, Gap, Partition, Row, Setup, Step

PLAIN = ["produce", "produce", "replicate", "replicate", "checkpoint", "capture", "capture", "capture", "disk"]
PLAIN += ["stop", "return", "return", "shrink", "expand", "elect", "force", "retain"]
KILLS = [*PLAIN, "kill", "kill", "return"]
SKEWS = [(4, 0, 2, 0), (0, 9, 0, 1), (-5, 0, 3, 0), (0, -7, 0, -7), (-9, -9, 0, 0)]
# Broker ids of one life are within so many.
ROOM = 10


@dataclass(frozen=True)
class Fault:
    """What may happen. skewed: clocks differ; missing: some of the copied rows are; gap: so is a part of the log."""

    operations: Sequence[str]
    skewed: bool = False
    missing: bool = False
    gap: bool = False


FAULTS = {
    "clean stops": Fault(PLAIN),
    "unclean restarts": Fault(KILLS),
    "lost checkpoint files": Fault([*KILLS, "forget", "forget"]),
    "isolated leaders": Fault([*KILLS, "isolate", "isolate"]),
    "skewed clocks": Fault(KILLS, skewed=True),
    "missing rows": Fault(KILLS, missing=True),
    "missing log": Fault(KILLS, gap=True),
    "everything": Fault([*KILLS, "forget", "isolate"], skewed=True, missing=True, gap=True),
}


@dataclass(frozen=True)
class Life:
    """A partition with what is left of its evidence."""

    partition: Partition
    rows: list[Row]
    gap: Gap = None


def life(seed: int, fault: str, number: int = 0) -> Life:
    """The life of that seed. number: gives it a topic and brokers of its own."""
    rng, kind = random.Random(f"{fault} {seed}"), FAULTS[fault]
    size = rng.choice([3, 3, 3, 4])
    setup = Setup(
        brokers=tuple(range(number * ROOM + 1, number * ROOM + 1 + size)),
        min_isr=rng.choice([1, 2, 2, 3]),
        elr=rng.random() < 0.5,
        unclean=rng.random() < 0.3,
        skews=rng.choice(SKEWS) if kind.skewed else (0, 0, 0, 0),
        topic_id=f"{TOPIC_ID[:-6]}{number:06}",
    )
    partition = Partition(setup, _steps(rng, kind, size))
    rows = partition.evidence()
    if kind.missing:
        rows = _left(rng, rows)
    start = rng.randint(0, partition.now)
    return Life(partition, rows, (start, start + rng.randint(1, 300)) if kind.gap else None)


def _steps(rng: random.Random, fault: Fault, size: int) -> list[Step]:
    """Much happens to one broker in a row, and not everything in every life: that is when it gets hard."""
    operations = rng.sample(fault.operations, rng.randint(len(fault.operations) // 3, len(fault.operations)))
    gaps = rng.choice([range(len(GAPS)), range(len(GAPS)), range(3)])
    steps: list[Step] = []
    broker = 0
    for _ in range(rng.randint(20, 100)):
        broker = broker if rng.random() < 0.6 else rng.randrange(size)
        gap = rng.choice(gaps)
        # The number that is `broker` by one modulus and `gap` by the other.
        number = next(n for n in range(size * len(GAPS)) if (n % size, n % len(GAPS)) == (broker, gap))
        steps.append((rng.choice(operations), number, rng.randrange(13)))
    return steps


def _left(rng: random.Random, rows: list[Row]) -> list[Row]:
    """Rows of which some files, some brokers' rounds and some lines are gone."""
    share = rng.choice([0.02, 0.1, 0.3])
    files = sorted({r["path"] for r in rows})
    gone = {f for f in files if rng.random() < share}
    broker = rng.choice([None, *sorted({r["broker_id"] for r in rows})])
    return [
        r
        for r in rows
        if r["path"] not in gone and rng.random() > share and (r["broker_id"] != broker or rng.random() < 0.5)
    ]


def groups(lives: Iterable[Life]) -> list[list[Life]]:
    """Lives that one cluster can have: it has ELR on or off, and one clock error."""
    found: dict[Any, list[Life]] = {}
    for each in lives:
        found.setdefault((each.partition.setup.elr, each.partition.setup.clock_error), []).append(each)
    return list(found.values())


def one_cluster(lives: Sequence[Life]) -> tuple[pa.Table, pa.Table, Cluster]:
    """(history, offsets, cluster) of a group: its log ends with the last of them."""
    history = together(*(each.partition.table(each.gap) for each in lives))
    offsets = offsets_table([row for each in lives for row in each.rows])
    brokers: BrokerTimeline = sessions(*(line for each in lives for line in each.partition.session_lines(each.gap)))
    setup = lives[0].partition.setup
    end_ms = max(each.partition.now for each in lives) * 1000
    clock = Clock(setup.clock_error * 1000)
    return history, offsets, Cluster("simulated", brokers, lambda _: setup.elr, clock, end_ms)
