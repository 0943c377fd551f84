"""Random lives by the kind of fault that they have."""

import random
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from replay.terms.replica_logs import APPENDED_BY_BROKERS
from tests.simulator.life import Life, Thinning
from tests.simulator.node_logs import LOGGERS, LogThinning
from tests.simulator.setup import BEGIN_MS, Setup, Step

# Broker ids and metadata offsets of one life are within so many; so many lives in a row share controllers' fail-overs,
# clocks and a session timeout; so many have other ids, offsets and partitions, and fit into one cluster.
ROOM, OFFSETS, SHARED, PLACES = 10, 1_000_000, 64, 512

WRITES = {"produce": 6, "stream": 4, "produce_acks_1": 1, "capture": 7, "disk": 2, "idle": 1, "retain": 1}
STOPS = {"stop": 6, "bounce": 3, "start": 6, "start_all": 3, "prefer": 3, "elect_uncleanly": 3, "heal": 1}
PLAIN = WRITES | STOPS
KILLS = PLAIN | {"kill": 3, "power_loss": 9, "stop": 3, "start": 8, "start_all": 5}


@dataclass(frozen=True)
class Fault:
    """What may happen: weights of the steps, how the cluster may be, and what is taken away of the evidence.
    times_are_off: those of brokers' lines may be, by more than the clocks' error."""

    weights: dict[str, int]
    profiles: Sequence[str] = ("4.1.1", "4.1.1", "4.1.0", "4.3", "4.0")
    elr: float = 0.5
    old_brokers: float = 0.15
    fail_overs: float = 0.0
    skewed: bool = False
    missing: bool = False
    gap: bool = False
    recreated: bool = False
    spare: float = 0.15
    unclean: float = 0.3
    appends_by_itself: bool = False
    min_isr: Sequence[int] = (1, 2, 2, 2, 3)
    request_threads: int = 8
    min_isr_layer: str = "topic"
    times_are_off: bool = True
    reads_in_pieces: bool = False
    hushed: bool = False
    late_heartbeats: bool = False
    late_requests: bool = False
    silenced: bool = False
    metadata_apart: float = 0.0


def _classes() -> Iterator[tuple[str, Fault]]:
    for name, given in tomllib.loads(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8")).items():
        base = {"plain": PLAIN, "kills": KILLS}[given.pop("base")]
        yield name, Fault(base | given.pop("more", {}), **given)


FAULTS = dict(_classes())
TWO = "two at once"  # the class whose lives have the faults of two others

GAPS_MS = ((50, 600), (400, 3_000), (1_500, 9_000), (6_000, 20_000), (20_000, 70_000))
PACES = ((1, 5, 6, 2, 1), (6, 6, 3, 1, 0), (0, 2, 5, 4, 2), (2, 3, 6, 6, 0))


def life(fault: str, seed: int) -> Life:
    """The life of that seed, which is also its place among those that share a cluster."""
    kind, rng = FAULTS[fault], random.Random(f"{fault} {seed}")
    if fault == TWO:
        others = [each for name, each in FAULTS.items() if name != TWO]
        kind = _both(*random.Random(f"{fault} {seed // SHARED}").sample(others, 2))
    shared = random.Random(f"{fault} {seed // SHARED}")
    setup = _setup(kind, rng, shared, seed % PLACES)
    steps, thinning = _steps(kind, rng, len(setup.brokers)), _thinning(kind, rng)
    return Life(setup, steps, thinning, fault, seed, logs=_logs(kind, random.Random(f"logs {fault} {seed}")))


def _both(one: Fault, other: Fault) -> Fault:
    """What may happen in either class; of how the cluster may be, what is not the default of one, then of the other."""
    weights = {name: max(each.weights.get(name, 0) for each in (one, other)) for name in one.weights | other.weights}
    changed = {name: value for name, value in vars(one).items() if value != getattr(Fault, name, None)}
    return replace(other, **changed | {"weights": weights})


def _logs(kind: Fault, rng: random.Random) -> LogThinning | None:
    """Half of the lives have brokers' logs, most of them not all."""
    if rng.random() < 0.5:
        return None
    share, missing, silent = rng.choice((0, 0, 0.1, 0.4)), rng.choice((0, 0, 0.2, 0.6)), rng.choice((0, 0, 0.2))
    utc_off, stepped, copied = rng.random() < 0.5, rng.random() < 0.2, rng.random() < 0.2
    off = kind.times_are_off
    thinning = LogThinning(share, missing, silent, utc_off and off, stepped and off, copied, rng.randrange(2**31))
    if not kind.silenced:
        return thinning
    often = rng.choice((0.3, 0.9))
    kinds = (kind for name in LOGGERS if rng.random() < often for kind in LOGGERS[name])
    return replace(thinning, silenced=frozenset(kinds))


def _setup(kind: Fault, rng: random.Random, shared: random.Random, number: int) -> Setup:
    replicas = rng.choice((2, 2, 3, 3, 3, 4))
    spare = rng.randint(1, 2) if rng.random() < kind.spare else 0
    size = min(5, replicas + spare)
    first = number * ROOM + 1
    timeout_ms = shared.choice((6_000, 9_000, 9_000))
    skews: tuple[int, ...] = ()
    error_ms = shared.choice((300, 2_000, 7_000)) if kind.skewed else 0
    if error_ms:
        # One clock is right, another one is off by all of it; so the error is the same for all that share the cluster.
        base = rng.choice((0, -error_ms))
        skews = tuple(base + rng.choice((0, error_ms, rng.randint(0, error_ms))) for _ in range(size + 1))
        skews = (*skews, base + error_ms if min(skews) <= base else base)
        if max(0, *skews) - min(0, *skews) != error_ms:
            skews = (base, base + error_ms, *skews[2:])
    fail_overs: tuple[tuple[int, int], ...] = ()
    if shared.random() < kind.fail_overs:
        at = BEGIN_MS + 20_000
        for _ in range(shared.randint(1, 6)):
            at += shared.randint(2_000, 60_000)
            fail_overs += ((at, at + shared.randint(300, 8_000)),)
            at = fail_overs[-1][1]
    cut_ms = BEGIN_MS + shared.randint(30_000, 300_000) if kind.gap and shared.random() < 0.3 else None
    # Coordinators have three topics, of which each life has a partition.
    topics = sorted(APPENDED_BY_BROKERS) if kind.appends_by_itself else ()
    partition, place = divmod(number, len(topics) or PLACES)
    elr = rng.random() < kind.elr
    # ELR needs brokers of 4.0: they let the high watermark stand.
    old_brokers = rng.random() < kind.old_brokers and not elr and "elr" not in kind.weights
    return Setup(
        brokers=tuple(range(first, first + size)),
        replicas=replicas,
        min_isr=rng.choice(kind.min_isr),
        elr=elr,
        unclean=rng.random() < kind.unclean,
        profile=rng.choice(kind.profiles),
        hwm_stands_below_min_isr=not old_brokers,
        removes_at_registration=rng.random() < 0.7,
        session_timeout_ms=timeout_ms,
        checkpoint_interval_ms=rng.choice((5_000, 5_000, 500)),
        replica_lag_time_max_ms=rng.choice((30_000, 30_000, 10_000)),
        fail_overs=fail_overs,
        skews_ms=skews,
        hidden_first_topic=kind.recreated and rng.random() < 0.5,
        cut_ms=cut_ms,
        seed=rng.randrange(2**31),
        appends_by_itself=kind.appends_by_itself,
        compacted="compact" in kind.weights,
        request_threads=kind.request_threads,
        min_isr_layer=kind.min_isr_layer,
        reads_in_pieces=kind.reads_in_pieces,
        hushed=kind.hushed,
        late_heartbeats=kind.late_heartbeats,
        late_requests=kind.late_requests,
        topic=topics[place] if topics else f"t{place}",
        partition=partition,
        topic_ids=f"{'T' * 10}{place:08}",
        base_offset=number * OFFSETS,
        metadata_apart=kind.metadata_apart > 0 and rng.random() < kind.metadata_apart,
    )


def _steps(kind: Fault, rng: random.Random, size: int) -> list[Step]:
    """Things happen at one broker for a while, then at another; not all kinds of them in every life."""
    names = list(kind.weights)
    some = rng.random() < 0.5
    weights = [kind.weights[n] * (0 if some and n not in WRITES and rng.random() < 0.4 else 1) for n in names]
    pace, broker, steps = list(accumulate(rng.choice(PACES))), 0, list[Step]()
    up_to = list(accumulate(weights))
    for _ in range(rng.randint(20, 60)):
        broker = broker if rng.random() < 0.6 else rng.randrange(size)
        low, high = rng.choices(GAPS_MS, cum_weights=pace)[0]
        name = rng.choices(names, cum_weights=up_to)[0]
        steps.append(Step(name, broker, rng.choice((0, 0, 1, 1, 2, 3, 4, 6, 9)), rng.randint(low, high)))
    return steps


def _thinning(kind: Fault, rng: random.Random) -> Thinning:
    gap = (rng.randint(0, 900), rng.randint(10, 400)) if kind.gap and rng.random() < 0.8 else None
    if not kind.missing:
        return Thinning(gap=gap)
    optional = ("process_start_ms", "in_sync_replicas_count", "under_min_isr", "last_written_leader_epoch")
    columns = tuple(c for c in optional if rng.random() < 0.15)
    return Thinning(rng.choice((0.02, 0.1, 0.3)), rng.random() < 0.3, columns, gap, rng.randrange(2**31))
