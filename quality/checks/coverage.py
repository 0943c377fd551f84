"""How much of each flagged window readings of log ends cover, by broker and source; and how new the readings are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from quality.check import Check, Kind, Limits, Violations, broken
from quality.columns import Array, Rows, Tables, numbers

_READING = ("broker_id", "source", "captured_at_ms", "topic", "partition")
_SERIES = ("topic", "partition", "broker_id", "source")
_REGULAR = 3  # readings of a source that is read again and again
_LATEST = np.iinfo(np.int64).max


def checks() -> Iterator[Check]:
    yield Check(
        "log_end_offsets",
        "windows_covered",
        Kind.COVERAGE,
        "Of every flagged window whose partition has a source of a broker that was read at least 3 times, one of them "
        "covers at least the share quality.covered_share. A reading covers quality.reading_gap_ms, or the time to the "
        "next. `details` has the mean share of every broker and source.",
        "Read the sources more often, also while a broker is down (a copy of its disk). Verdicts stay sound without; "
        "more of them are undecided.",
        _covered,
        {
            "log_end_offsets": _READING,
            "findings": ("kind", "topic", "partition", "start_timestamp_ms", "end_timestamp_ms"),
            "log_batches": ("max_timestamp_ms",),
        },
        ("topic", "partition", "start_timestamp_ms", "end_timestamp_ms"),
        warns=True,
    )
    yield Check(
        "log_end_offsets",
        "fresh",
        Kind.COVERAGE,
        "The newest reading of each broker and source is at most quality.reading_age_ms older than the log's end.",
        "The source stopped: read it again, or leave it out of what is captured.",
        _fresh,
        {"log_end_offsets": _READING[:3], "log_batches": ("max_timestamp_ms",)},
        ("broker_id", "source", "newest_ms"),
        warns=True,
    )


class _Share(NamedTuple):
    """How much of a window a source of a broker covers. window: number of its row."""

    window: int
    broker: int
    source: str
    share: float


def _covered(tables: Tables, limits: Limits) -> Violations:
    windows = tables["findings"]
    windows = windows.where(windows.in_set("kind", ("hwm_regression",)) & windows.valid("start_timestamp_ms"))
    readings = tables["log_end_offsets"]
    readings = readings.where(readings.valid("captured_at_ms") & readings.valid("topic") & readings.valid("broker_id"))
    log_end = int(tables["log_batches"].ints("max_timestamp_ms").max(initial=0))
    best: dict[int, _Share] = {}
    by_source: dict[str, list[float]] = defaultdict(list)
    for found in _shares(windows, readings, log_end, limits.reading_gap_ms):
        best[found.window] = max(best.get(found.window, found), found, key=lambda s: s.share)
        by_source[f"broker {found.broker}, {found.source}"].append(found.share)
    low = [found for found in best.values() if found.share < limits.covered_share]
    return Violations(
        Rows(windows.table.take(pa.array([found.window for found in low], pa.int64()))),
        np.arange(len(low)),
        len(best),
        lambda n: f"{low[n].share:.0%} at most, by {low[n].source} of broker {low[n].broker}",
        {name: round(sum(shares) / len(shares), 3) for name, shares in sorted(by_source.items())},
    )


def _shares(windows: Rows, readings: Rows, log_end: int, gap_ms: int) -> Iterator[_Share]:
    of_window, of_reading = numbers(windows.columns(*_SERIES[:2]), readings.columns(*_SERIES[:2]))
    wanted = np.isin(of_reading, of_window)
    readings, of_reading = readings.where(wanted), of_reading[wanted]
    (series,) = numbers(readings.columns(*_SERIES))
    order = np.lexsort((readings.ints("captured_at_ms"), series, of_reading))
    series, times = series[order], readings.ints("captured_at_ms")[order]
    begins = np.flatnonzero(np.append(True, series[1:] != series[:-1])[: len(series)])
    until, partition = np.append(begins[1:], len(series)), of_reading[order][begins]
    first_rows = readings.table.take(pa.array(order[begins]))
    brokers, sources = first_rows["broker_id"].to_pylist(), first_rows["source"].to_pylist()
    starts, ends = windows.ints("start_timestamp_ms"), windows.ints("end_timestamp_ms", log_end)
    for number in range(len(windows)):
        start = int(starts[number])
        end = max(int(ends[number]), start + 1)
        low, high = (int(np.searchsorted(partition, of_window[number], side)) for side in ("left", "right"))
        for at in range(low, high):
            own = times[begins[at] : until[at]]
            if len(own) < _REGULAR:
                continue
            covered = covered_ms(own, start, end, gap_ms)
            yield _Share(number, brokers[at], sources[at], covered / (end - start))


def covered_ms(times: Array, first: int, last: int, gap_ms: int) -> int:
    """How many ms from `first` to `last` are within `gap_ms` after one of the times, which rise."""
    starts = np.clip(times, first, last)
    ends = np.clip(np.minimum(times + gap_ms, np.append(times[1:], _LATEST)), first, last)
    return int((ends - starts).sum())


def _fresh(tables: Tables, limits: Limits) -> Violations:
    readings = tables["log_end_offsets"]
    readings = readings.where(readings.valid("captured_at_ms"))
    log_end = int(tables["log_batches"].ints("max_timestamp_ms").max(initial=0))
    table = readings.table.select(["broker_id", "source", "captured_at_ms"])
    table = table.set_column(1, "source", table["source"].cast(pa.string()))
    newest = table.group_by(["broker_id", "source"]).aggregate([("captured_at_ms", "max")])
    rows = Rows(newest.rename_columns(["broker_id", "source", "newest_ms"]))
    return broken(rows, rows.ints("newest_ms") < log_end - limits.reading_age_ms)
