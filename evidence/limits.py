"""The largest values that are accepted from outside the project, and how much a capture may hold.

Larger times and durations are refused or left out where they are read, so that sums and differences of a few of them
cannot overflow an int64.
"""

import re
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Gt

# 9999-12-31T23:59:59.999Z in milliseconds since the Unix epoch: the last time that Python and Spark can print.
MAX_TIME_MS = 253_402_300_799_999
# 0001-01-01T00:00:00Z: the first such time. Records may have earlier ones.
YEAR_1_MS = -62_135_596_800_000
# 365 days, for a clock's error and for the duration of a round of copying.
MAX_DURATION_MS = 365 * 24 * 60 * 60 * 1000

MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
_DIGITS = re.compile(r"[0-9]{1,10}")


def int32_of(text: str) -> int | None:
    """A node id or partition number as Kafka prints it (0 to 2^31 - 1, ASCII digits), or None."""
    return int(text) if _DIGITS.fullmatch(text) and int(text) <= MAX_INT32 else None


_Positive = Annotated[int, Gt(0)]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a capture may hold, and what may be made of it, so that a hostile one cannot fill disk or memory: the
    settings of [limits]; conf/defaults.toml has the meanings.

    A capture with more files or bytes is refused as a whole (CaptureError); a file with more is quarantined
    (`too_large`). Each message names the setting.
    """

    capture_files: _Positive = 1_000_000
    capture_bytes: _Positive = 64 << 30
    compression_ratio: _Positive = 1000
    text_file_bytes: _Positive = 256 << 20
    text_file_lines: _Positive = 2_000_000
    partition_lines: _Positive = 100_000
    damaged_lines: _Positive = 10_000
    topic_rows: _Positive = 5_000_000
    topic_windows: _Positive = 100_000
    findings: _Positive = 2_000_000


DEFAULT_LIMITS = Limits()
