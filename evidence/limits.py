"""The largest times and durations that anything outside the project may name. What passes them is refused or left out
where it comes in: sums and differences of a few of them are far from the end of an int64."""

# 9999-12-31T23:59:59.999Z in milliseconds since the Unix epoch: the last time that Python and Spark can print.
MAX_TIME_MS = 253_402_300_799_999
# 365 days: for the clock's error and for how long a round of copying took.
MAX_DURATION_MS = 365 * 24 * 60 * 60 * 1000

MAX_INT32 = (1 << 31) - 1
MAX_INT64 = (1 << 63) - 1
