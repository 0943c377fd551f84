"""The largest values that are accepted from outside the project, and how much a capture may hold.

Larger times and durations are refused or left out where they are read, so that sums and differences of a few of them
cannot overflow an int64.
"""

import re
from dataclasses import asdict, dataclass

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


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a capture may hold, and what may be made of it, so that a hostile one cannot fill disk or memory: the
    settings of [limits]; conf/defaults.toml has the meanings.

    A capture with more files or bytes is refused as a whole (CaptureError); a file with more is quarantined
    (`too_large`). Each message names the setting.
    """

    capture_files: int = 1_000_000
    capture_bytes: int = 64 << 30
    compression_ratio: int = 1000
    text_file_bytes: int = 256 << 20
    text_file_lines: int = 2_000_000
    partition_lines: int = 100_000
    damaged_lines: int = 10_000
    topic_rows: int = 5_000_000
    topic_windows: int = 100_000
    findings: int = 2_000_000

    def __post_init__(self) -> None:
        if wrong := [name for name, value in asdict(self).items() if value <= 0]:
            raise ValueError(f"{', '.join(wrong)}: greater than 0 is needed")


DEFAULT_LIMITS = Limits()
