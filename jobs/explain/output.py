"""Print an explained finding: its reason, its counterfactuals, and its evidence with the commands that show it.

Facts, bounds, assumptions, meanings and predictions have separate headings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobs.console.options import DocumentFormat
from jobs.console.output import Format, print_rows, printable, utc
from jobs.console.text import range_text, wrapped
from jobs.report.words import unlabelled
from replay.findings.kinds import ASSUMPTION, BOUND, FACT, MEANING, PREDICTION
from replay.incident.answer import deletion
from replay.incident.causes import labelled
from replay.loss.verdicts import likely_text

if TYPE_CHECKING:
    from jobs.explain.finding import Explained

Row = dict[str, Any]

_HEADINGS = {
    FACT: "What the log and files show",
    BOUND: "What that proves",
    ASSUMPTION: "Assumed, not shown by the evidence",
    MEANING: "What it means",
    PREDICTION: "Predictions (hypothetical: none of this happened)",
}
_LABEL = 10
_PROVENANCE = ("capture", "path", "sha256", "position", "batch_base_offset", "topic_id", "topic", "partition")
# The columns to show for a row, by table; default: all.
_SHOWN = {
    "partition_history": (
        *("offset", "leader", "leader_epoch", "partition_epoch", "replicas", "isr", "elr", "last_known_elr"),
        *("leader_recovery_state", "min_isr", "unclean_leader_election_enable", "removed"),
    )
}
_TIMES = ("timestamp_ms", "captured_at_ms")


def print_explained(found: Explained, form: DocumentFormat) -> None:
    """Print to stdout. json: one array of one object: the finding, with `causes`, `deleted`, `counterfactuals`,
    `evidence` and `commands`."""
    if form is DocumentFormat.JSON:
        print_rows([], [as_object(found)], Format.JSON)
        return
    _print(_head(found))
    _print(_causes(found.causes))
    _print(_reason(found.finding))
    _print(_evidence(found.evidence))
    _print(_picks(found.counterfactuals))


def as_object(found: Explained) -> Row:
    """The finding as one object."""
    commands = list(dict.fromkeys(c for row in found.evidence for c in row["commands"]))
    counterfactuals = [{k: v for k, v in row.items() if k != "cluster_id"} for row in found.counterfactuals]
    finding = {k: v for k, v in found.finding.items() if k != "evidence"}
    return {
        **finding,
        "causes": found.causes,
        "deleted": found.deleted,
        "counterfactuals": counterfactuals,
        "evidence": found.evidence,
        "commands": commands,
    }


def _print(lines: Sequence[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{printable(line)}\n")


def _head(found: Explained) -> list[str]:
    finding = found.finding
    about = finding["topic"] or finding["topic_id"]
    place = "" if about is None else f" of {about}-{finding['partition']}"
    lines = [
        f"{finding['kind']}{place}: {finding['verdict']}, {finding['severity']}",
        _line("finding", f"{finding['finding_id']} in cluster {finding['cluster_id']}"),
    ]
    if found.deleted is not None:
        lines.append(_line("topic", f"id {finding['topic_id']}, {deletion(found.deleted)}"))
    lines += [_line(label, text) for label, text in _when(finding, found.evidence) if text]
    lines += [_line(label, text) for label, text in _loss(finding)]
    if leaning := likely_text(finding):
        lines.append(_line("leaning", f"{leaning}: {finding['likely_rule']}"))
    return [*lines, _line("judged by", f"rule {finding['rule']}, version {finding['rule_version']}"), ""]


def _when(finding: Row, evidence: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """The metadata offsets of a finding, and their times."""
    at = {row["offset"]: row["captured_at_ms"] for row in evidence if row["table"] == "partition_history"}
    election = finding["election_offset"]
    yield "from", _moment(finding["start_offset"], finding["start_timestamp_ms"])
    if election is not None:
        leader = "no leader" if finding["recorded_leader"] in (None, -1) else f"broker {finding['recorded_leader']}"
        yield "elected", f"{_moment(election, at.get(election))}: {leader}"
    yield "until", _moment(finding["end_offset"], finding["end_timestamp_ms"])
    if election is not None and finding["end_offset"] is None:
        yield "until", "at least the end of the log: |ISR| is still below min ISR there"


def _moment(offset: int | None, timestamp_ms: int | None) -> str:
    at = [] if offset is None else [f"metadata offset {offset}"]
    return ", ".join([*([utc(timestamp_ms)] if timestamp_ms is not None else []), *at])


def _loss(finding: Row) -> Iterator[tuple[str, str]]:
    """Bounds of the loss, for findings that have any."""
    if all(finding[name] is None for name in ("loss_min", "loss_max", "unacked_min", "unacked_max")):
        return
    yield "lost", f"acks=all: {_bounds(finding['loss_min'], finding['loss_max'], finding['first_lost_offset'])}"
    yield "", f"acks=0 or 1: {_bounds(finding['unacked_min'], finding['unacked_max'])}"


def _bounds(low: int | None, high: int | None, first: int | None = None) -> str:
    start = "" if first is None else f", from offset {first} on"
    if low is None and high is None:
        return "no bound is known"
    if low == high:
        return f"{high}{start}" if high else "nothing"
    upper = "no upper bound is known" if high is None else f"at most {high}"
    return f"at least {low}{start}; {upper}" if low else f"nothing is proven; {upper}"


def _causes(causes: Sequence[str]) -> list[str]:
    if not causes:
        return []
    found = enumerate(labelled(causes), 1)
    lines = [line for n, (label, text) in found for line in _wrapped(f"{n}. {label}: {text}", "  ", 5)]
    return ["How it was lost", *lines, ""]


def _reason(finding: Row) -> list[str]:
    reason = finding["reason"] or ()
    lines: list[str] = []
    for nature, heading in _HEADINGS.items():
        sentences = [unlabelled(statement) for statement in reason if statement["nature"] == nature]
        lines += [heading, *(line for sentence in sentences for line in _wrapped(sentence)), ""] if sentences else []
    return lines


def _wrapped(text: str, first: str = "  ", indent: int = 2) -> list[str]:
    return wrapped(text, first, " " * indent)


def _picks(counterfactuals: Sequence[Row]) -> list[str]:
    if not counterfactuals:
        return []
    alike: dict[tuple[str, str], list[str]] = {}
    for row in counterfactuals:
        alike.setdefault((_pick(row), row["explanation"] or ""), []).append(row["policy"])
    lines = ["", "What other policies would have done (hypothetical: none of this happened)"]
    for (pick, explanation), policies in alike.items():
        lines += [*_wrapped(f"{', '.join(policies)}: {pick}"), *_wrapped(explanation, " " * 4, 4)]
    return lines


def _pick(row: Row) -> str:
    low, high = row["loss_min"], row["loss_max"]
    leader = "" if row["leader"] is None else f", broker {row['leader']}"
    clauses = [f"{row['outcome']}{leader}"]
    if row["log_end_offset"] is not None:
        clauses.append(f"last known (epoch, log end): ({row['last_written_leader_epoch']}, {row['log_end_offset']})")
    if low is not None or high is not None:
        clauses.append(f"would lose {range_text(low or 0, high)} offsets")
    return "; ".join(clauses)


def _evidence(evidence: Sequence[Row]) -> list[str]:
    """The evidence as numbered entries. Pieces with the same row and value share an entry, with all their roles."""
    roles: dict[str, list[str]] = {}
    entries: dict[str, Row] = {}
    for row in evidence:
        key = json.dumps({k: v for k, v in row.items() if k != "role"}, default=str)
        entries.setdefault(key, row)
        roles.setdefault(key, []).append(row["role"] or "evidence")
    if not entries:
        return ["Evidence: none besides the explanation"]
    lines = ["Evidence (run the commands in the folder of the unpacked capture)"]
    for number, (key, row) in enumerate(entries.items(), 1):
        lines += ["", f"{number}. {', '.join(roles[key])}", *_entry(row)]
    return lines


def _entry(row: Row) -> Iterator[str]:
    yield from _folded("row", f"{row['table']}: {_fields(row) if row['row'] else 'this row is not in the lake'}")
    if row["value"] is not None:
        yield _line("value", str(row["value"]))
    record = row["record"]
    if record:
        yield _line("record", f"{record['type']} {record['payload']}")
    if row["path"] is not None:
        yield _line("file", f"{row['path']} in capture {row['capture']}")
        yield _line("SHA-256", row["sha256"])
        batch = f", in the batch that starts at offset {record['batch_base_offset']}" if record else ""
        yield _line("position", f"byte {row['position']}{batch}")
    for label, command in zip(["command", *[""] * len(row["commands"])], row["commands"], strict=False):
        yield _line(label, command)
    if "bytes" in row:
        yield from _bytes(row["bytes"], row["path"])


def _fields(row: Row) -> str:
    """The non-null columns of a row, with their names."""
    found: Mapping[str, Any] = row["row"]
    names = _SHOWN.get(row["table"]) or [n for n in found if n not in (*_PROVENANCE, *_TIMES)]
    values = [f"{n} {_value(found[n])}" for n in names if found.get(n) is not None]
    times = [utc(found[n]) for n in _TIMES if found.get(n) is not None]
    return "; ".join([", ".join(values), *times])


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _bytes(shown: Row, path: str | None) -> Iterator[str]:
    lines = [shown["note"]] if shown["note"] else shown["hex"] or [shown["text"] or ""]
    if shown["file"] not in (None, path):
        lines = [f"from {shown['file']}, which has this SHA-256:", *lines]
    for label, line in zip(["bytes", *[""] * len(lines)], lines, strict=False):
        yield _line(label, line)


def _line(label: str, text: str) -> str:
    """A labelled line, not wrapped, so that it can be copied."""
    return f"   {label:<{_LABEL}}{text}"


def _folded(label: str, text: str) -> list[str]:
    return _wrapped(text, _line(label, ""), 3 + _LABEL)
