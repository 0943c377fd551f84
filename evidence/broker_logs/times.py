"""Times as logs print them: wall-clock time with or without a zone -> milliseconds.

A wall-clock time is given in ms as if its zone were UTC. With a zone the time is also known in UTC.
"""

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache

from evidence.limits import MAX_TIME_MS

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_MS = 86_400_000
QUARTER_MS = 900_000
_MINUTE_MS = 60_000
# Groups that `read_time` understands; the pattern of ISO 8601 and of log4j's default, with what may vary between them.
ISO = (
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?: ?(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?))?"
)
_ISO = re.compile(ISO)
_LETTERS = {
    "yyyy": r"(?P<year>\d{4})",
    "uuuu": r"(?P<year>\d{4})",
    "MM": r"(?P<month>\d\d)",
    "dd": r"(?P<day>\d\d)",
    "HH": r"(?P<hour>\d\d)",
    "mm": r"(?P<minute>\d\d)",
    "ss": r"(?P<second>\d\d)",
}
_ZONE = r"(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)"
_NAMED = re.compile(r"(DEFAULT|ISO8601)[A-Z_]*")
_UTC = ("Z", "UTC", "GMT")
_REQUIRED = ("year", "month", "day", "hour", "minute", "second")

Times = tuple[int | None, int | None]


def date_pattern(date_format: str) -> str:
    """The regular expression, with the groups of ISO, of a date format of log4j: '' or a name of its own (ISO8601,
    DEFAULT, their variants, UNIX_MILLIS), or letters as in Java's SimpleDateFormat.

    Errors: ValueError for a format that lacks a part of date or time, or has letters that are not known.
    """
    if not date_format or _NAMED.fullmatch(date_format):
        if "BASIC" in date_format:
            return date_pattern("yyyyMMdd'T'HHmmss,SSS")
        return ISO
    if date_format == "UNIX_MILLIS":
        return r"(?P<epoch_ms>\d{13})"
    parts: list[str] = []
    for token in re.finditer(r"'([^']*)'|([A-Za-z])\2*|(.)", date_format):
        text = token[0]
        if token[2] is None:
            parts.append(re.escape(token[1] if token[1] is not None else text))
        elif text in _LETTERS:
            parts.append(_LETTERS[text])
        elif set(text) == {"S"} or set(text) == {"n"}:
            # Fewer letters print a number without its leading zeros: 5 ms as `5`.
            is_padded = len(text) >= (3 if text[0] == "S" else 9)
            parts.append(r"(?P<fraction>\d{1,9})" if is_padded else r"\d{1,9}")
        elif set(text) <= {"X", "x", "Z", "z"}:
            parts.append(_ZONE)
        else:
            raise ValueError(f"date format {date_format!r}: {text!r} is not supported")
    pattern = "".join(parts)
    missing = [name for name in _REQUIRED if f"(?P<{name}>" not in pattern]
    if missing:
        raise ValueError(f"date format {date_format!r} prints no {missing[0]}")
    return pattern


def read_time(found: Mapping[str, str | None], zone_ms: int | None = None) -> Times:
    """(wall-clock ms, UTC ms) of the groups that `date_pattern` names. UTC is None without a zone; both are None where
    there is no such time (the 30th of February, the year 0), or UTC is before 1970 or after 9999. zone_ms: the zone
    where the text has none."""
    if epoch := found.get("epoch_ms"):
        return int(epoch), int(epoch)
    day = _day(found.get("year") or "", found.get("month") or "", found.get("day") or "")
    if day is None:
        return None, None
    hour, minute, second = (int(found[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 60:
        return None, None
    fraction = found.get("fraction")
    ms = int(fraction[:3].ljust(3, "0")) if fraction else 0
    wall_ms = day * _DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + ms
    offset_ms = zone_offset_ms(found.get("zone"))
    offset_ms = zone_ms if offset_ms is None else offset_ms
    utc_ms = None if offset_ms is None else wall_ms - offset_ms
    is_possible = wall_ms <= MAX_TIME_MS and (utc_ms is None or 0 <= utc_ms <= MAX_TIME_MS)
    return (wall_ms, utc_ms) if is_possible else (None, None)


def read_iso(text: str) -> Times:
    """As `read_time`, of a text that is one time."""
    found = _ISO.fullmatch(text.strip())
    return read_time(found.groupdict()) if found else (None, None)


def is_rounded(text: str) -> bool:
    """Whether a text that is one time has whole seconds."""
    found = _ISO.fullmatch(text.strip())
    return found is not None and not found["fraction"]


def zone_offset_ms(zone: str | None) -> int | None:
    """How far a printed zone (`Z`, `UTC`, `+0530`, `-03:00`) is before UTC; None for none."""
    if not zone:
        return None
    if zone in _UTC:
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return (-minutes if zone[0] == "-" else minutes) * 60_000


@lru_cache(maxsize=512)
def _day(year: str, month: str, day: str) -> int | None:
    try:
        return date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None


def quarter_hours(ms: int) -> int:
    """A zone's offset from UTC: zones are whole quarters of an hour. ms: a wall-clock time less a time in UTC that was
    taken less than 15 minutes before it."""
    return ms // QUARTER_MS * QUARTER_MS


def zone_by_stamp(wall_ms: int, stamp_ms: int) -> int | None:
    """The zone's offset from UTC, by the time at which another program read the line (UTC); None if that was more than
    a minute after it in any zone: late, it would show another zone."""
    zone_ms = zone_between(wall_ms, stamp_ms)
    return zone_ms if abs(wall_ms - zone_ms - stamp_ms) <= _MINUTE_MS else None


def zone_between(wall_ms: int, utc_ms: int) -> int:
    """The zone's offset from UTC, of a wall-clock time and a time in UTC that are less than 7 minutes apart."""
    return round((wall_ms - utc_ms) / QUARTER_MS) * QUARTER_MS
