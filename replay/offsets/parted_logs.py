"""Where two copies of a partition's log part, which transactions their records belong to, and which of them were below
the high watermark.

Sources: KIP-101 and KIP-279 (the same offset means the same record only within the same leader epoch: two logs part
where the last epoch that both have ends in the first of them), LeaderEpochFileCache; KIP-98 (a marker of a producer id
ends its transaction; it has one at a time).
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from replay.arrow.ragged import Row

Epochs = Sequence[tuple[int, int]]

NO_EPOCH = -1
COMMITTED, ABORTED, OPEN_TRANSACTION = "committed", "aborted", "open"
BELOW, MAYBE, ABOVE = "below", "maybe", "above"


def part_by_epochs(old: Epochs, old_end: int, current: Epochs, current_end: int) -> tuple[int, int | None]:
    """(The first offset that the logs do not share by their leader epochs, the last epoch that both have).

    old, current: (leader epoch, start offset), ascending; *_end: log end offsets. Without a common epoch they share
    nothing: then the offset is the lower of the two starts.
    """
    common = max({epoch for epoch, _ in old} & {epoch for epoch, _ in current}, default=None)
    if common is None:
        return min([start for _, start in (*old[:1], *current[:1])], default=0), None
    return min(_end_of(common, old, old_end), _end_of(common, current, current_end)), common


def _end_of(epoch: int, epochs: Epochs, end: int) -> int:
    return next((start for later, start in epochs if later > epoch), end)


def epoch_at(epochs: Epochs, offset: int) -> int:
    """The leader epoch of a log at an offset, its last one after its end; NO_EPOCH before its first one.

    epochs: (leader epoch, start offset), ascending."""
    at = bisect_right(epochs, offset, key=lambda epoch: epoch[1])
    return epochs[at - 1][0] if at else NO_EPOCH


@dataclass(slots=True)
class TransactionMarkers:
    """Markers of transactions, by producer id in order of their offsets: of the log that had the records, then of the
    other one from where they part."""

    ends: dict[int, list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))
    later: dict[int, str] = field(default_factory=dict)

    def of(self, producer_id: int, offset: int) -> str:
        """How the transaction of a record ended. A marker that only the other log has counts if this log has none: the
        coordinator writes it to whoever leads."""
        ends = self.ends.get(producer_id, [])
        at = bisect_right(ends, offset, key=lambda end: end[0])
        return ends[at][1] if at < len(ends) else self.later.get(producer_id, OPEN_TRANSACTION)


@dataclass(frozen=True, slots=True)
class Watermark:
    """What is known of the high watermark that a leader had reached: at least `least`, at most `most` (None: no upper
    bound is known)."""

    least: int
    most: int | None

    def side(self, offset: int) -> str:
        """Whether the record was below it: for certain, maybe, or certainly not."""
        if offset < self.least:
            return BELOW
        return MAYBE if self.most is None or offset < self.most else ABOVE


def watermark(window: Row, winners_end: int) -> Watermark | None:
    """The high watermark in a window (FINDINGS); None for one that bounds nothing. winners_end: where the log of the
    leader that was elected in it ended at most: what is lost is at most that, and loss_max offsets from there on."""
    least, most = window["high_watermark_min"], window["loss_max"]
    if least is None and most is None:
        return None
    most = None if most is None else winners_end + most
    return Watermark(least or 0, None if most is None or most < (least or 0) else most)


def election_that_parted(
    elections: Iterable[Row], old: Epochs, current: Epochs, parting: int
) -> tuple[Row, int] | None:
    """(The election after which the current log went on without what follows the parting, the winner's log end); None
    if none is known, or if the old log does not have the last epoch that was led before it: then the high watermark is
    that of a third log.

    elections: of the partition (ELECTIONS). old, current: (leader epoch, start offset), ascending.
    """
    epoch, start = min(((epoch, start) for epoch, start in current if start >= parting), default=(None, 0))
    known = sorted(elections, key=lambda row: int(row["leader_epoch"]))
    found = next((row for row in known if row["leader_epoch"] == epoch), None)
    if found is None:
        return None
    led = [row["leader_epoch"] for row in known if row["leader"] >= 0 and row["leader_epoch"] < found["leader_epoch"]]
    had = max((epoch for epoch, _ in old), default=-1)
    return (found, start) if led[-1:] <= [had] and had < found["leader_epoch"] else None
