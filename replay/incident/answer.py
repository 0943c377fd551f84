"""The answer of a cluster: whether acknowledged records were lost, as data and as sentences.

Only proven windows count in a sum. What is undecided stays unknown, with the evidence that would decide it. The data is
the key `answer` of the verdict document (docs/verdict.md); the sentences are the same in the terminal, the report, the
document and Markdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replay.incident.missing import MISSING, NO_LOGS, OPEN, CapturedLogs, logged_text, missing, missing_statements
from replay.loss.verdicts import EXCLUDED, LEANINGS, PROVEN, likely_text

Row = dict[str, Any]
Name = Callable[[str], str]

LOST, NOT_LOST, NOT_KNOWN = "lost", "not_lost", "not_known"
_LIKELY = ("likely", "likely_rule", "likely_right", "likely_of")
# The columns of findings that `answer` needs.
COLUMNS = (
    *("finding_id", "topic_id", "topic", "partition", "verdict", "loss_min", "loss_max"),
    *("first_lost_offset", "start_timestamp_ms", "end_timestamp_ms", "reason", *_LIKELY),
)
MOST_TOPICS, MOST_WINDOWS, MOST_GAPS = 100, 100, 10
_NAMED = 5
_RECORD = "acknowledged record"
_NEVER = "an unknown time"


@dataclass(frozen=True, slots=True)
class Scope:
    """What the answer is about. gaps: FINDINGS rows of kind evidence_gap, with rule and explanation; gap_count: how
    many there are; conflicts: kinds of proven, critical faults; states: number of replayed states; until_ms: time of
    the last captured record, null if unknown; logs: the brokers' own logs that were captured;
    deleted: topics that were deleted (jobs/incident/deleted.py)."""

    gaps: Sequence[Row]
    gap_count: int
    conflicts: Sequence[str]
    states: int
    until_ms: int | None
    logs: CapturedLogs = NO_LOGS
    deleted: Sequence[Row] = ()


def answer(windows: pa.Table, scope: Scope) -> Row:
    """The answer as data, with its sentences in `text`: keys as in docs/verdict.md. windows: COLUMNS of all findings of
    kind hwm_regression."""
    is_proven, is_excluded = (pc.fill_null(pc.equal(windows["verdict"], name), False) for name in (PROVEN, EXCLUDED))
    proven, undecided = windows.filter(is_proven), windows.filter(pc.invert(pc.or_(is_proven, is_excluded)))
    hidden = bool(scope.gap_count or scope.conflicts or not scope.states)
    unknown = bool(len(undecided) or hidden)
    deleted = {row["topic_id"]: row for row in scope.deleted}
    topics = _by_topic(windows, hidden)
    concerned = {row["topic_id"] for row in topics if row["proven"] or row["undecided"]}
    ranked = _ranked(undecided)
    found: Row = {
        "status": LOST if len(proven) else NOT_KNOWN if unknown else NOT_LOST,
        "complete": not unknown,
        "windows": len(windows),
        "lost": _lost(proven, None if hidden else _sum(windows["loss_max"])) if len(proven) else None,
        "topics": topics[:MOST_TOPICS],
        "topics_left_out": max(len(topics) - MOST_TOPICS, 0),
        "undecided_windows": len(undecided),
        "undecided_max": _sum(undecided["loss_max"]) if len(undecided) else 0,
        "proven": _worst(proven)[:MOST_WINDOWS],
        "undecided": ranked[:MOST_WINDOWS],
        "missing": missing(undecided, scope.logs),
        "gaps": [{"rule": gap["rule"], "text": gap["explanation"]} for gap in scope.gaps[:MOST_GAPS]],
        "gap_count": scope.gap_count,
        "conflicts": sorted(scope.conflicts),
        "deleted": [deleted[topic_id] for topic_id in deleted if topic_id in concerned][:MOST_TOPICS],
        "replayed_states": scope.states,
        "until_ms": scope.until_ms,
    }
    return {"status": found["status"], "text": sentences(found), **found}


def sentences(found: Row, name: Name = str) -> list[str]:
    """The answer in sentences, the most important one first. found: of `answer`; name: how a topic name is written."""
    texts = [*_loss_text(found, name), *_undecided_text(found), *_deleted_text(found, name), *_gap_text(found)]
    if found["status"] == NOT_LOST:
        texts.append(_nothing_text(found))
    return [*texts, *_scope_text(found)]


def topic_text(topic: Row, name: Name = str) -> str:
    """One sentence about a topic of `topics`."""
    parts = []
    if topic["proven"]:
        low, high = topic["records_min"], topic["records_max"]
        amount = f"{low}" if low == high else f"at least {low}" + ("" if high is None else f" and at most {high}")
        parts.append(f"{amount} lost in {_count(topic['partitions_lost'], 'partition')}")
    parts += [f"{_count(topic[name], 'window')} {name}" for name in ("undecided", "excluded") if topic[name]]
    return f"{name(topic['topic'])}: {', '.join(parts)}"


def proven_text(window: Row, name: Name = str) -> str:
    """One sentence about a window of `proven`."""
    low, high, first = (window[key] for key in ("loss_min", "loss_max", "first_lost_offset"))
    amount = f"{low}" if low == high else f"at least {low}" + ("" if high is None else f" and at most {high}")
    begin = "" if first is None else f", from offset {first} on"
    place = f"{name(window['topic'])}-{window['partition']}"
    when = _when(window["start_timestamp_ms"], window["end_timestamp_ms"])
    return f"{place}: {amount} lost{begin}, {when} (finding {window['finding_id']})"


def undecided_text(window: Row, name: Name = str) -> str:
    """One sentence about a window of `undecided`."""
    cost = "no upper bound" if window["loss_max"] is None else f"at most {window['loss_max']}"
    cost = ", ".join(filter(None, [cost, likely_text(window)]))
    why = "; ".join(MISSING[code][0] for code in window["missing"])
    when = _when(window["start_timestamp_ms"], window["end_timestamp_ms"])
    return f"{name(window['topic'])}-{window['partition']}: {cost}, {when}; {why} (finding {window['finding_id']})"


def moment(timestamp_ms: int | None) -> str:
    """A time in UTC to the second; "an unknown time" for null or a value outside the calendar."""
    try:
        return (
            f"{datetime.fromtimestamp((timestamp_ms or 0) / 1000, UTC):%Y-%m-%d %H:%M:%S}" if timestamp_ms else _NEVER
        )
    except (OverflowError, ValueError, OSError):
        return _NEVER


def _sum(column: pa.ChunkedArray) -> int | None:
    """The sum; null if one of the values is. Values of damaged files may not fit into 64 bits."""
    values = column.to_pylist()
    return None if any(value is None for value in values) else sum(values)


def _lost(proven: pa.Table, most: int | None) -> Row:
    """What the proven windows lost. most: records that all windows together can have lost; null if not known."""
    places = proven.group_by(["topic_id", "topic", "partition"]).aggregate([])
    ends = proven["end_timestamp_ms"]
    return {
        "windows": len(proven),
        "records_min": sum(value or 0 for value in proven["loss_min"].to_pylist()),
        "records_max": most,
        "partitions": len(places),
        "topics": len(places["topic_id"].unique()),
        "topic_names": list(dict.fromkeys(map(_named, *_columns(proven.sort_by(_WORST), "topic", "topic_id")))),
        "from_ms": pc.min(proven["start_timestamp_ms"]).as_py(),
        "until_ms": None if ends.null_count else pc.max(ends).as_py(),
    }


_COUNTED = ("proven", "undecided", "excluded")
_WORST = [("loss_min", "descending"), ("topic", "ascending"), ("partition", "ascending")]


def _columns(table: pa.Table, *names: str) -> list[list[Any]]:
    return [table[name].to_pylist() for name in names]


def _named(topic: str | None, topic_id: str | None) -> str:
    return topic if topic is not None else f"topic id {topic_id}"


def _by_topic(windows: pa.Table, hidden: bool) -> list[Row]:
    """A row for each topic id: those with a proven loss first, then those with undecided windows, then by name.

    records_min: of proven windows; records_max: of all its windows, null if one has no upper bound or some may be
    missing (hidden)."""
    found: dict[Any, Row] = {}
    names = ("topic_id", "topic", "partition", "verdict", "loss_min", "loss_max")
    lost: dict[Any, set[Any]] = {}
    for topic_id, topic, partition, verdict, low, high in zip(*_columns(windows, *names), strict=True):
        blank = {"topic": _named(topic, topic_id), "topic_id": topic_id, "partitions_lost": 0}
        blank |= {"records_min": 0, "records_max": None if hidden else 0, **dict.fromkeys(_COUNTED, 0)}
        row = found.setdefault(topic_id, blank)
        row["records_max"] = None if high is None or row["records_max"] is None else row["records_max"] + high
        row[verdict if verdict in (PROVEN, EXCLUDED) else "undecided"] += 1
        if verdict == PROVEN:
            row["records_min"] += low or 0
            lost.setdefault(topic_id, set()).add(partition)
    for topic_id, partitions in lost.items():
        found[topic_id]["partitions_lost"] = len(partitions)
    return sorted(found.values(), key=lambda r: (-r["records_min"], -r["undecided"], r["topic"], r["topic_id"] or ""))


def _rows(windows: pa.Table) -> list[Row]:
    rows = windows.drop_columns(["reason", "verdict"]).to_pylist()
    return [row | {"topic": _named(row["topic"], row["topic_id"])} for row in rows]


def _worst(proven: pa.Table) -> list[Row]:
    return _rows(proven.drop_columns(list(_LIKELY)).sort_by([*_WORST, ("start_timestamp_ms", "ascending")]))


def _ranked(undecided: pa.Table) -> list[Row]:
    """Undecided windows: those that likely lost records first, then by what they can have cost at most, no upper bound
    first."""
    rows = _rows(undecided)
    codes: dict[int, list[str]] = {}
    for number, statement in missing_statements(undecided):
        codes.setdefault(number, []).append(statement["code"])
    for number, row in enumerate(rows):
        row["missing"] = codes.get(number, [OPEN])

    def rank(row: Row) -> tuple[Any, ...]:
        high = row["loss_max"]
        place = (row["start_timestamp_ms"] or 0, row["topic"], row["partition"] or 0)
        leaning = LEANINGS.index(row["likely"]) if row["likely"] in LEANINGS else len(LEANINGS)
        return leaning, high is not None, -(high or 0), *place, row["finding_id"]

    return sorted(rows, key=rank)


def _loss_text(found: Row, name: Name) -> Iterable[str]:
    lost = found["lost"]
    if lost is None:
        return
    low, high = lost["records_min"], lost["records_max"]
    amount = "exactly" if low == high else "at least"
    names = [name(topic) for topic in lost["topic_names"][:_NAMED]]
    if more := len(lost["topic_names"]) - len(names):
        names.append(f"{more} more")
    place = f"{_count(lost['partitions'], 'partition')} of {_count(lost['topics'], 'topic')} ({', '.join(names)})"
    yield f"LOST: {amount} {_count(low, _RECORD)} in {place}, {_when(lost['from_ms'], lost['until_ms'])}."
    if high is not None and high > low:
        yield f"All windows together lost at most {_count(high, _RECORD)}."


def _when(start_ms: int | None, end_ms: int | None) -> str:
    first, last = moment(start_ms), moment(end_ms)
    if end_ms is None:
        return f"since {first} UTC, in a window that had not closed when the log ended"
    last = last.removeprefix(first[:11]) if last[:10] == first[:10] else last
    return f"between {first} and {last} UTC"


def _undecided_text(found: Row) -> Iterable[str]:
    number = found["undecided_windows"]
    if not number:
        return
    more = " more" if found["lost"] else ""
    are = "is" if number == 1 else "are"
    because = ", and ".join(f"{each['because']} ({each['windows']})" for each in found["missing"])
    yield f"Not known: {number}{more} window{'' if number == 1 else 's'} {are} undecided, because {because}."
    most = found["undecided_max"]
    cost = "for at least one of them no upper bound is known" if number > 1 else "no upper bound is known"
    subject = "It" if number == 1 else "Together they"
    yield f"{subject} can have cost {'more: ' + cost if most is None else f'at most {_count(most, _RECORD)}'}."
    it = "it" if number == 1 else "them"
    for each in found["missing"]:
        if each["capture"] is not None:
            yield f"To decide {it}, capture for {_count(each['capture_windows'], 'window')}: {each['capture']}."
    if logged := sorted({broker for each in found["missing"] for broker in each["logged"]}):
        yield logged_text(logged)


def deletion(row: Row) -> str:
    """When a topic was deleted, and what has its name since. row: of jobs/incident/deleted.py."""
    then = "no topic has its name since"
    if row["next_id"] is not None:
        then = f"since {moment(row['next_ms'])} another topic has its name (id {row['next_id']})"
    return f"deleted at {moment(row['deleted_ms'])} UTC; {then}"


def _deleted_text(found: Row, name: Name) -> Iterable[str]:
    """For each topic whose records are lost or may be, and that was deleted since."""
    for row in found["deleted"]:
        yield f"{name(row['topic'])} (id {row['topic_id']}) was {deletion(row)}."


def _gap_text(found: Row) -> Iterable[str]:
    if found["conflicts"]:
        yield f"Not known: the captures contradict each other ({', '.join(found['conflicts'])})."
    if number := found["gap_count"]:
        yield f"Not known: evidence is missing or unreadable in {_count(number, 'place')}, so windows may be missing."
        yield from (f"{gap['rule']}: {gap['text']}" for gap in found["gaps"])
        if number > len(found["gaps"]):
            yield f"{number - len(found['gaps'])} more: kraft-forensics findings --kind evidence_gap"
    if not found["replayed_states"]:
        yield (
            "Not known: no state of any partition could be replayed. "
            "Capture the folder __cluster_metadata-0 of every controller."
        )


def _nothing_text(found: Row) -> str:
    number = found["windows"]
    why = "the log has no window in which one could have been"
    if number:
        why = "the only window is excluded" if number == 1 else f"all {number} windows are excluded"
    return f"No acknowledged record was lost: {why}."


def _scope_text(found: Row) -> Iterable[str]:
    until = found["until_ms"]
    end = f" The captured log ends at {moment(until)} UTC; nothing is known of later." if until else ""
    yield f"Counted are offsets below the high watermark (acks=all); acks=0 and 1 may have lost more.{end}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
