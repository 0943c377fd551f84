"""The glossary: one source for the page of docs/ and for the report."""

from __future__ import annotations

from docs_site.glossary_page import document
from jobs.report.words import GLOSSARY, TERMS
from tests.support.paths import ROOT


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8") == document()


def test_terms_are_sorted_and_their_places_differ() -> None:
    assert [name.lower() for name in TERMS] == sorted(name.lower() for name in TERMS)
    assert len({term.anchor for term in TERMS.values()}) == len(TERMS)
    assert all(term.meaning.endswith(".") for term in TERMS.values())
    assert len(TERMS) == len(GLOSSARY.splitlines())
