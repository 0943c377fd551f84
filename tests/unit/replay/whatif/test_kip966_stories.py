"""KIP-966's worked stories: a folder each in tests/cases/kip966_*, told to the code."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def test_every_story_is_there() -> None:
    names = {folder.name.removeprefix("kip966_") for folder in FOLDERS}
    assert names >= {
        "last_replica_standing_before_elr",
        "last_replica_standing_with_elr",
        "four_brokers_min_isr_3",
        "acks_1_beside_acks_all_before_elr",
        "acks_1_beside_acks_all_with_elr",
        "balanced_against_n_replies",
    }


HAPPENING = st.tuples(
    st.sampled_from(["fence", "crash", "back", "catch up", "lag", "produce", "replicate"]), st.integers(0, 3)
)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 4), st.lists(HAPPENING, max_size=30))
def test_no_clean_election_with_elr_loses_what_was_committed(min_isr: int, happenings: list[tuple[str, int]]) -> None:
    """Whatever brokers fail, and whatever their logs lose ("Eligible Leader Replicas", the invariants of the ELR)."""
    start = {"replicas": [0, 1, 2, 3], "isr": [0, 1, 2, 3], "leader": 0, "min_insync_replicas": min_isr, "records": 4}
    telling = Story.begin("phase_2", start)
    crashed: set[int] = set()
    for what, broker in happenings:
        for line in lines(telling, crashed, what, broker):
            telling.tell(line)
            now = telling.observed()
            assert now.get("lost", 0) == 0, line
            for holder in {*now["isr"], *now["elr"]} - crashed:
                assert telling.committed <= set(telling.log[holder]), line


def lines(telling: Story, crashed: set[int], what: str, broker: int) -> list[str]:
    """What can happen in this state; crashed has the brokers that have not registered since they lost records."""
    isr, leader = telling.observed()["isr"], telling.leader
    alive = broker in telling.state.alive
    if what == "back":
        registered = [f"register {broker}"] if broker in crashed else []
        crashed.discard(broker)
        return [*registered, f"unfence {broker}"]
    if what == "crash" and alive:
        crashed.add(broker)
        return [f"crash {broker} losing {min(broker + 1, len(telling.log[broker]))}"]
    if what == "fence":
        return [f"fence {broker}"]
    if leader == -1 or not alive or broker == leader:
        return []
    members = " ".join(map(str, sorted({*isr, broker} if what == "catch up" else {*isr} - {broker})))
    others = " ".join(str(b) for b in isr if b != leader)
    return {
        "catch up": [f"maximal_isr {members}", f"replicate {broker}", f"isr {members}"],
        "lag": [f"isr {members}"],
        "produce": ["produce all 2", "produce 1 1"],
        "replicate": [f"replicate {others}"],
    }.get(what, [])
