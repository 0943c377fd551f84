"""Types of a simulation: the rules to follow, and the resulting states."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from replay.arrow.ragged import Array
from replay.controller.profiles import Profile
from replay.loss.judged_windows import Situation


@dataclass(frozen=True, slots=True)
class Scenario:
    """The rules of a simulation; None: the rules that were in force.

    profile: of the shipped controller. min_isr: min.insync.replicas; unclean: unclean.leader.election.enable; elr:
    eligible.leader.replicas.version on or off. deprioritized: (broker, from offset, to offset), KIP-491: tried last,
    not left out. recover: returns who is elected where no member of ISR and ELR can be, if it is alive, and None for
    nobody yet; the controller then elects nobody else there by itself. It gets the row of the history where the
    partition's stretch begins, metadata offset and time (ms), and the situation, without what was last seen of the
    replicas.
    """

    profile: Profile | None = None
    min_isr: int | None = None
    unclean: bool | None = None
    elr: bool | None = None
    deprioritized: Sequence[tuple[int, int, int]] = ()
    recover: Callable[[int, int, int, Situation], int | None] | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """The states that partitions went through, including each subject's first, by subject and offset.

    batch: base offset of the batch that made the state; min_isr: effective then. elected: the state elects a leader
    that did not lead right before; unclean: that leader is from outside ISR and ELR, or marked RECOVERING.
    """

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


def loss_with_min_isr(
    bounds: tuple[int | None, int | None], tried: int | None, recorded: int | None
) -> tuple[int | None, int | None]:
    """(least, most) acknowledged offsets lost in a recorded window, had min.insync.replicas been another one; tried
    None: as it was. With a higher one acks=all might have been refused, so that nothing need have been acknowledged;
    with a lower one the high watermark might have gone on."""
    least, most = bounds
    if tried is None or tried == recorded:
        return least, most
    return (least, None) if recorded is not None and tried < recorded else (0, most)
