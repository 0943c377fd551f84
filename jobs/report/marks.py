"""Marks of the timeline: what is known of each, as text. The first line of a text is its name, the others are
"label: value"; the page's script shows them in the details panel. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from jobs.incident.events import is_usable
from jobs.report import filters
from jobs.report.rows import WORDS, broker_state, restarts, verdict_of
from replay.findings.kinds import HWM_REGRESSION
from replay.incident.departures import Departure
from replay.plan.step import Row

ELECTION, BROKER, CONTROLLER, CAPTURED = "election", "broker", "controller", "captured"
DELETED, CONFIG, STATE = "deleted", "config", "state"
ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something at a time (end_ms is start_ms) or over a span. look: CSS classes; text: see above; offset: of the
    metadata record that shows it; place: id on the page of what has more of it, unless finding_id has; nature: ESTIMATE
    if it is no fact."""

    start_ms: int
    end_ms: int
    look: str
    kind: str
    text: str
    topic: str | None = None
    verdict: str = ""
    brokers: tuple[int, ...] = ()
    finding_id: str | None = None
    offset: int | None = None
    place: str | None = None
    nature: str = ""


def _mark(
    row: Row, look: str, kind: str, name: str, *facts: tuple[str, object], end_ms: int | None = None, **more: Any
) -> Mark:
    """A mark of a moment, or of a span. row: has its `timestamp_ms`, maybe its `offset` and `topic`; facts: (label,
    value) of what is known of it; more: other fields of Mark."""
    text = "\n".join([name, *(f"{label}: {value}" for label, value in facts if value not in (None, ""))])
    at_ms = row["timestamp_ms"]
    place: dict[str, Any] = {"offset": row.get("offset"), "topic": row.get("topic")}
    return Mark(at_ms, at_ms if end_ms is None else max(at_ms, end_ms), look, kind, text, **place | more)


def _times(start_ms: int, end_ms: int | None) -> list[tuple[str, object]]:
    lasted = filters.duration_text(start_ms, end_ms)
    until = [("Until", filters.utc_text(end_ms)), ("For", lasted)] if lasted else [("Until", "the end of the log")]
    return [("From", filters.utc_text(start_ms)), *until]


def _at(row: Row) -> list[tuple[str, object]]:
    return [("At", filters.utc_text(row["timestamp_ms"])), ("Metadata offset", row["offset"])]


def term(row: Row, end: int) -> Mark:
    """An active controller's term."""
    until, name = row["end_timestamp_ms"], f"active: controller {row['leader_id']}"
    facts = ("Epoch", row["controller_epoch"]), *_times(row["timestamp_ms"], until)
    return _mark(row, "bar active", CONTROLLER, name, *facts, end_ms=end if until is None else until)


def fail_over(before: Row, after: Row) -> Mark:
    old, new = before["leader_id"], after["leader_id"]
    what = f"controller {old} to {new}" if old != new else f"controller {new} in a new epoch"
    facts = ("Epoch", after["controller_epoch"]), *_at(after)
    return _mark(after, "tick failover", CONTROLLER, f"fail-over: {what}", *facts)


def sessions(broker: int, rows: Sequence[Row], departures: Iterable[Departure], end: int) -> list[Mark]:
    """A broker's states as bars, ticks where a process of it registered after another one, and how it went away."""

    def mark(row: Row, look: str, name: str, *facts: tuple[str, object], **more: Any) -> Mark:
        more |= {"brokers": (broker,), "place": f"broker-{broker}"}
        return _mark(row, look, BROKER, f"{name}: broker {broker}", *facts, **more)

    marks = []
    for words, group in groupby(rows, key=broker_state):
        states = list(group)
        first, last = states[0], states[-1]
        if look := WORDS["broker_states"].get(words):
            start, until = first["timestamp_ms"], last["end_timestamp_ms"]
            shown_until = until if until is not None else end if last["end_offset"] is None else start
            facts = *_times(start, until), ("Metadata offset", first["offset"])
            marks.append(mark(first, look, words, *facts, end_ms=shown_until))
    for row in restarts(rows):
        how = row["restart_class"] or "unknown"
        look = how if how in ("clean", "unclean") else "unknown"
        marks.append(mark(row, f"tick restart {look}", f"{filters.visible(how)} restart", *_at(row)))
    for gone in departures:
        if gone.broker_id == broker:
            name, look, follows = WORDS["departures"][gone.way]
            deduced, nature = (" (deduced)", ESTIMATE) if gone.deduced else ("", "")
            row = asdict(gone)
            facts = *_at(row), ("Recorded", filters.visible(gone.text)), ("Deduced", follows if gone.deduced else None)
            marks.append(mark(row, look, f"{name}{deduced}", *facts, nature=nature))
    return marks


def election(row: Row, finding_id: str | None) -> Mark:
    """finding_id: of the window that the election belongs to."""
    old, new, cause = row["previous_leader"], row["leader"], row["cause"] or ""
    look = WORDS["causes"].get(cause, "unclean" if cause.startswith("unclean") else "usual")
    name = f"election {filters.partition_text(row)}: leader {filters.leader_text(old)} to {filters.leader_text(new)}"
    facts = ("Cause", filters.visible(cause)), ("Leader epoch", row["leader_epoch"]), *_at(row)
    return _mark(row, f"tick {look}", ELECTION, name, *facts, brokers=_known(old, new), finding_id=finding_id)


def _known(*brokers: int | None) -> tuple[int, ...]:
    return tuple(broker for broker in brokers if broker is not None and broker >= 0)


def finding(row: Row, look: str, name: str, end: int) -> Mark:
    """A finding under that name."""
    start, until, leader = row["start_timestamp_ms"], row["end_timestamp_ms"], row["recorded_leader"]
    verdict = verdict_of(row).name
    is_window = row["kind"] == HWM_REGRESSION
    of_window = (("Lost offsets", filters.lost_text(row)), ("Leader after it", filters.leader_text(leader)))
    exact = not is_window or row["loss_min"] == row["loss_max"]
    return _mark(
        {"timestamp_ms": start, "topic": row["topic"]},
        look,
        row["kind"],
        f"{name}: {filters.partition_text(row)}",
        ("Verdict", verdict),
        *(of_window if is_window else ()),
        ("Metadata offsets", filters.window_text(row) if row["start_offset"] is not None else None),
        *_times(start, until),
        ("Finding", filters.visible(row["finding_id"])),
        end_ms=end if until is None else until,
        verdict=verdict,
        brokers=_known(leader),
        finding_id=row["finding_id"],
        nature="" if verdict == "excluded" or (verdict == "proven" and exact) else ESTIMATE,
    )


def states(history: Sequence[Row], finding_id: str, end: int) -> list[Mark]:
    """The states of a partition: rows of states.sql, some of it in order. A state whose next one is not known
    ends where it begins."""
    marks = []
    for row, after in zip(history, [*history[1:], None], strict=False):
        start, until = row["timestamp_ms"], None
        if row["removed"] or not is_usable(start):
            continue
        if after is not None and after["place"] == row["place"] + 1:
            until = after["timestamp_ms"]
        is_last = row["place"] + 1 == row["total"]
        leader, isr = row["leader"], row["isr"]
        few = isr is not None and len(isr) < max(2, row["min_isr"] or 1)
        look = "unknown" if leader is None else "leaderless" if leader < 0 else "few" if few else "up"
        led_by = "no leader" if look == "leaderless" else f"leader {filters.leader_text(leader)}"
        marks.append(
            _mark(
                row,
                f"strip {look}",
                STATE,
                f"state of {filters.partition_text(row)}: {led_by}",
                ("ISR", filters.brokers_text(isr)),
                ("ELR", filters.brokers_text(row["elr"])),
                ("Last known ELR", filters.brokers_text(row["last_known_elr"])),
                ("Replicas", filters.brokers_text(row["replicas"])),
                ("Min ISR", filters.known_text(row["min_isr"])),
                ("Leader epoch", filters.known_text(row["leader_epoch"])),
                ("Partition epoch", filters.known_text(row["partition_epoch"])),
                ("Recovery", filters.known_text(row["leader_recovery_state"])),
                *_times(start, until if until is not None or is_last else start),
                ("Metadata offset", row["offset"]),
                end_ms=end if until is None and is_last else until,
                brokers=_known(leader),
                finding_id=finding_id,
            )
        )
    return marks


def deleted(row: Row) -> Mark:
    """A topic that was deleted."""
    at, again = row["deleted_ms"], None
    if row["next_id"] is not None:
        again = f"{filters.utc_text(row['next_ms'])}, as topic id {row['next_id']}"
    facts = ("Topic id", row["topic_id"]), ("At", filters.utc_text(at)), ("Created again", again)
    then = {"timestamp_ms": at, "topic": row["topic"]}
    return _mark(then, "tick failover", DELETED, f"deleted: topic {filters.topic_text(row['topic'])}", *facts)


def config(row: Row) -> Mark:
    """A setting that was changed."""
    of = row["resource_type"]
    whose = f"{of} {filters.visible(row['resource_name'])}" if row["resource_name"] else f"all {of}s"
    is_now, was = ("not set" if row[name] is None else filters.visible(row[name]) for name in ("value", "before"))
    name, topic = f"config {filters.visible(row['name'])} of {whose}: {was} to {is_now}", row["resource_name"]
    return _mark(row, "tick config", CONFIG, name, *_at(row), topic=topic if of == "topic" else None)


def captured(row: Row) -> Mark:
    """When files were captured."""
    at, nodes = row["captured_at_ms"], ", ".join(map(str, row["nodes"][:20]))
    facts = ("Nodes", nodes or "not known"), ("At", f"{filters.utc_text(at)}, by the capturing machine's clock")
    name = f"captured: {row['files']} files"
    return _mark({"timestamp_ms": at}, "tick captured", CAPTURED, name, *facts, place="evidence")
