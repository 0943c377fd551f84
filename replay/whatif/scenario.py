"""The words of a simulation: what is otherwise, who is asked for a leader, and the states that come of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from replay.arrow.ragged import Array
from replay.controller.profiles import Profile


@dataclass(frozen=True, slots=True)
class Leaderless:
    """Partitions whose controller finds nobody in ISR or ELR to elect, an element each. row: of the history, of the
    partition; offset: metadata offset. alive: its acceptable replicas; last_leader: the last one, -1 if none."""

    row: Array
    offset: Array
    timestamp_ms: Array
    replicas: Array
    alive: Array
    last_known_elr: Array
    last_leader: Array


@dataclass(frozen=True, slots=True)
class Scenario:
    """The rules to go by; None: those that were in force.

    profile: of the shipped controller. min_isr: min.insync.replicas; unclean: unclean.leader.election.enable; elr:
    eligible.leader.replicas.version on or off. deprioritized: (broker, from offset, to offset), KIP-491: tried last,
    not left out; last: one more such broker for each subject, PAD for none. recover: who is elected where nobody of ISR
    and ELR can be (ids, PAD: nobody yet); the controller then elects nobody else from there by itself.
    """

    profile: Profile | None = None
    min_isr: int | None = None
    unclean: bool | None = None
    elr: bool | None = None
    deprioritized: Sequence[tuple[int, int, int]] = ()
    last: Array | None = None
    recover: Callable[[Leaderless], Array] | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """The states that partitions went through, each subject's first included, by subject and offset. batch: base offset
    of the batch that made the state; min_isr: effective then. elected: a leader was, which did not lead right before;
    unclean: from outside ISR and ELR, or marked RECOVERING."""

    subject: Array
    offset: Array
    batch: Array
    timestamp_ms: Array
    leader: Array
    isr: Array
    elr: Array
    min_isr: Array
    elected: Array
    unclean: Array
