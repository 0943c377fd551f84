"""KIP-966's stories, as their brokers' files and the metadata log have them: detection finds the windows that the KIP
describes, and right after each election none that contradicts what was lost."""

import pytest

from tests.support.paths import ROOT
from tests.support.window_table import Entry, entries

STORIES = [
    entry
    for file in sorted((ROOT / "tests" / "cases").glob("kip966_*/windows.txt"))
    for entry in entries(file.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("entry", STORIES, ids=lambda entry: entry.name)
def test_the_windows_of_a_story(entry: Entry) -> None:
    entry.check()


def test_there_are_stories() -> None:
    assert len(STORIES) == 12
