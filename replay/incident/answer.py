"""The answer of a cluster: whether acknowledged records were lost, as data and as sentences.

Only proven windows count in a sum. What is undecided stays unknown, with the evidence that would decide it. The data is
the key `answer` of the verdict document (docs/verdict.md); the terminal, the report and Markdown show its sentences.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Row
from replay.arrow.runs import groups
from replay.incident.missing import NO_LOGS, OPEN, CapturedLogs, brokers_text, missing, missing_statements
from replay.incident.words import MISSING
from replay.loss.verdicts import EXCLUDED, LEANINGS, PROVEN, UNDETERMINED, likely_text
from replay.plan.step import count, moment, place, visible

LOST, NOT_LOST, NOT_KNOWN = "lost", "not_lost", "not_known"
_LIKELY = ("likely", "likely_rule", "likely_right", "likely_of")
# The columns of findings that `answer` needs.
COLUMNS = (
    *("finding_id", "topic_id", "topic", "partition", "verdict", "loss_min", "loss_max", "first_lost_offset"),
    *("election_offset", "recorded_leader", "start_timestamp_ms", "end_timestamp_ms", "reason", *_LIKELY),
)
MOST_TOPICS, MOST_WINDOWS, MOST_GAPS = 100, 100, 10
_NAMED = 5
_RECORD = "acknowledged record"
_CEILING = "missing_high_watermark_ceiling"  # its broker is the previous leader


@dataclass(frozen=True, slots=True)
class AnswerScope:
    """What the answer is about. gaps: FINDINGS rows of kind evidence_gap, with rule and explanation; gap_count: how
    many there are; conflicts: kinds of proven, critical faults; states: number of replayed states that it is about;
    since_ms: time of the first captured record, null if the log has none before; until_ms: of the last one, null if
    unknown; logs: the brokers' own logs that were captured; deleted: topics that were deleted
    (jobs/incident/deleted.sql)."""

    gaps: Sequence[Row]
    gap_count: int
    conflicts: Sequence[str]
    states: int
    until_ms: int | None
    since_ms: int | None = None
    logs: CapturedLogs = NO_LOGS
    deleted: Sequence[Row] = ()


def answer(windows: pa.Table, scope: AnswerScope) -> Row:
    """The answer as data, with its sentences in `text`: keys as in docs/verdict.md. windows: COLUMNS of all findings of
    kind hwm_regression."""
    is_proven, is_excluded = (pc.fill_null(pc.equal(windows["verdict"], name), False) for name in (PROVEN, EXCLUDED))
    proven, undecided = windows.filter(is_proven), windows.filter(pc.invert(pc.or_(is_proven, is_excluded)))
    hidden = bool(scope.gap_count or scope.conflicts or not scope.states)
    is_open = bool(len(undecided) or hidden)
    topics = _by_topic(windows, hidden)
    concerned = {row["topic_id"] for row in topics if row["proven"] or row["undecided"]}
    ranked = _ranked(undecided)
    found: Row = {
        "status": LOST if len(proven) else NOT_KNOWN if is_open else NOT_LOST,
        "complete": not is_open,
        "windows": len(windows),
        "lost": _lost(proven, None if hidden else _sum(windows["loss_max"].to_pylist())) if len(proven) else None,
        "topics": topics[:MOST_TOPICS],
        "topics_left_out": max(len(topics) - MOST_TOPICS, 0),
        "undecided_windows": len(undecided),
        "undecided_max": _sum(undecided["loss_max"].to_pylist()) if len(undecided) else 0,
        "proven": _worst(proven)[:MOST_WINDOWS],
        "undecided": ranked[:MOST_WINDOWS],
        "missing": missing(undecided, scope.logs),
        "gaps": [{"rule": gap["rule"], "text": gap["explanation"]} for gap in scope.gaps[:MOST_GAPS]],
        "gap_count": scope.gap_count,
        "conflicts": sorted(scope.conflicts),
        "deleted": [row for row in scope.deleted if row["topic_id"] in concerned][:MOST_TOPICS],
        "replayed_states": scope.states,
        "since_ms": scope.since_ms,
        "until_ms": scope.until_ms,
    }
    unknown = (f"Not known: {text}" for text in unknowns(found))
    counted = (*_expired_text(proven), *_regained_text(windows, proven))
    texts = [*losses(found), *unknown, *_deleted_text(found), *counted, *_scope_text(found)]
    return {"status": found["status"], "text": texts, **found}


def losses(found: Row) -> list[str]:
    """What was lost, then what may have been; the first sentence is the headline. found: of `answer`."""
    if found["status"] == NOT_LOST:
        return [_nothing_text(found)]
    texts = [*_loss_text(found), *_may_have_text(found), *_gap_text(found)]
    is_named = found["lost"] or found["undecided_windows"]
    return texts if is_named else [f"A LOSS CANNOT BE RULED OUT: {texts[0]}", *texts[1:]]


def topic_text(topic: Row) -> str:
    """One sentence about a topic of `topics`."""
    parts = []
    if topic["proven"]:
        amount = _amount(topic["records_min"], topic["records_max"])
        parts.append(f"{amount} lost in {count(topic['partitions_lost'], 'partition')}")
    parts += [f"{count(topic[name], 'window')} {name}" for name in ("undecided", "excluded") if topic[name]]
    return f"{visible(topic['topic'])}: {', '.join(parts)}"


def proven_text(window: Row) -> str:
    """One sentence about a window of `proven`."""
    amount, first = _amount(window["loss_min"], window["loss_max"]), window["first_lost_offset"]
    begin = "" if first is None else f", from offset {first} on"
    when = _when(window["start_timestamp_ms"], window["end_timestamp_ms"])
    return f"{place(window)}: {amount} lost{begin}, {when} (finding {window['finding_id']})"


def _amount(low: int, high: int | None) -> str:
    return f"{low}" if low == high else f"at least {low}" + ("" if high is None else f" and at most {high}")


def undecided_text(window: Row) -> str:
    """One sentence about a window of `undecided`."""
    cost = "no upper bound" if window["loss_max"] is None else f"at most {window['loss_max']}"
    cost = ", ".join(filter(None, [cost, likely_text(window)]))
    why = "; ".join(MISSING[code]["because"] for code in window["missing"])
    when = _when(window["start_timestamp_ms"], window["end_timestamp_ms"])
    return f"{place(window)}: {cost}, {when}; not known: {why} (finding {window['finding_id']})"


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum; null if one of the values is. That of damaged files may not fit into 64 bits."""
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)


def _lost(proven: pa.Table, most: int | None) -> Row:
    """What the proven windows lost. most: records that all windows together can have lost; null if not known."""
    places, worst = proven.group_by(["topic_id", "topic", "partition"]).aggregate([]), proven.sort_by(_WORST)
    ends = proven["end_timestamp_ms"]
    return {
        "windows": len(proven),
        "records_min": sum(value or 0 for value in proven["loss_min"].to_pylist()),
        "records_max": most,
        "partitions": len(places),
        "topics": len(places["topic_id"].unique()),
        "topic_names": list(dict.fromkeys(map(_named, *(worst[name].to_pylist() for name in ("topic", "topic_id"))))),
        "from_ms": pc.min(proven["start_timestamp_ms"]).as_py(),
        "until_ms": None if ends.null_count else pc.max(ends).as_py(),
    }


_COUNTED = ("proven", "undecided", "excluded")
_LAST = [("start_timestamp_ms", "ascending"), ("finding_id", "ascending")]
_WORST = [("loss_min", "descending"), ("topic", "ascending"), ("partition", "ascending")]


def _named(topic: str | None, topic_id: str | None) -> str:
    return topic if topic is not None else f"topic id {topic_id}"


def _by_topic(windows: pa.Table, hidden: bool) -> list[Row]:
    """A row for each topic id: those with a proven loss first, then those with undecided windows, then by name.

    records_min: of proven windows; records_max: of all its windows, null if one has no upper bound or some may be
    missing (hidden)."""
    found = []
    names = ["topic_id", "topic", "partition", "verdict", "loss_min", "loss_max"]
    for topic_id, own in groups(windows.select(names).to_pylist(), itemgetter("topic_id")).items():
        verdicts = Counter(row["verdict"] if row["verdict"] in (PROVEN, EXCLUDED) else "undecided" for row in own)
        proven = [row for row in own if row["verdict"] == PROVEN]
        row = {"topic": _named(own[0]["topic"], topic_id), "topic_id": topic_id}
        row |= {"partitions_lost": len({each["partition"] for each in proven})}
        row |= {"records_min": sum(each["loss_min"] or 0 for each in proven)}
        row |= {"records_max": None if hidden else _sum(each["loss_max"] for each in own)}
        found.append(row | {name: verdicts[name] for name in _COUNTED})
    return sorted(found, key=lambda r: (-r["records_min"], -r["undecided"], r["topic"], r["topic_id"] or ""))


def _rows(windows: pa.Table) -> list[Row]:
    rows: list[Row] = windows.drop_columns(["reason"]).to_pylist()
    for row in rows:
        row |= {"topic": _named(row["topic"], row["topic_id"]), "verdict": row["verdict"] or UNDETERMINED}
    return rows


def _worst(proven: pa.Table) -> list[Row]:
    return _rows(proven.drop_columns(list(_LIKELY)).sort_by([*_WORST, *_LAST]))


def _ranked(undecided: pa.Table) -> list[Row]:
    """Undecided windows: those that likely lost records first, then by what they can have cost at most, no upper bound
    first; among equal ones, those last whose leader had led before."""
    rows = _rows(undecided)
    codes: dict[int, list[str]] = {}
    led_before = set()
    for number, statement in missing_statements(undecided):
        codes.setdefault(number, []).append(statement["code"])
        if statement["code"] == _CEILING and rows[number]["recorded_leader"] in (statement["brokers"] or ()):
            led_before.add(number)
    for number, row in enumerate(rows):
        row["missing"] = codes.get(number, [OPEN])

    def rank(number: int) -> tuple[Any, ...]:
        row = rows[number]
        high = row["loss_max"]
        place = (row["start_timestamp_ms"] or 0, row["topic"], row["partition"] or 0)
        leaning = LEANINGS.index(row["likely"]) if row["likely"] in LEANINGS else len(LEANINGS)
        return leaning, high is not None, -(high or 0), number in led_before, *place, row["finding_id"]

    return [rows[number] for number in sorted(range(len(rows)), key=rank)]


def places(windows: Sequence[Mapping[str, Any]], more: int = 0) -> str:
    """The partitions of windows, in their order, the first ones by name. more: windows that are not among them."""
    names = list(dict.fromkeys(place(row) for row in windows))
    if more or len(names) > _NAMED:
        left = f"{at_least(windows)}{len(names) - _NAMED} more" if not more else "others"
        return f"{', '.join(names[:_NAMED])} and {left}"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def at_least(windows: Sequence[Mapping[str, Any]]) -> str:
    """Words before a number of windows of a list from which some were `left_out`."""
    return "at least " if any(row.get("left_out") for row in windows) else ""


def _loss_text(found: Row) -> Iterable[str]:
    lost = found["lost"]
    if lost is None:
        return
    low, high = lost["records_min"], lost["records_max"]
    amount = "exactly" if low == high else "at least"
    more = lost["windows"] - len(found["proven"])
    where = f" in {count(lost['partitions'], 'partition')}," if lost["partitions"] > _NAMED else " of"
    yield (
        f"LOST: {amount} {count(low, _RECORD)}{where} {places(found['proven'], more)}, "
        f"{_when(lost['from_ms'], lost['until_ms'])}."
    )
    if high is not None and high > low:
        yield f"All windows together lost at most {count(high, _RECORD)}."


def _when(start_ms: int | None, end_ms: int | None) -> str:
    first, last = moment(start_ms), moment(end_ms)
    if end_ms is None:
        return f"since {first} UTC, in a window whose end is not known"
    last = last.removeprefix(first[:11]) if last[:10] == first[:10] else last
    return f"at {first} UTC" if first.endswith(last) else f"between {first} and {last} UTC"


def _may_have_text(found: Row) -> Iterable[str]:
    number, most = found["undecided_windows"], found["undecided_max"]
    if not number:
        return
    cost = "no upper limit is known" if most is None else f"at most {count(most, _RECORD)}"
    more = number - len(found["undecided"])
    when = "" if found["lost"] else f", {_span(found['undecided'])}"
    may = "MAY ALSO" if found["lost"] else "MAY"
    yield f"{may} HAVE LOST records of {places(found['undecided'], more)}{when}: {cost}."


def _span(windows: Sequence[Row]) -> str:
    starts, ends = ([row[name] for row in windows] for name in ("start_timestamp_ms", "end_timestamp_ms"))
    first = min((at for at in starts if at is not None), default=None)
    return _when(first, None if None in ends else max(ends))


def unknowns(found: Row) -> Iterable[str]:
    """What is not known, and what to capture to know it."""
    for each in found["missing"]:
        number = each["windows"]
        logs = f"; the captured logs of {brokers_text(each['logged'])} do not decide it" if each["logged"] else ""
        text = f"{each['because']} ({count(number, 'window')}){logs}."
        if each["capture"] is not None:
            some_of = f" (for {each['capture_windows']} of them)" if each["capture_windows"] != number else ""
            text += f" To know it, capture{some_of} {each['capture']}."
        yield text
    left_out = {"left_out": found["undecided_windows"] > len(found["undecided"])}
    for leaning in ("lost", "kept"):
        if rows := [row | left_out for row in found["undecided"] if row.get("likely") == leaning]:
            how, windows = "likely" if leaning == "lost" else "likely not", at_least(rows) + count(len(rows), "window")
            yield f"whether records of {places(rows)} were lost; a guess, not a verdict: {how} ({windows})."


def deletion(row: Row) -> str:
    """When a topic was deleted, and what has its name since. row: of jobs/incident/deleted.sql."""
    then = "no topic has its name since"
    if row["next_id"] is not None:
        then = f"since {moment(row['next_ms'])} another topic has its name (id {row['next_id']})"
    return f"deleted at {moment(row['deleted_ms'])} UTC; {then}"


def _deleted_text(found: Row) -> Iterable[str]:
    """For each topic whose records are lost or may be, and that was deleted since."""
    for row in found["deleted"]:
        yield f"{visible(row['topic'])} (id {row['topic_id']}) was {deletion(row)}."


def _expired_text(proven: pa.Table) -> Iterable[str]:
    """Where lost offsets had been deleted before."""
    counted = proven.select(["topic_id", "topic", "partition", "reason"]).to_pylist()
    own = [row for row in counted if any(said["code"] == "deleted_before" for said in row["reason"] or ())]
    if own:
        starts = (said["value"] for row in own for said in row["reason"] if said["code"] == "deleted_before")
        below = f"offset {max(starts)}" if len(own) == 1 else "where their logs began (deleted_before)"
        yield (
            f"Of what is counted for {places(own)}, the records below {below} had been deleted before, by retention or "
            "DeleteRecords."
        )


def _regained_text(windows: pa.Table, proven: pa.Table) -> Iterable[str]:
    """Where a later election may have brought lost records back, of a replica that was down meanwhile."""
    own = windows.filter(pc.is_in(windows["topic_id"], proven["topic_id"].unique()))
    rows = own.select(["topic_id", "topic", "partition", "verdict", "election_offset"]).sort_by("election_offset")
    of_partitions = groups(rows.to_pylist(), itemgetter("topic_id", "partition")).values()
    again = [each[0] for each in of_partitions if any(row["verdict"] == PROVEN for row in each[:-1])]
    if again:
        yield (
            f"Counted is what each election lost: a later one of {places(again)} may have brought records back, and a "
            "third one may have lost them again."
        )


def _gap_text(found: Row) -> Iterable[str]:
    if found["conflicts"]:
        kinds = ", ".join(kind.replace("_", " ") for kind in found["conflicts"])
        yield f"The captures contradict each other ({kinds})."
    if number := found["gap_count"]:
        yield f"Evidence is missing or unreadable in {count(number, 'place')}, so windows may be missing."
        more = number - len(found["gaps"])
        left = [f"{more} more: kraft-forensics findings --kind evidence_gap"] if more > 0 else []
        yield f"The places: {'; '.join([*(gap['text'] for gap in found['gaps']), *left])}."
    if not found["replayed_states"] and not found["conflicts"]:
        yield (
            "No state of a partition could be replayed. Capture the folder __cluster_metadata-0 of every controller; "
            "with --topic or --incident, name what the captured log shows."
        )


def _nothing_text(found: Row) -> str:
    number = found["windows"]
    if not number:
        return "No acknowledged record was lost: the log has no window in which one could have been."
    every = "the only window" if number == 1 else f"all {number} windows"
    return f"No acknowledged record was lost: the evidence rules it out for {every} in which one could have been."


def _scope_text(found: Row) -> Iterable[str]:
    since, until = found["since_ms"], found["until_ms"]
    span = f" The captured log ends at {moment(until)} UTC; nothing is known of later." if until else ""
    if since and until:
        times = f"{moment(since)} to {moment(until)} UTC"
        span = f" The captured log goes from {times}; nothing is known of earlier or later."
    yield f"Counted are offsets below the high watermark (acks=all); acks=0 and 1 may have lost more.{span}"
