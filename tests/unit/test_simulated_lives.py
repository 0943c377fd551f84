"""The simulated cluster of tests.simulator: Kafka's promises hold in it, it loses records in the ways known, and its
logs as text, which the readers of real logs read, are the rows that verdicts are tested with.

Verdicts about its lives: tests/unit/replay/findings/test_facts_of_lives.py."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evidence.broker_logs.events import read_event
from evidence.broker_logs.read import read_broker_logs
from evidence.capture.files import open_capture
from tests.simulator import session_lines
from tests.simulator.detection import detected
from tests.simulator.faults import FAULTS, SHARED, life
from tests.simulator.judge import MISMATCH, groups, judged
from tests.simulator.less import shuffled, with_evidence
from tests.simulator.life import Life, from_json
from tests.simulator.node_logs import TEXTS, LogThinning, files, rows
from tests.simulator.setup import Setup, Step
from tests.simulator.shrink import lines
from tests.simulator.truth import Truth
from tests.support.detection import windows
from tests.support.paths import ROOT
from tests.support.small_captures import write_files

CASES = Path(__file__).parent.parent / "cases"

# What a cluster survives without a loss: processes that are killed, frozen, cut off; but no disk that loses its tail,
# no unclean election.
HARMLESS = {"produce": 6, "stream": 4, "produce_acks_1": 2, "stop": 5, "bounce": 2, "start": 6, "start_all": 4}
HARMLESS |= {"prefer": 3, "kill": 8, "freeze": 5, "cut_off_leader": 4, "cut_off": 2, "cut_pair": 3, "heal": 5}
HARMLESS |= {"elr": 2, "min_isr": 3, "retain": 1, "reassign": 3}


def harmless(seed: int) -> Life:
    rng, base = random.Random(seed), life("fail-overs", seed)
    reassigns = not base.setup.elr
    names = [n for n in HARMLESS if reassigns or n != "reassign"]
    names = [n for n in names if n != "elr" or not reassigns]
    steps = []
    for _ in range(40):
        name = rng.choices(names, [HARMLESS[n] for n in names])[0]
        steps.append(Step(name, rng.randrange(4), rng.randrange(10), rng.randint(100, 12_000)))
    setup = replace(base.setup, unclean=False, profile=rng.choice(["4.1.0", "4.1.1", "4.3"]))
    return replace(base, setup=replace(setup, hwm_stands_below_min_isr=True), steps=steps)


def test_nothing_is_lost_while_disks_keep_what_they_have_and_no_election_is_unclean() -> None:
    elections = 0
    for seed in range(150):
        each = harmless(seed)
        elections += len(each.truth)
        assert not [t for t in each.truth.values() if t.lost], seed
    assert elections > 300


def test_a_life_survives_being_written_down() -> None:
    for fault in FAULTS:
        each = life(fault, 5)
        again = from_json(json.loads(json.dumps(each.as_json())))
        assert (again.truth, again.history, again.evidence) == (each.truth, each.history, each.evidence)


def test_every_class_of_fault_has_losses_and_safe_elections() -> None:
    for fault in FAULTS:
        found: set[bool] = set()
        for seed in range(8 * SHARED):
            found |= {t.lost > 0 for t in life(fault, seed).truth.values()}
            if len(found) == 2:
                break
        assert found == {True, False}, fault


def test_lives_that_were_judged_wrongly_once_are_not_any_more() -> None:
    for path in sorted(CASES.glob("life_*/life.json")):
        case = from_json(json.loads(path.read_text()))
        wrong = judged([case]).wrong
        assert not wrong, f"{path.parent.name}: {wrong}"
        # A case that the simulator lives otherwise now may show nothing of what it is for.
        recorded = (path.parent / "lines.txt").read_text().splitlines()
        assert lines(case) == recorded, f"{path.parent.name}: look for another seed, with the condition left out"


FIRST = 64 * 100  # a seed of its own: other tests judge the first ones


@pytest.mark.parametrize("fault", ["everything", "fail-overs", "moved replicas", "missing rows", "missing log"])
def test_the_order_of_evidence_does_not_matter(fault: str) -> None:
    """tests/alone takes evidence away."""
    found = 0
    for group in groups(life(fault, seed) for seed in range(FIRST, FIRST + 16)):
        one = detected(group)
        other = detected([with_evidence(each, shuffled(each)) for each in group])
        found += len(one.findings)
        assert one.findings.to_pylist() == other.findings.to_pylist()
        assert one.counterfactuals.to_pylist() == other.counterfactuals.to_pylist()
    assert found


# The smallest sequences that once misled a verdict.

FIXED: dict[str, Any] = {"checkpoint_interval_ms": 500, "seed": 1}


def lived(setup: Setup, story: str) -> Life:
    """A life. story: its steps, each with the fields of a Step."""
    steps = (step.split() for step in story.split(","))
    return Life(setup, [Step(name, *map(int, numbers)) for name, *numbers in steps])


def elections(each: Life) -> list[tuple[Any, Truth]]:
    """(state, truth) of every election, in order."""
    states = {s.offset: s for s in each.world.controller.states}
    return [(states[offset], truth) for offset, truth in sorted(each.truth.items())]


def evidence(each: Life, broker: int, column: str, source: str) -> list[int]:
    return [r[column] for r in each.evidence if (r["broker_id"], r["source"]) == (broker, source)]


def two_brokers(**changes: Any) -> Setup:
    return Setup(**{"brokers": (1, 2), "replicas": 2, "min_isr": 1, "profile": "4.0", **FIXED, **changes})


def test_a_leader_that_restarts_inside_its_session_rewrites_its_line() -> None:
    each = lived(
        two_brokers(min_isr=2, elr=False),
        "produce 0 0 2_000, capture 0 0 3_000, kill 0 0 2_000, idle 0 0 14_000, restart 1 1 1_000, capture 0 0 5_000, "
        "idle 0 0 2_000",
    )
    state, truth = elections(each)[0]
    assert (state.leader, state.leader_epoch, truth.lost) == (2, 1, 0)
    lines = [(r["leader_epoch"], r["epoch_start_offset"]) for r in each.evidence if r["source"] == "leader_epoch"]
    assert (1, 0) in lines
    assert set(evidence(each, 1, "high_watermark", "replication_offset")) == {1}


def test_a_winner_may_be_dead_already() -> None:
    each = lived(
        Setup(min_isr=2, elr=False, **FIXED),
        "kill 0 0 1_000, produce 1 1 15_000, kill 1 0 5_000, power_loss 2 1 5_000, idle 0 0 20_000",
    )
    last, truth = elections(each)[-1]
    assert (last.leader, truth.lost, truth.first) == (3, 1, 1)
    assert each.world.controller.states[-1].leader == -1


def test_a_high_watermark_stands_below_min_isr_on_newer_brokers_only() -> None:
    steps = "kill 1 0 1_000, produce_acks_1 0 2 15_000, idle 0 0 3_000"
    marks = []
    for stands in (True, False):
        each = lived(two_brokers(min_isr=2, elr=False, hwm_stands_below_min_isr=stands), steps)
        process = each.world.brokers[1].process
        assert process is not None
        marks.append((process.high_watermark, each.world.brokers[1].log.end))
    assert marks == [(0, 3), (3, 3)]


# Where the lines are, their text and its length are of the files.
_OF_FILES = ("capture", "path", "sha256", "position", "length_bytes", "message", "level", "logger", "file_is_whole")
_OF_TIME = ("logged_at_ms", "logged_at_utc_ms")


def read(each: Life, folder: Path) -> dict[tuple[int, str], list[dict[str, object]]]:
    """By broker and file, the rows of the life's logs as text."""
    with open_capture(write_files(folder, files(each.world.logged, each.setup))) as capture:
        tables = read_broker_logs(capture.name, capture.files)
    found: dict[tuple[int, str], list[dict[str, object]]] = {}
    for row in tables.events.to_pylist():
        name = str(row["path"]).rpartition("/")[2]
        found.setdefault((row["node_id"], name), []).append(row)
    return found


@pytest.mark.parametrize("fault", list(FAULTS))
def test_lines_read_as_text_are_the_rows(fault: str, tmp_path: Path) -> None:
    for seed in range(2):
        each = life(fault, seed)
        expected: dict[tuple[int, str], list[dict[str, object]]] = {}
        for row in rows(each.world.logged, [], each.setup, LogThinning()):
            name = str(row["path"]).rpartition("/")[2].rpartition(".")[0]
            expected.setdefault((row["node_id"], name), []).append(row)
        found = read(each, tmp_path / str(seed))
        for place in {*expected, *found}:
            plain = [_plain(row) for row in expected.get(place, [])]
            assert [_plain(row) for row in found.get(place, [])] == plain


def _plain(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in (*_OF_FILES, *_OF_TIME)}


def test_lives_log_every_kind_of_line() -> None:
    missing = set(TEXTS["of_partitions"])
    for each in (life(fault, seed) for seed in range(20) for fault in FAULTS):
        kinds = {line.kind for line in each.world.logged}
        assert kinds <= set(TEXTS["of_partitions"])
        missing -= kinds
        if not missing:
            break
    assert missing == set()


def test_lines_of_registrations_read_as_text_are_the_rows() -> None:
    seen = set()
    for fault in FAULTS:
        for seed in range(3):
            each = life(fault, seed)
            for row in session_lines.rows(each.world.of_sessions, 0, each.setup, LogThinning()):
                event = read_event(str(row["message"]))
                assert event is not None
                previous = ("previous_isr", "previous_leader", "previous_leader_epoch", "speaker_id")
                assert {n: v for n, v in event.items() if n not in previous} == {
                    n: row[n] for n in event if n not in previous
                }
                seen.add(event["kind"])
    assert seen == set(TEXTS["of_sessions"])


def _changed(kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Life:
    """The first life with a line of that kind, and the line changed."""
    for seed in range(200):
        each = replace(life("everything", seed), logs=LogThinning())
        lines = each.lines
        at = next((n for n, row in enumerate(lines) if row["kind"] == kind and each.gap is None), None)
        if at is not None and not judged([each]).wrong:
            return replace(each, kept_lines=[*lines[:at], lines[at] | change(lines[at]), *lines[at + 1 :]])
    raise AssertionError(kind)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("follower_unchanged", lambda row: {"leader_epoch": row["leader_epoch"] + 70}),
        ("leader_started", lambda row: {"isr": [*row["isr"], 7_777]}),
        ("incarnation_registered", lambda row: {"count": row["count"] + 1}),
    ],
)
def test_a_line_that_is_not_true_is_found(kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """So a comparison that finds nothing in lives has been at work."""
    assert MISMATCH in {wrong.kind for wrong in judged([_changed(kind, change)]).wrong}


def test_only_a_line_below_min_isr_decides() -> None:
    """L8 of docs/findings.md, in a case: a killed leader that led on below min ISR is elected again."""
    path = ROOT / "tests" / "cases" / "life_led_on_below_min_isr" / "life.json"
    each = from_json(json.loads(path.read_text()))
    logged = [row["kind"] for row in each.lines]
    assert logged == ["leader_unchanged", "leader_started"]
    verdicts = []
    for kept in (each.lines, each.lines[1:], each.lines[:1]):
        (window,) = (f for f in windows(detected([replace(each, kept_lines=kept)]).findings))
        codes = {statement["code"] for statement in window["reason"]}
        assert ("ceiling_logged_below_min_isr" in codes) == (kept[0]["kind"] == "leader_unchanged")
        verdicts.append(window["verdict"])
    assert verdicts == ["excluded", "possible", "possible"]
