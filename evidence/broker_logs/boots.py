"""Which processes wrote a server.log: where each begins and ends, and how the one before it had stopped.

A process begins with `Registered ... MBean` or `Registered signal handlers`, which only a starting process logs; where
both were filtered out, with a server's `Transition from SHUTDOWN to STARTING`. Where log levels were changed
meanwhile (RuntimeLoggerManager), its last line is not known: lines may have been hidden since.
"""

from dataclasses import dataclass, field

from evidence.broker_logs.times import quarter_hours
from evidence.tables import Row

CLEAN, UNCLEAN = "clean", "unclean"
_STARTS = ("process_started", "server_starting")
_FROM_NOTHING = "SHUTDOWN to STARTING"
_COPIED = {
    "broker_starting": ("incarnation_id",),
    "broker_registered": ("broker_epoch",),
    "logs_loaded": ("duration_ms",),
}


@dataclass(slots=True)
class BootTracker:
    """Takes the events of one file in order. rows: one a process, as tables.NODE_BOOTS without provenance."""

    rows: list[Row] = field(default_factory=list)
    _markers: set[str] = field(default_factory=set)
    _may_hide: bool = False

    def begin_file(self, at: Row) -> None:
        """at: `logged_at_ms` and `position` of the file's first event: the process may have begun before it."""
        self._open(at, begins_in_file=False)

    def add(self, event: Row, before: Row | None) -> None:
        """before: as `at`, of the event before this one: the last of the process before, if a new one begins."""
        marker = marker_of(event)
        if marker is not None:
            if self._is_new(marker):
                self.end(before)
                if self.rows and self.rows[-1]["first_position"] == event["position"]:
                    self.rows.pop()
                self._open(event, begins_in_file=True)
            self._markers.add(marker)
        self._may_hide |= event["kind"] == "log_level_changed"
        if self.rows:
            _learn(self.rows[-1], event)

    def _is_new(self, marker: str) -> bool:
        current = self.rows[-1] if self.rows else None
        return (
            current is None
            or not current["begins_in_file"]
            or marker in self._markers
            or current["stopped"] == "complete"
        )

    def _open(self, at: Row, begins_in_file: bool) -> None:
        self._markers, self._may_hide = set(), False
        row: Row = dict.fromkeys(("kafka_version", "start_time_ms", "zone_ms", "broker_epoch"))
        row |= dict.fromkeys(("incarnation_id", "previous_shutdown", "load_ms", "stopped", "stopped_at_ms"))
        row |= {"begins_in_file": begins_in_file, "clean_directories": [], "unclean_directories": []}
        row |= {"first_event_ms": at.get("logged_at_ms"), "first_position": at["position"]}
        self.rows.append({**row, "last_event_ms": row["first_event_ms"], "last_position": at["position"]})

    def end(self, last: Row | None) -> None:
        """last: as `at`, of the last event of the process, or of the file."""
        if self.rows and last is not None and last["position"] >= self.rows[-1]["first_position"]:
            last_ms = None if self._may_hide else last.get("logged_at_ms")
            self.rows[-1] |= {"last_event_ms": last_ms, "last_position": last["position"]}


def marker_of(event: Row) -> str | None:
    """A name for what a process logs once, when it starts; None for another event. A combined node has two servers."""
    if event["kind"] in _STARTS:
        return f"{event['kind']} {event['message'][:24]}"
    if event["kind"] == "server_state" and event.get("detail") == _FROM_NOTHING:
        return f"server_state {event['message'].split(' ', 1)[0]}"
    return None


def _learn(row: Row, event: Row) -> None:
    kind = event["kind"]
    for name in _COPIED.get(kind, ()):
        row["load_ms" if name == "duration_ms" else name] = event.get(name)
    if kind == "kafka_version":
        row["kafka_version"] = event.get("detail")
    elif kind == "kafka_start_time" and row["start_time_ms"] is None:
        row["start_time_ms"] = event["printed_at_ms"]
        if event.get("logged_at_ms") is not None:
            row["zone_ms"] = quarter_hours(event["logged_at_ms"] - event["printed_at_ms"])
    elif kind in ("clean_start", "unclean_start"):
        row[f"{'clean' if kind == 'clean_start' else 'unclean'}_directories"].append(event.get("directory"))
        row["previous_shutdown"] = UNCLEAN if row["unclean_directories"] else CLEAN
    elif kind == "signal_received":
        row["stopped"] = row["stopped"] or "signal"
    elif kind == "server_stopped":
        row |= {"stopped": "complete", "stopped_at_ms": event.get("logged_at_ms")}
