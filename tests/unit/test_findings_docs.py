"""docs/findings.md names every statement code of a window, and cases that exist."""

from __future__ import annotations

import re

import pytest

from replay.findings.statements import SENTENCES, WINDOW_SENTENCES
from tests.support.paths import ROOT, text_with_table

PAGE = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
WINDOWS = PAGE[PAGE.index("## `hwm_regression`") : PAGE.index("## What would have been")]
REFERENCES = sorted(set(re.findall(r"`(tests/[^`\s]+)`", PAGE)))
RULES = re.compile(r"^- \*\*(?P<letter>[A-Z])(?P<number>\d+)\. ", re.MULTILINE)
ROW = re.compile(r"^- (?P<codes>`[^(]+`) \((?P<nature>[a-z]+)\): ", re.MULTILINE)


def test_every_code_of_windows_is_in_the_table_with_its_nature() -> None:
    listed = {
        code: row["nature"] for row in ROW.finditer(WINDOWS) for code in re.findall(r"`([a-z_0-9]+)`", row["codes"])
    }
    assert listed == {code: SENTENCES[code][0] for code in WINDOW_SENTENCES}


@pytest.mark.parametrize("reference", REFERENCES)
def test_every_case_that_is_named_exists(reference: str) -> None:
    path, _, name = reference.partition("::")
    assert (ROOT / path).exists()
    if name:
        assert re.search(rf"^(def )?{re.escape(name)}\b", text_with_table(ROOT / path), re.MULTILINE)


def test_rules_are_numbered_without_a_gap_and_have_cases() -> None:
    numbers: dict[str, list[int]] = {}
    for rule in RULES.finditer(WINDOWS):
        numbers.setdefault(rule["letter"], []).append(int(rule["number"]))
    assert {letter: own == list(range(1, len(own) + 1)) for letter, own in numbers.items()} == dict.fromkeys(
        "PEHCUNL", True
    )
    assert len(REFERENCES) > 40


def test_rules_that_are_referred_to_exist() -> None:
    known = {rule["letter"] + rule["number"] for rule in RULES.finditer(WINDOWS)}
    assert set(re.findall(r"\b([PEHCUNL]\d+)\b", WINDOWS)) <= known
