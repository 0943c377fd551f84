"""The registry of finding kinds: complete, and the only way to a finding."""

import re

import pytest

from jobs.lake.tables import TABLES
from replay.findings.kinds import FAULTS, FILE_FAULTS, GAPS, KINDS, Section, kind_of, of_section
from replay.findings.statements import SENTENCES
from replay.loss.verdicts import SEVERITIES
from tests.support.paths import ROOT


def test_a_kind_that_is_not_registered_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown kind of finding 'mystery'"):
        kind_of("mystery")


def test_every_kind_is_in_one_section_and_every_section_but_the_excluded_windows_has_one() -> None:
    assert sorted(name for section in Section for name in of_section(section)) == sorted(KINDS)
    assert [section for section in Section if not of_section(section)] == [Section.EXCLUDED]


def test_severities_and_tables_exist() -> None:
    for kind in KINDS.values():
        assert kind.severities
        assert set(kind.severities) <= set(SEVERITIES), kind
        assert set(kind.tables) <= set(TABLES), kind


def test_a_sentence_has_one_of_the_natures() -> None:
    assert {nature for nature, _ in SENTENCES.values()} == {"fact", "bound", "prediction", "assumption", "meaning"}


def test_a_fault_is_a_kind_or_a_gap() -> None:
    assert set(FAULTS) - set(GAPS) == set(of_section(Section.FAULTS)) - {"evidence_gap"}
    assert set(FILE_FAULTS) <= set(FAULTS)


@pytest.mark.parametrize("name", [*KINDS, *GAPS])
def test_the_documentation_names_every_kind_and_gap(name: str) -> None:
    assert re.search(rf"`{name}`", (ROOT / "docs" / "findings.md").read_text())
