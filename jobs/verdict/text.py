"""The answer of a cluster (replay/incident/answer.py) as text for terminals and as Markdown for a postmortem."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jobs.console.output import printable
from jobs.console.text import wrapped
from jobs.incident.answer import load_answer
from jobs.lake.lake import Lake
from jobs.report.filters import topic_text as visible_topic
from jobs.report.markdown import MORE_COMMANDS, escaped, plan_lines
from jobs.report.words import folded
from replay.incident.answer import proven_text, sentences, topic_text, undecided_text

Row = dict[str, Any]

NO_ANSWERS: Mapping[str, Row] = {}
_COMMANDS = 3


def print_answers(lake: Lake, answers: Mapping[str, Row] = NO_ANSWERS) -> None:
    """Print the answer of each cluster to stdout. answers: those that are known."""
    clusters = lake.clusters()
    for cluster in clusters:
        head = [] if len(clusters) == 1 else [f"Cluster {printable(cluster)}"]
        answer = answers[cluster] if cluster in answers else load_answer(lake, cluster)
        lines = [*head, *_wrapped(sentences(answer, visible_topic)), ""]
        sys.stdout.write("".join(f"{line}\n" for line in lines))


def as_text(document: Row, facts: bool = False) -> list[str]:
    """Lines for a terminal. document: of jobs.verdict.document; facts: also what is behind each step of the plan."""
    answer = document["answer"]
    lines = [f"Cluster {printable(document['cluster_id'])}", *_wrapped(sentences(answer, visible_topic))]
    lines += _plan(document["plan"], facts)
    for title, items in _lists(answer):
        lines += ["", title, *(line for item in items for line in _wrapped([item], "  "))]
    return lines


def _plan(plan: Row, facts: bool) -> list[str]:
    lines = []
    for number, step in enumerate(plan["steps"], 1):
        lines += _wrapped([f"{number}. {step['text']}"], "  ")
        # Not wrapped, so that they can be copied.
        lines += [f"     {printable(command)}" for command in step["commands"][:_COMMANDS]]
        if (more := len(step["commands"]) - _COMMANDS) > 0:
            lines.append(f"     {MORE_COMMANDS.format(more)}")
        if facts:
            lines += _wrapped((f"{label}: {text}" for label, text in folded(step)), "     ")
    if not lines:
        return []
    fill_in = [f"{name}: {text}." for name, text in plan["fill_in"].items()]
    why = [] if facts else ["Facts and rules behind each step: kraft-forensics verdict --facts"]
    return ["", "What to do, in this order", *lines, *_wrapped([*fill_in, *why], "  ")]


def as_markdown(document: Row) -> list[str]:
    """The same as Markdown. Names from a capture cannot mark anything up."""
    answer = document["answer"]
    first, *more = sentences(answer, visible_topic)
    lines = [f"**{escaped(first)}**", "", *(f"- {escaped(text)}" for text in more)]
    lines += plan_lines(document["plan"], "###")
    for title, items in _lists(answer):
        lines += ["", f"### {title}", "", *(f"- {escaped(item)}" for item in items)]
    captures = ", ".join(document["evidence"]["captures"])
    return [*lines, "", f"Cluster {escaped(document['cluster_id'])}; captures: {escaped(captures) or 'none'}."]


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
        yield "Undecided windows: likely losses first, then by what they can have cost", windows


def _wrapped(texts: Iterable[str], indent: str = "") -> list[str]:
    return [line for text in texts for line in wrapped(printable(text), indent, indent + "  ")]
