"""The evidence that undecided windows lack, and what to capture beside what was captured and does not decide them.

Source: docs/broker_logs.md, which says why windows stay undecided with the nodes' own logs.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Row
from replay.incident.words import MISSING

OPEN = "bounds_open"
_PROCESS, _CORRUPTION = "missing_word_of_process", "contradicted_by_corruption"
# Statements whose brokers are the replicas that may have led.
_REPLICAS = ("elected", "isr_before", "elr_before")


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
            wanted[code][MISSING[code]["capture"]] |= set(named) - covered
            helped[code].add(row)
        beyond = MISSING[code].get("after_cut" if row in cut else "beyond") or MISSING[code].get("beyond")
        if beyond is not None and (more := covered - (set(logs.booted) if code == _PROCESS else set())):
            wanted[code][beyond] |= more
            helped[code].add(row)
    if rest := len(undecided) - len(set().union(*windows.values())):
        windows[OPEN] = set(range(rest))
    return [
        {
            "code": code,
            "windows": len(windows[code]),
            "brokers": sorted(brokers[code]),
            "because": MISSING[code]["because"],
            "capture": "; ".join(t.format(brokers=brokers_text(sorted(b))) for t, b in wanted[code].items()) or None,
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


def brokers_text(ids: Sequence[int]) -> str:
    """Brokers by id: 'broker 1', 'brokers 1, 2'; at most 20."""
    shown = ", ".join(map(str, ids[:20])) + (f" and {len(ids) - 20} more" if len(ids) > 20 else "")
    return f"broker {shown}" if len(ids) == 1 else f"brokers {shown}"
