"""What the evidence itself says of when a file was read, and of how far two clocks are apart. Pure: numbers in, numbers
out.

An archive keeps when each member was written. A copy is written after its source was read, and is stamped by the
capturer's clock, as the capture time in its path is: a value was read by then. A copy that keeps its source's time
(`cp -p`) says as much where that time is not before the capture time: nothing was written to the source afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evidence.limits import MAX_TIME_MS

# A kernel stamps a file with the time of its last tick.
TICK_MS = 10
# Copying that ended later than this after the capture time was not that round's: the copy was copied again.
SLOW_ROUND_MS = 60_000


@dataclass(frozen=True, slots=True)
class Modified:
    """When a member of an archive was written last: at at_ms (ms since the Unix epoch) or less than granularity_ms
    after it. has_zone: False for the time in a zip's own entry, local time of a zone that nothing names."""

    at_ms: int
    granularity_ms: int
    has_zone: bool = True


def of_seconds(seconds: int) -> Modified | None:
    """A time that is kept in whole seconds; None for one that cannot be. An even number may have come through a file
    system or archive that keeps only those (FAT, zip), an odd one has not."""
    at_ms = seconds * 1000
    return Modified(at_ms, 1000 if seconds % 2 else 2000) if 0 <= at_ms <= MAX_TIME_MS else None


def round_ms(captured_at_ms: int, assumed_ms: int, modified: Modified | None) -> int:
    """How long after captured_at_ms, by the same clock, a file was read at the latest. At least 0.

    assumed_ms: how long a round of copying is said to have taken. It holds where `modified` is None, before
    captured_at_ms (a source's time that was kept) or more than a minute after it. Else the file was read by then: that
    may be sooner than assumed, and where it is later the round was slow.
    """
    if modified is None:
        return assumed_ms
    granularity = modified.granularity_ms
    if modified.at_ms // granularity < captured_at_ms // granularity:
        return assumed_ms
    read_by = modified.at_ms + granularity + TICK_MS - captured_at_ms
    if read_by <= assumed_ms:
        # A time without a zone may be off by hours: it can be there by chance.
        return read_by if modified.has_zone else assumed_ms
    return read_by if modified.at_ms - captured_at_ms <= SLOW_ROUND_MS else assumed_ms


def minimum_clock_error_ms(files: Iterable[Mapping[str, Any]]) -> int:
    """How far the controllers' clocks were at least ahead of the capturer's; 0 where nothing shows that they were.

    files: with captured_at_ms and uncertainty_ms (when the file was read, by the capturer's clock) and
    last_timestamp_ms (the last record timestamp in it, by the clock of the controller that was active), as
    tables.EVIDENCE_FILES has them. One with a null says nothing, nor does a timestamp that is no time (negative, or
    after the year 9999).
    A record is in the log at its timestamp at the earliest. So a copy that was read by captured_at_ms + uncertainty_ms
    and holds a later record was read when the controller's clock showed more than the capturer's; or the round took
    longer than it is said to have, which is as bad for what rests on its times. Nothing bounds the error from above.
    """
    least = 0
    for file in files:
        at_ms, uncertainty_ms, last_ms = (file[n] for n in ("captured_at_ms", "uncertainty_ms", "last_timestamp_ms"))
        if None not in (at_ms, uncertainty_ms, last_ms) and 0 <= last_ms <= MAX_TIME_MS:
            least = max(least, last_ms - at_ms - uncertainty_ms)
    return least
