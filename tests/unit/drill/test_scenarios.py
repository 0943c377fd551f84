"""Scenarios: what a file may say, and the bundled ones; what is shown of drills."""

import time
from pathlib import Path
from typing import Any

import pytest

from docs_site.drills_page import renew, tables
from drill.disks import cut_tail
from drill.errors import DrillError
from drill.nodes import RUNS_S, Node
from drill.run import page
from drill.scenario import DrillScenario, read_scenario, scenario_names
from drill.score import append, read_scores
from tests.support import writer
from tests.support.golden import cases, filled
from tests.support.paths import ROOT

HEAD = 'title = "a"\nstory = "b"\ntopics.t.replicas = [[1, 2]]\n'


def mine(folder: Path, text: str) -> DrillScenario:
    (folder / "mine.toml").write_text(text)
    return read_scenario(str(folder / "mine.toml"))


@pytest.mark.parametrize("name", scenario_names())
def test_bundled_scenarios_can_be_read(name: str) -> None:
    scenario = read_scenario(name)
    assert (scenario.name, bool(scenario.title), bool(scenario.steps)) == (name, True, True)
    assert set(scenario.expected.lost) <= set(scenario.partitions)


@pytest.mark.parametrize("case", cases("wrong_scenarios"), ids=lambda case: case["steps"])
def test_what_a_scenario_cannot_say(case: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(DrillError, match=case["message"]):
        mine(tmp_path, f"{HEAD}steps = {case['steps']}\n")


def test_a_scenario_of_ones_own(tmp_path: Path) -> None:
    steps = '[{ kill = ["leader:t-0", 2] }, { produce = "t-0" }]'
    scenario = mine(tmp_path, f'{HEAD}releases = "4.1"\nsteps = {steps}\n')
    assert [step.action for step in scenario.steps] == ["kill", "produce"]
    assert [scenario.runs_on(release) for release in ("4.0.2", "4.1.0", "4.10.0")] == [False, True, True]


def test_an_unknown_scenario_names_the_others() -> None:
    with pytest.raises(DrillError, match="unclean_by_config"):
        read_scenario("no_such_scenario")


@pytest.mark.parametrize(
    ("count", "flushed", "left"), [(1, 0, 6), (3, 0, 4), (4, 0, 3), (9, 0, 0), (9, 4, 4), (9, 7, 7)]
)
def test_a_power_loss_cuts_whole_batches_that_were_not_flushed(
    tmp_path: Path, count: int, flushed: int, left: int
) -> None:
    batches = [(0, 3), (3, 1), (4, 2), (6, 1)]  # first offset, records
    folder = tmp_path / "t-0"
    folder.mkdir()
    data = [writer.batch([writer.no_op()] * many, first, 1) for first, many in batches]
    (folder / f"{0:020d}.log").write_bytes(b"".join(data))
    (tmp_path / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {flushed}\n")
    assert cut_tail(tmp_path, ["t"], count) == {"t-0": 7 - left}
    kept = sum(len(text) for text, (first, _) in zip(data, batches, strict=True) if first < left)
    assert (folder / f"{0:020d}.log").stat().st_size == kept


RESULT = cases("drill_results")[0]["more"]


@filled("drill_results")
def test_what_is_shown_of_a_drill(case: dict[str, Any]) -> dict[str, Any]:
    """The page, and the rows of the tables of all drills; more: than of the first."""
    result = {**RESULT, **case["more"]}
    shown = {name: text.splitlines()[2:] for name, text in tables([result]).items()}
    lines = page(result, read_scenario("unclean_by_config")).splitlines()
    return {"what": case["what"], "more": case["more"], "page": lines, "tables": shown}


def test_the_page_has_the_tables_of_the_scores_that_are_kept(tmp_path: Path) -> None:
    kept = (ROOT / "docs" / "drill.md").read_text(encoding="utf-8")
    for text in (kept, kept.replace("\n| all |", "\n| old |")):
        (tmp_path / "page.md").write_text(text, encoding="utf-8")
        renew(tmp_path / "page.md", read_scores(ROOT / "drill" / "scores.jsonl"))
        assert (tmp_path / "page.md").read_text(encoding="utf-8") == kept


def test_lines_of_the_present_process_alone_count(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "server.log"
    log.write_text("Kafka Server started\n")
    node = Node(1, tmp_path)
    assert node.said("Server started") == "Kafka Server started"
    node.marks_begin()
    assert node.said("Server started") is None
    with log.open("a") as stream:
        stream.write("x\nKafka Server started (again)\n")
    assert node.said("Server started") == "Kafka Server started (again)"


def test_a_machine_that_lost_power_has_booted_anew(tmp_path: Path) -> None:
    node = Node(1, tmp_path)
    before = node.boot_id
    assert node.booted_s <= time.time() - RUNS_S
    lost_s = time.time()
    node.loses_power()
    assert (node.boot_id != before, node.booted_s >= lost_s) == (True, True)


def test_scores_of_many_nights_are_summed_up(tmp_path: Path) -> None:
    file = tmp_path / "scores.jsonl"
    assert read_scores(file) == []
    for seed, commit in ((1, "abc1234"), (2, "abc1234"), (1, "def5678")):
        append(file, {**RESULT, "seed": seed, "commit": commit})
    rows = read_scores(file)
    assert [(row["seed"], row["commit"], "journal" in row) for row in rows] == [
        (1, "def5678", False),
        (2, "abc1234", False),
    ]


@pytest.mark.parametrize("name", scenario_names())
def test_the_plan_can_be_followed_after_each_scenario_whose_disks_can_be_copied(name: str) -> None:
    scenario = read_scenario(name)
    if scenario.disks_mib:
        with pytest.raises(DrillError, match=f"{name}.toml.*a plan is followed on disks that can be copied"):
            read_scenario(name, plan=True)
        return
    played = read_scenario(name, plan=True)
    assert (played.plan, played.expected.any) == (True, scenario.expected.any or not scenario.plan)
    added = [step.action for step in played.steps[len(scenario.steps) :]]
    assert (played.name, added) == ((name, []) if scenario.plan else (f"{name}+plan", ["clear", "outage"]))
