"""The largest times and durations that are accepted from outside the project.

Larger values are refused or left out where they are read, so that sums and differences of a few of them cannot overflow
an int64.
"""

# 9999-12-31T23:59:59.999Z in milliseconds since the Unix epoch: the last time that Python and Spark can print.
MAX_TIME_MS = 253_402_300_799_999
# 365 days, for a clock's error and for the duration of a round of copying.
MAX_DURATION_MS = 365 * 24 * 60 * 60 * 1000

MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
