"""When a file was read at the latest, and how far two clocks differ, from the evidence itself. Pure arithmetic.

An archive keeps each member's modification time. A copy is written after its source was read. It is stamped by the
capturer's clock, like the capture time in its path, so the value was read by then. A copy that keeps its source's time
(`cp -p`) gives the same bound if that time is not before the capture time: the source was not written afterwards.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from evidence.limits import MAX_TIME_MS

# The kernel stamps a file with the time of its last tick.
TICK_MS = 10
# A copy written later than this after the capture time is a copy of a copy, not part of the round of copying.
SLOW_ROUND_MS = 60_000


@dataclass(frozen=True, slots=True)
class Modified:
    """When a member of an archive was last written: from at_ms (ms since the Unix epoch) to less than granularity_ms
    after it. has_zone: False for the time in a zip's own entry, which is local time of an unknown zone."""

    at_ms: int
    granularity_ms: int
    has_zone: bool = True


def of_seconds(seconds: int) -> Modified | None:
    """A time kept in whole seconds; None if it is out of range. An even number may have passed through a file system or
    archive with a two-second step (FAT, zip); an odd number has not."""
    at_ms = seconds * 1000
    return Modified(at_ms, 1000 if seconds % 2 else 2000) if 0 <= at_ms <= MAX_TIME_MS else None


def round_ms(captured_at_ms: int, assumed_ms: int, modified: Modified | None) -> int:
    """The longest time between captured_at_ms and the read of the file, by the same clock. At least 0.

    assumed_ms: the assumed duration of a round of copying. It is returned if `modified` is None, is before
    captured_at_ms (the source's time was kept), or is more than a minute after it. Otherwise the file was read by
    `modified`. That may be earlier than assumed; if it is later, the round was slow.
    """
    if modified is None:
        return assumed_ms
    granularity = modified.granularity_ms
    if modified.at_ms // granularity < captured_at_ms // granularity:
        return assumed_ms
    read_by = modified.at_ms + granularity + TICK_MS - captured_at_ms
    if read_by <= assumed_ms:
        # A time without a zone may be off by hours and fall into the range by chance.
        return read_by if modified.has_zone else assumed_ms
    return read_by if modified.at_ms - captured_at_ms <= SLOW_ROUND_MS else assumed_ms


def minimum_clock_error_ms(files: Iterable[Mapping[str, Any]]) -> int:
    """The least by which the controllers' clocks were ahead of the capturer's; 0 if nothing shows that they were.

    files: rows of tables.EVIDENCE_FILES with captured_at_ms and uncertainty_ms (when the file was read, by the
    capturer's clock) and last_timestamp_ms (the last record timestamp in it, by the clock of the active controller).
    Rows with a null are skipped, as are timestamps out of range (negative, or after the year 9999).
    A record is in the log at its timestamp at the earliest. If a copy was read by captured_at_ms + uncertainty_ms and
    holds a later record, the controller's clock was ahead of the capturer's. Or the round took longer than stated,
    which has the same effect on its times. Nothing bounds the error from above.
    """
    least = 0
    for file in files:
        at_ms, uncertainty_ms, last_ms = (file[n] for n in ("captured_at_ms", "uncertainty_ms", "last_timestamp_ms"))
        if None not in (at_ms, uncertainty_ms, last_ms) and 0 <= last_ms <= MAX_TIME_MS:
            least = max(least, last_ms - at_ms - uncertainty_ms)
    return least
