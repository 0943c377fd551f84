"""The comparison of simulated with recorded history: leadership, exposure and loss, one row per partition."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from replay.arrow.ragged import PAD, Array
from replay.arrow.runs import Events
from replay.arrow.schemas import PARTITION, schema
from replay.arrow.sets import has, same_set, size
from replay.loss.judged_windows import JudgedWindow, loss_if_led
from replay.partitions.elections import States
from replay.whatif.scenario import Course, loss_with_min_isr
from replay.whatif.steps import Subjects

WHATIF = schema("whatif")


def recorded_course(history: pa.Table, states: States, subjects: Subjects) -> Course:
    """The recorded states of the subjects. history: from `schemas.sorted_history`."""
    rows = np.arange(len(history))
    rows = rows[(subjects.of(rows) >= 0) & ~states.removed]
    subject, before = subjects.of(rows), np.maximum(rows - 1, 0)
    follows = rows > subjects.start[subject]
    leader = states.leader[rows]
    isr, elr = states.lists["isr"], states.lists["elr"]
    elected = follows & (leader >= 0) & (leader != states.leader[before])
    marked = states.recovering[rows] & ~states.recovering[before]
    clean = (has(isr[before], leader) | has(elr[before], leader)) & ~marked
    columns = ("offset", "batch_base_offset", "timestamp_ms")
    offset, batch, timestamp_ms = (history[name].to_numpy()[rows] for name in columns)
    min_isr, unclean = states.min_isr[rows], elected & ~clean
    return Course(subject, offset, batch, timestamp_ms, leader, isr[rows], elr[rows], min_isr, elected, unclean)


def compare(
    history: pa.Table,
    states: States,
    subjects: Subjects,
    simulated: Course,
    judged: Sequence[JudgedWindow],
    end_ms: int,
    undetermined: Mapping[int, int],
    min_isr: int | None = None,
) -> pa.Table:
    """WHATIF rows, one per subject. end_ms: time of the range's end, up to which states that go on are counted.
    undetermined: subject -> metadata offset. min_isr: min.insync.replicas of the scenario, if it is another one."""
    recorded = recorded_course(history, states, subjects)
    # If a stretch stops at a gap, it is known only up to its last record.
    stop = np.where(subjects.stops, history["timestamp_ms"].to_numpy()[subjects.last], end_ms)
    first_difference, leaders_differ = _differences(recorded, simulated, len(stop))
    begin = history.select([f.name for f in PARTITION] + ["offset"]).take(pa.array(subjects.start))
    lost = {
        "recorded": _lost(recorded, None, subjects, judged, states),
        "would_be": _lost(simulated, leaders_differ, subjects, judged, states, min_isr),
    }
    unknown = np.array([s in undetermined for s in range(len(stop))], dtype=bool)
    columns: dict[str, pa.Array] = {f.name: begin[f.name] for f in PARTITION} | first_difference
    columns["from_offset"] = begin["offset"]
    for side, course in (("recorded", recorded), ("would_be", simulated)):
        hidden = unknown if side == "would_be" else np.zeros(len(stop), dtype=bool)
        for name, values in _figures(course, stop).items():
            columns[f"{name}_{side}"] = pa.array(values, mask=hidden)
        for name, bounds in zip(("loss_min", "loss_max"), lost[side], strict=True):
            known = [None if h else bound for bound, h in zip(bounds, hidden.tolist(), strict=True)]
            columns[f"{name}_{side}"] = pa.array(known, type=pa.int64())
    columns["undetermined_offset"] = pa.array([undetermined.get(s) for s in range(len(stop))], type=pa.int64())
    return pa.table({f.name: columns[f.name].cast(f.type) for f in WHATIF}, schema=WHATIF)


def _figures(course: Course, stop: Array) -> dict[str, Array]:
    """Sums over each subject's states; times in ms."""
    following = np.append(course.subject[1:], -1) == course.subject
    until = np.where(following, np.append(course.timestamp_ms[1:], 0), stop[course.subject])
    lasted = np.maximum(until - course.timestamp_ms, 0)
    in_sync, left = size(course.isr), size(course.isr) + size(course.elr)
    figures = {
        "elections": course.elected,
        "unclean_elections": course.unclean,
        "leaderless_ms": np.where(course.leader < 0, lasted, 0),
        "under_min_isr_ms": np.where(in_sync < course.min_isr, lasted, 0),
        "one_left_ms": np.where(left <= 1, lasted, 0),
    }
    return {name: np.bincount(course.subject, values, len(stop)).astype(np.int64) for name, values in figures.items()}


def _differences(recorded: Course, simulated: Course, count: int) -> tuple[dict[str, pa.Array], Array]:
    """(columns of WHATIF that say where leader, ISR or ELR first differ, null where nothing does; the batch in which
    the leader first differs, -1 if it never does): one element per subject.

    Batches count as a whole: the records of one controller event stand before and after the record that shows it.
    """
    subject, batch = (
        np.concatenate([getattr(recorded, name), getattr(simulated, name)]) for name in ("subject", "batch")
    )
    places = np.unique(np.stack([subject, batch]), axis=1)
    was, would = (Events(c.subject, c.batch).last(*places) for c in (recorded, simulated))
    leader = recorded.leader[was] != simulated.leader[would]
    lists = [~same_set(getattr(recorded, name)[was], getattr(simulated, name)[would]) for name in ("isr", "elr")]
    at = _first(places[0], leader | lists[0] | lists[1], count)
    # The record that makes the difference is the later one of the two courses.
    is_later = simulated.batch[would[at]] == places[1][at]
    found = {"recorded_leader": recorded.leader[was[at]], "would_be_leader": simulated.leader[would[at]]}
    for name in ("offset", "timestamp_ms"):
        own, other = getattr(simulated, name)[would[at]], getattr(recorded, name)[was[at]]
        found[f"first_difference_{name}"] = np.where(is_later, own, other)
    led_at = _first(places[0], leader, count)
    columns = {name: pa.array(values, mask=at < 0) for name, values in found.items()}
    return columns, np.where(led_at < 0, -1, places[1][led_at])


def _first(subject: Array, mask: Array, count: int) -> Array:
    """The first place of each subject where the mask is true; -1 for none. subject: of each place, ascending."""
    places, result = np.flatnonzero(mask), np.full(count, -1)
    own, first = np.unique(subject[places], return_index=True)
    result[own] = places[first]
    return result


def _lost(
    course: Course,
    leaders_differ: Array | None,
    subjects: Subjects,
    judged: Sequence[JudgedWindow],
    states: States,
    min_isr: int | None = None,
) -> tuple[list[int | None], list[int | None]]:
    """(least, most) offsets lost in each subject's windows; None: unknown.

    leaders_differ: batch in which the leaders first differed, -1 if never. Nothing is known about windows that open
    later, because the logs would have been different.
    """
    count = len(subjects.start)
    least: list[int | None] = [0] * count
    most: list[int | None] = [0] * count
    subject = subjects.of(np.array([window.election_facts.row for window in judged]))
    # By the batches that opened each window and that elected.
    opened_at, elected_at = (
        np.array([state["batch_base_offset"] for state in found], dtype=np.int64)
        for found in ([window.start for window in judged], [window.after for window in judged])
    )
    at = Events(course.subject, course.batch).last(subject, elected_at)
    chosen = Events(course.subject[course.elected], course.batch[course.elected]).last(subject, elected_at)
    clean = ~np.append(course.unclean[course.elected], False)[chosen] & (chosen >= 0)
    of_windows = (values.tolist() for values in (subject, opened_at, course.leader[at], clean))
    for window, s, opened, leader, is_clean in zip(judged, *of_windows, strict=True):
        if s < 0:
            continue
        low: int | None
        high: int | None
        if leaders_differ is not None and 0 <= leaders_differ[s] < opened:
            low, high = None, None
        elif leader < 0 or (is_clean and leader != window.situation.recorded):
            low, high = 0, 0
        else:
            before = window.election_facts.row - 1
            tried = None if min_isr is None else min(min_isr, int((states.replicas[before] != PAD).sum()))
            low, high = loss_if_led(window, leader)
            low, high = loss_with_min_isr((low or 0, high), tried, int(states.min_isr[before]))
        least[s], most[s] = _sum(least[s], low), _sum(most[s], high)
    for s in _with_unjudged_election(course, subject, opened_at, elected_at):
        most[s] = None
    return least, most


def _sum(total: int | None, value: int | None) -> int | None:
    """The sum, or None if either is None."""
    return None if total is None or value is None else total + value


def _with_unjudged_election(course: Course, subject: Array, opened_at: Array, elected_at: Array) -> Array:
    """Subjects with an unclean election outside their judged windows: nothing bounds what it lost."""
    elected = np.flatnonzero(course.unclean)
    # Of windows that open together the longest comes last.
    order = np.argsort(elected_at, kind="stable")
    batch = course.batch[elected]
    window = Events(subject[order], opened_at[order]).last(course.subject[elected], batch)
    inside = (window >= 0) & (np.append(elected_at[order], -1)[window] >= batch)
    return np.unique(course.subject[elected[~inside]])
