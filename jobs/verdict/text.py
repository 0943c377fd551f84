"""The answer of a cluster (replay/incident/answer.py) as text for terminals and as Markdown for a postmortem."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jobs.console.output import printable
from jobs.console.text import wrapped
from jobs.incident.answer import load_answer
from jobs.lake.lake import Lake
from jobs.report.filters import topic_text as visible_topic
from jobs.report.words import by_time, places_text
from replay.incident.answer import proven_text, sentences, topic_text, undecided_text

Row = dict[str, Any]

NO_ANSWERS: Mapping[str, Row] = {}
_COMMANDS = 3
_MARKED = re.compile(r"([\\`*_{}\[\]<>#|!~])")


def print_answers(lake: Lake, answers: Mapping[str, Row] = NO_ANSWERS) -> None:
    """Print the answer of each cluster to stdout. answers: those that are known."""
    clusters = lake.clusters()
    for cluster in clusters:
        head = [] if len(clusters) == 1 else [f"Cluster {printable(cluster)}"]
        answer = answers[cluster] if cluster in answers else load_answer(lake, cluster)
        lines = [*head, *_wrapped(sentences(answer, visible_topic)), ""]
        sys.stdout.write("".join(f"{line}\n" for line in lines))


def as_text(document: Row) -> list[str]:
    """Lines for a terminal. document: of jobs.verdict.document."""
    answer = document["answer"]
    lines = [f"Cluster {printable(document['cluster_id'])}", *_wrapped(sentences(answer, visible_topic))]
    for title, items in _lists(answer):
        lines += ["", title, *(line for item in items for line in _wrapped([item], "  "))]
    for title, pieces in by_time(document["advice"]):
        lines += ["", title]
        for number, piece in enumerate(pieces, 1):
            lines += _wrapped([f"{number}. {piece['advice']}"], "  ")
            lines += _wrapped((f"{label}{text}" for label, texts in _parts(piece) for text in texts), "     ")
            # Not wrapped, so that they can be copied.
            lines += [f"     {label}: {command}" for label, command in _commands(piece)]
    return lines


def as_markdown(document: Row) -> list[str]:
    """The same as Markdown. Names from a capture cannot mark anything up."""
    answer = document["answer"]
    first, *more = sentences(answer, visible_topic)
    lines = [f"**{_escaped(first)}**", "", *(f"- {_escaped(text)}" for text in more)]
    for title, items in _lists(answer):
        lines += ["", f"### {title}", "", *(f"- {_escaped(item)}" for item in items)]
    for title, pieces in by_time(document["advice"]):
        lines += ["", f"### {title}", ""]
        for number, piece in enumerate(pieces, 1):
            lines.append(f"{number}. {_escaped(piece['advice'])}")
            lines += [f"   - {label}{_escaped(text)}" for label, texts in _parts(piece) for text in texts]
            lines += [f"   - {label}: `{command}`" for label, command in _commands(piece)]
    captures = ", ".join(document["evidence"]["captures"])
    return [*lines, "", f"Cluster {_escaped(document['cluster_id'])}; captures: {_escaped(captures) or 'none'}."]


def _parts(piece: Row) -> Iterator[tuple[str, list[str]]]:
    """(label, texts) of a piece of advice: what is recorded, assumed and predicted stay apart."""
    if places := places_text(piece):
        yield "Partitions: ", [places]
    for label, name in (("Fact: ", "facts"), ("Assumed: ", "assumptions"), ("", "predictions")):
        yield label, piece[name]
    yield "Rule: ", [f"{piece['rule']} ({piece['see']})"]


def _commands(piece: Row) -> Iterator[tuple[str, str]]:
    for label, name in (("Run", "commands"), ("Do not run", "not_to_run")):
        yield from ((label, command) for command in piece[name][:_COMMANDS])
        if (more := len(piece[name]) - _COMMANDS) > 0:
            yield label, f"{more} more like these: kraft-forensics verdict --format json"


def _lists(answer: Row) -> Iterator[tuple[str, list[str]]]:
    """(title, items) of each list under the answer."""
    topics = [topic_text(topic, visible_topic) for topic in answer["topics"]]
    if answer["topics_left_out"]:
        topics.append(f"{answer['topics_left_out']} more topics")
    if topics:
        yield "By topic", topics
    proven = [proven_text(window, visible_topic) for window in answer["proven"]]
    if answer["lost"] and (more := answer["lost"]["windows"] - len(proven)):
        proven.append(f"{more} more: kraft-forensics findings --section windows --verdict proven")
    if proven:
        yield "Proven windows, the largest loss first", proven
    windows = [undecided_text(window, visible_topic) for window in answer["undecided"]]
    if more := answer["undecided_windows"] - len(windows):
        windows.append(f"{more} more: kraft-forensics findings --section windows")
    if windows:
        yield "Undecided windows, the ones that can have cost most first", windows


def _wrapped(texts: Iterable[str], indent: str = "") -> list[str]:
    return [line for text in texts for line in wrapped(printable(text), indent, indent + "  ")]


def _escaped(text: str) -> str:
    return _MARKED.sub(r"\\\1", printable(text))
