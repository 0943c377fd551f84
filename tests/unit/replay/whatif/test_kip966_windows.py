"""KIP-966's stories, told to brokers that leave files behind: detection finds the windows that the KIP describes."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.support.story import Story

CASES = ROOT / "tests" / "cases"
# The KIP says of these what is lost; of a downgrade it does not.
STORIES = sorted(p.name.removeprefix("kip966_") for p in CASES.glob("kip966_*") if p.name != "kip966_downgrade")


def story(name: str) -> dict[str, Any]:
    return tomllib.loads((CASES / f"kip966_{name}" / "story.toml").read_text())


def told(name: str, *instead: str, until: str | None = None) -> Story:
    """The story of that name. until, instead: from that line on (which is left out) these lines."""
    given = story(name)
    telling = Story.begin(given["delivery"], given["start"])
    for line in (line for step in given["steps"] for line in step["do"]):
        if line == until:
            break
        telling.tell(line)
    for line in instead:
        telling.tell(line)
    return telling


@pytest.mark.parametrize("name", STORIES)
def test_every_story_ends_with_its_windows(name: str) -> None:
    """tests/unit/replay/whatif/test_kip966_stories.py holds them against what is found."""
    last = story(name)["steps"][-1]
    assert (last["do"], list(last["then"])) == (["judge"], ["windows"])


@pytest.mark.parametrize("name", STORIES)
def test_no_window_contradicts_what_the_story_lost(name: str) -> None:
    """Right after every line that elected somebody."""
    given = story(name)
    telling = Story.begin(given["delivery"], given["start"])
    for line in (line for step in given["steps"] for line in step["do"]):
        epoch = telling.state.leader_epoch
        telling.tell(line)
        if telling.leader < 0 or telling.state.leader_epoch == epoch:
            continue
        now = [f for f in telling.witness.findings() if f["election_offset"] == telling.witness.now]
        for finding in now:
            lost = telling.observed()["lost"]
            assert finding["loss_min"] <= lost, line
            assert finding["loss_max"] is None or lost <= finding["loss_max"], line
            assert (finding["verdict"], lost > 0) not in (("proven", False), ("excluded", True)), line


def test_nothing_is_proven_while_nobody_leads() -> None:
    assert told("last_replica_standing_before_elr", until="register 2").witness.windows() == []


def test_aggressive_loses_where_balanced_waits() -> None:
    """KIP-966, section Rejected Alternatives: two of three replies come from replicas that lack committed records."""
    telling = told("balanced_against_n_replies", "elect aggressive", until="elect balanced")
    assert telling.observed()["lost"] == 5
    (window,) = telling.witness.windows()
    assert window == {"leader": 1, "verdict": "proven", "loss_min": 5, "loss_max": 5, "first_lost_offset": 10}


def test_a_designated_broker_that_lags_loses() -> None:
    telling = told("nobody_left_phase_2", "elect DESIGNATION 0", until="ask balanced")
    assert telling.observed()["lost"] == 5
    (window,) = telling.witness.windows()
    assert (window["leader"], window["verdict"], window["loss_min"]) == (0, "proven", 5)


def test_without_the_files_of_the_rounds_nothing_is_proven() -> None:
    telling = told("last_replica_standing_before_elr", until="judge")
    telling.witness.copies = [c for c in telling.witness.copies if int(c.split()[0]) > telling.witness.now]
    assert [w["verdict"] for w in telling.witness.windows()] != ["proven"]
