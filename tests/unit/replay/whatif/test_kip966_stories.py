"""KIP-966's worked stories: a folder each in tests/cases/kip966_*, told to the code."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.support.story import Story

FOLDERS = sorted((ROOT / "tests" / "cases").glob("kip966_*"))


def told(story: dict[str, Any]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(when, what must be true, what is) of each step. Errors: what is not understood raises."""
    if set(story) != {"delivery", "start", "steps"} or not story["steps"]:
        raise ValueError(f"a story has a delivery, a start and steps, not {sorted(story)}")
    telling = Story.begin(story["delivery"], story["start"])
    found = []
    for step in story["steps"]:
        if set(step) != {"at", "do", "then"} or not step["do"] or not step["then"]:
            raise ValueError(f"a step has at, do and then, not {sorted(step)}")
        for line in step["do"]:
            telling.tell(line)
        observed = telling.observed()
        found.append((step["at"], step["then"], {name: observed[name] for name in step["then"]}))
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.name)
def test_the_story_ends_as_the_kip_says(folder: Path) -> None:
    assert {p.name for p in folder.iterdir()} == {"README.md", "story.toml"}
    assert "KIP-966, section" in (folder / "README.md").read_text().splitlines()[0]
    for at, expected, observed in told(tomllib.loads((folder / "story.toml").read_text())):
        assert observed == expected, at
