"""When a file was read at the latest, from the evidence itself. Pure arithmetic.

An archive keeps each member's modification time. A copy is written after its source was read. It is stamped by the
capturer's clock, like the capture time in its path, so the value was read by then. A copy that keeps its source's time
(`cp -p`) gives the same bound if that time is not before the capture time: the source was not written afterwards.
"""

from dataclasses import dataclass

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
