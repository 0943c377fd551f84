"""Up to where the log of an elected leader was the partition's log, by the leader-epoch-checkpoints."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from replay.offsets.evidence import OPEN, Bound, EpochEntry, Evidence, own_lines


@dataclass(frozen=True, slots=True)
class Leaders:
    """The leaders of a partition by leader epoch, ascending, as far as states are known without a break.

    known_from: the first epoch whose leader is known since the epoch began. written_twice: epochs that more than one
    process may have written: one that is back after a crash inside its session writes its epoch again.
    """

    epochs: Sequence[int]
    brokers: Sequence[int]
    known_from: int = 0
    written_twice: frozenset[int] = frozenset()


class SharedLog(NamedTuple):
    """end: up to where the winner's log was the partition's log when it was elected; open if unknown. doubted: the
    leader epoch that leaves it open, because more than one process may have written it; None if none does."""

    end: Bound
    doubted: int | None = None


def shared_log(
    evidence: Evidence,
    leaders: Leaders,
    leader: int,
    leader_epoch: int,
    written_once: bool = False,
    is_first: Callable[[EpochEntry], bool] = lambda _: True,
) -> SharedLog:
    """The winner's log at its election, compared with the last leader's. written_once: nobody else served in its term,
    so that of copies of its line that differ the lower ones are of processes that led in their own eyes. is_first:
    whether a copy was read before a later process of its broker can have led that epoch in its own eyes.

    A leader writes its log end into its leader-epoch-checkpoint when it is elected. Its lines and those of the leader
    before it show where the two logs diverge: the same offset means the same record only within the same epoch
    (KIP-101, KIP-279), and only if one process wrote that epoch. A follower continues any log that has the follower's
    last epoch at the follower's last offset. So if another process wrote one of the winner's epochs again, the logs may
    differ although their lines are the same. The last leader's epoch is not checked here (`LeaderTerm.kept`).
    """
    led = bisect_left(leaders.epochs, leader_epoch) - 1
    last = leaders.epochs[led] if led >= 0 else -1
    ends: list[tuple[int, EpochEntry]] = []
    earlier = [e for e in own_lines(evidence, leaders.brokers[led], last) if is_first(e)] if led >= 0 else []
    for entry in filter(is_first, own_lines(evidence, leader, leader_epoch)):
        if entry.start_offset == 0:
            ends.append((0, entry))
        elif led >= 0 and entry.lines[entry.number - 1][0] == last:
            ends.append((entry.start_offset, entry))
        elif led >= 0:
            diverging = [_divergence(entry, other) for other in earlier]
            ends += [(end, entry) for end in diverging if end is not None]
    if not ends:
        return SharedLog(OPEN)
    if leaders.brokers[led] != leader:  # otherwise it is one log on one disk
        shared = {epoch for end, entry in ends for epoch, start in entry.before if start < end}
        twice = leaders.written_twice - {last}
        doubted = max((epoch for epoch in shared if epoch in twice or epoch < leaders.known_from), default=None)
        if doubted is not None:
            return SharedLog(OPEN, doubted)
    end, entry = (max if written_once else min)(ends, key=lambda pair: pair[0])
    return SharedLog(Bound(end, entry.row))


def _divergence(entry: EpochEntry, leader: EpochEntry) -> int | None:
    """The offset at which the log before the entry diverges from the leader's log, whose end is open; None if the files
    share no epoch."""
    mine = [*entry.before, (-1, entry.start_offset)]
    ends = {epoch: end for (epoch, _), (_, end) in pairwise(mine)}
    theirs = leader.lines[: leader.number + 1]
    shared = [epoch for epoch, _ in theirs if epoch in ends]
    if not shared:
        return None
    return min([ends[shared[-1]], *(start for epoch, start in theirs if epoch > shared[-1])])
