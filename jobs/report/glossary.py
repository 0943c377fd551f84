"""What the words of the report mean: for the end of the page, its headings and docs/glossary.md.

A line of templates/glossary.txt is a word, its meaning in one or two plain sentences, and where docs/ has more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

_LINE = re.compile(r"^- \*\*(.+?)\*\*: (.+?)(?: \[More\]\(\S+\))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Term:
    """A word and its meaning."""

    name: str
    meaning: str

    @property
    def anchor(self) -> str:
        """The id of its place: `min ISR` -> `term-min-isr`."""
        return "term-" + re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


TEXT = files("jobs.report.templates").joinpath("glossary.txt").read_text("utf-8")
TERMS = tuple(Term(*found.groups()) for found in _LINE.finditer(TEXT))
_BY_NAME = {term.name: term for term in TERMS}


def term(name: str) -> Term:
    """Raises KeyError for a word that is not in TERMS."""
    return _BY_NAME[name]
