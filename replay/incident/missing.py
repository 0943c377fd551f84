"""The evidence that undecided windows lack, and what to capture beside what was captured and does not decide them.

Source: docs/broker_logs.md, which says why windows stay undecided with the nodes' own logs.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Row

OPEN = "bounds_open"
_LOGS = "server.log and state-change.log"
_LOG_END, _PROCESS, _CEILING = "missing_log_end", "missing_word_of_process", "missing_high_watermark_ceiling"
_FLOOR, _CORRUPTION = "missing_high_watermark", "contradicted_by_corruption"
# Statement code -> (what is not known, what to capture). {brokers}: those that the statements name.
MISSING = {
    _LOG_END: ("where the new leader's log ended", "leader-epoch-checkpoint, " + _LOGS + " of {brokers}"),
    _PROCESS: (
        "whether the previous leader had started again unnoticed",
        "server.log of {brokers} and the boot ids of their machines",
    ),
    _CEILING: ("how far the high watermark had come", _LOGS + " of {brokers}, from the election to the next start"),
    _FLOOR: ("the high watermark before the election", _LOGS + " of all replicas, from before the election on"),
    OPEN: ("whether records were lost: the evidence allows both", None),
}
# What is left to capture of brokers whose logs of that time were captured.
_EPOCHS = "leader-epoch-checkpoint of {brokers}, from after the election"
_BOOT_IDS = "the boot ids of the machines of {brokers}"
_SEGMENTS = "kafka-dump-log of the segments of {brokers}, from before the start that cut damaged bytes"
_BEYOND = {_LOG_END: _EPOCHS, _PROCESS: _BOOT_IDS}
# Statements whose brokers are the replicas that may have led.
_REPLICAS = ("elected", "isr_before", "elr_before")
# Kinds of lines of state-change.log; those of the other logs say nothing of leader epochs.
STATE_CHANGES = ("leader_started", "follower_started", "leader_unchanged", "follower_unchanged")


@dataclass(frozen=True, slots=True)
class CapturedLogs:
    """spans: by broker with lines of server.log and state-change.log, the times (ms, UTC) of the first and last one;
    booted: brokers with a boot id."""

    spans: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    booted: Collection[int] = ()

    def cover(self, broker: int, start_ms: int | None, end_ms: int | None) -> bool:
        """Whether the broker's lines begin before a window and go on after it. Lines in between may be missing."""
        first, last = self.spans.get(broker, (0, -1))
        return start_ms is not None and end_ms is not None and first <= start_ms and end_ms <= last


NO_LOGS = CapturedLogs()


def missing_statements(undecided: pa.Table) -> list[tuple[int, Row]]:
    """(number of the window, statement) of every statement that names missing evidence. undecided: FINDINGS with
    `reason`."""
    return _statements(undecided, MISSING)


def _statements(undecided: pa.Table, codes: Collection[str]) -> list[tuple[int, Row]]:
    reason = undecided["reason"].combine_chunks()
    at, statements = pc.list_parent_indices(reason), pc.list_flatten(reason)
    about = pc.is_in(pc.struct_field(statements, "code"), value_set=pa.array(list(codes)))
    return list(zip(at.filter(about).to_pylist(), statements.filter(about).to_pylist(), strict=True))


def missing(undecided: pa.Table, logs: CapturedLogs) -> list[Row]:
    """What is missing, most windows first: code, windows, brokers, because, capture (null: nothing decides it),
    capture_windows (how many windows that is for), logged (brokers whose logs were captured and do not decide it)."""
    windows: dict[str, set[int]] = defaultdict(set)
    brokers: dict[str, set[int]] = defaultdict(set)
    wanted: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    helped: dict[str, set[int]] = defaultdict(set)
    logged: dict[str, set[int]] = defaultdict(set)
    times = list(zip(*(undecided[n].to_pylist() for n in ("start_timestamp_ms", "end_timestamp_ms")), strict=True))
    replicas, cut = _context(undecided)
    for row, statement in missing_statements(undecided):
        code, named = statement["code"], statement["brokers"] or ()
        windows[code].add(row)
        brokers[code].update(named)
        asked = named or replicas[row]
        covered = {broker for broker in asked if logs.cover(broker, *times[row])}
        logged[code] |= covered
        if not asked or covered != set(asked):
            wanted[code][MISSING[code][1] or ""] |= set(named) - covered
            helped[code].add(row)
        beyond = _SEGMENTS if code == _CEILING and row in cut else _BEYOND.get(code)
        if beyond is not None and (more := covered - (set(logs.booted) if beyond == _BOOT_IDS else set())):
            wanted[code][beyond] |= more
            helped[code].add(row)
    if rest := len(undecided) - len(set().union(*windows.values())):
        windows[OPEN] = set(range(rest))
    return [
        {
            "code": code,
            "windows": len(windows[code]),
            "brokers": sorted(brokers[code]),
            "because": MISSING[code][0],
            "capture": "; ".join(t.format(brokers=_brokers(sorted(b))) for t, b in wanted[code].items()) or None,
            "capture_windows": len(helped[code]),
            "logged": sorted(logged[code]),
        }
        for code in sorted(windows, key=lambda each: (-len(windows[each]), list(MISSING).index(each)))
    ]


def _context(undecided: pa.Table) -> tuple[dict[int, set[int]], set[int]]:
    """(By window the replicas that may have led, the windows with a start that cut damaged bytes.)"""
    replicas: dict[int, set[int]] = defaultdict(set)
    cut = set()
    for row, statement in _statements(undecided, (*_REPLICAS, _CORRUPTION)):
        if statement["code"] == _CORRUPTION:
            cut.add(row)
        else:
            replicas[row].update(statement["brokers"] or ())
    return replicas, cut


def _brokers(ids: Sequence[int]) -> str:
    shown = ", ".join(map(str, ids[:20])) + (f" and {len(ids) - 20} more" if len(ids) > 20 else "")
    return f"broker {shown}" if len(ids) == 1 else f"brokers {shown}"


def logged_text(brokers: Sequence[int]) -> str:
    """A sentence about brokers whose logs were captured and do not decide a window."""
    return f"The captured logs of {_brokers(brokers)} cover that time and do not decide it."
