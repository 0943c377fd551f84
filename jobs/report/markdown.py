"""Markdown for a ticket or a wiki. Names from a capture cannot mark anything up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jobs.report import filters, words

Row = dict[str, Any]

MOST_COMMANDS = 10  # of a step
MORE_COMMANDS = "{} more: kraft-forensics verdict --format json"
_MARKED = re.compile(r"([\\`*_{}\[\]<>#|!~&])")


def escaped(text: object) -> str:
    """Text that marks nothing up."""
    return _MARKED.sub(r"\\\1", filters.visible(text))


def code(command: str) -> str:
    """A command as code. Backticks cannot be escaped there: with one in it, the command is text."""
    shown = filters.visible(command)
    return escaped(shown) if "`" in shown else f"`{shown}`"


def plan_lines(plan: Row, heading: str) -> Iterator[str]:
    """The plan, with what is behind its steps below it. heading: `##` or `###`."""
    if not plan["steps"]:
        return
    yield from ("", f"{heading} What to do, in this order", "")
    for number, step in enumerate(plan["steps"], 1):
        yield f"{number}. {escaped(step['text'])}"
        yield from (f"   - {code(command)}" for command in step["commands"][:MOST_COMMANDS])
        if (more := len(step["commands"]) - MOST_COMMANDS) > 0:
            yield f"   - {MORE_COMMANDS.format(more)}"
    yield from (("", *(f"- `{name}`: {escaped(text)}" for name, text in plan["fill_in"].items())))
    yield from ("", f"{heading} Facts and rules behind each step", "")
    for number, step in enumerate(plan["steps"], 1):
        yield f"{number}. {step['code'].replace('_', ' ')}"
        yield from (f"   - {label}: {escaped(text)}" for label, text in words.folded(step))
