"""Random partition states, and the triggers of a change, as arguments of
`replay.controller.partition_change_builder`."""

from __future__ import annotations

import numpy as np

from replay.arrow.ragged import PAD, Array
from replay.controller.partition_change_builder import (
    ELECT_ONLINE,
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    RECOVERED,
    UNASSIGNED,
    Cases,
)

_BROKERS = 60
_REPLICAS = 3
_MIN_ISR = 2


def random_cases(count: int, seed: int) -> Cases:
    """Cases with three replicas, min ISR 2 and ELR: brokers stop and start; one partition in fifty is being
    reassigned."""
    random = np.random.default_rng(seed)
    step = _BROKERS // _REPLICAS
    shape = (count, _REPLICAS)
    replicas = random.integers(step, size=shape) + np.arange(_REPLICAS) * step
    in_sync, alive = random.random(shape) < 0.75, random.random(shape) < 0.75
    isr = _members(replicas, in_sync)
    eligible = ~in_sync & (in_sync.sum(axis=1) < _MIN_ISR)[:, None] & (random.random(shape) < 0.5)
    leaderless = ~in_sync.any(axis=1)
    known = leaderless & ~eligible.any(axis=1)
    moves = (random.random(count) < 0.02)[:, None]
    removing, adding = _members(replicas[:, :1], moves), _members(replicas[:, -1:], moves)
    everywhere = np.ones(count, dtype=bool)
    recovery = np.full(count, RECOVERED)
    return Cases(
        replicas=replicas,
        isr=isr,
        elr=_members(replicas, eligible),
        last_known_elr=_members(replicas[:, :1], known[:, None]),
        removing=removing,
        adding=adding,
        directories=random.integers(UNASSIGNED, 9, size=shape),
        leader=np.where(leaderless, -1, isr[:, 0]),
        recovery=recovery,
        election=random.choice([ELECT_PREFERRED, ELECT_ONLINE, ELECT_UNCLEAN], size=count, p=[0.1, 0.8, 0.1]),
        acceptable=_members(replicas, alive),
        # A broker that stopped leaves the ISR, or one that caught up joins it.
        target_isr=_members(replicas, np.where(random.random((count, 1)) < 0.5, in_sync & alive, in_sync | alive)),
        target_replicas=replicas,
        target_removing=removing,
        target_adding=adding,
        target_recovery=recovery,
        unclean_shutdown=_members(replicas[:, :1], random.random((count, 1)) < 0.05),
        min_isr=np.full(count, _MIN_ISR),
        elr_enabled=everywhere,
        marks_recovery=everywhere,
        bumps_leader_epoch_on_shrink=~everywhere,
        has_directories=everywhere,
    )


def _members(replicas: Array, mask: Array) -> Array:
    order = np.argsort(~mask, axis=1, kind="stable")
    members: Array = np.take_along_axis(np.where(mask, replicas, PAD), order, axis=1)
    return members
