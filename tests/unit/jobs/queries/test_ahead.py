"""`ahead` on the lake of a real capture: table, JSON, exit codes, and steps that cannot be asked about."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from evidence.errors import KraftForensicsError
from evidence.tables import NODE_CLOCKS
from jobs.cli.commands import app
from jobs.config.settings import load_settings
from jobs.detect.inputs import judging_inputs
from jobs.lake.lake import Lake
from jobs.queries.ahead import (
    AheadAnswer,
    _condition,
    _merged,
    _stopped_cleanly,
    ahead,
    parse_elect,
    parse_set,
)
from replay.arrow import schemas
from replay.controller.profiles import PROFILES
from replay.whatif.ahead import START, STOP, ClusterAction, Possibility
from tests.support.paths import capture
from tests.support.small_captures import with_rounds


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, folder = tmp_path_factory.mktemp("ahead"), tmp_path_factory.mktemp("captures")
    thinned = {name: with_rounds(name, folder, 2) for name in ("elr", "unclean-4.4.0")}
    for name, given in {**thinned, "logs-4.1.1": capture("logs-4.1.1")}.items():
        for command in (["ingest", str(given)], ["replay"]):
            words = [*command, "--lake", str(root / name), "--engine", "local"]
            assert CliRunner().invoke(app, words).exit_code == 0
    return root


def asked(lake: Path, *words: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, ["ahead", *words, "--lake", str(lake), "--format", "json"])
    return result.exit_code, json.loads(result.stdout)


def test_a_start_that_is_safe(lakes: Path) -> None:
    code, answer = asked(lakes / "elr", "--start", "2")

    assert (code, answer["safe"], answer["offset"]) == (0, True, 294)
    assert {(r["topic"], r["partition"]): r["leader"] for r in answer["rows"]}["orders", 0] == 2
    assert all(r["loss_max"] == 0 and not r["opens_window"] for r in answer["rows"])
    names = "step condition topic_id topic partition recorded_leader leader isr elr effects loss_max opens_window"
    assert set(answer["rows"][0]) == set(names.split())
    assert {"after_log_end", "unreported_stop", "follower_lag", "restart"} <= set(answer["unknown"])


def test_a_start_that_elects_uncleanly_is_not_safe(lakes: Path) -> None:
    code, answer = asked(lakes / "unclean-4.4.0", "--start", "2")
    unclean = [r for r in answer["rows"] if "unclean_election" in r["effects"]]

    assert (code, answer["safe"]) == (3, False)
    assert {r["topic"] for r in unclean} == {"ledger", "legacy"}
    assert all(r["opens_window"] and r["loss_max"] is None for r in unclean)
    assert "log_ends" in answer["unknown"]


def test_steps_one_after_another_by_rules_that_are_open(lakes: Path) -> None:
    """Of 4.1 the log does not say which: 4.1.0 and 4.1.1 have rules of their own. Here they agree."""
    code, answer = asked(lakes / "logs-4.1.1", "--start", "2", "--start", "1", "--stop", "1,2")

    assert code == 3
    assert "rules of 4.1.0, 4.1.1" in answer["unknown"]["release"]
    assert [(r["step"], r["topic"], r["leader"], r["condition"]) for r in answer["rows"]] == [
        ("start 2", "led", 2, None),
        ("start 1", "two.x", 1, None),
        ("start 1", "two.x", 1, None),
        ("stop 1", "two.x", -1, None),
        ("stop 1", "two.x", -1, None),
        ("stop 2", "led", -1, None),
    ]
    assert answer["notes"] == []


def with_voters(lakes: Path, voters: list[int], steps: list[ClusterAction], restart_all: bool = False) -> AheadAnswer:
    """What `ahead` says of a capture in which no broker is a voter, had its quorum these voters."""
    lake = Lake(lakes / "unclean-4.4.0")
    (cluster,) = lake.clusters()
    rows = lake.read("quorum_history", cluster, schemas.QUORUM_HISTORY.names)
    column = pa.array([voters] * len(rows), schemas.QUORUM_HISTORY.field("voters").type)
    changed = rows.set_column(rows.schema.get_field_index("voters"), "voters", column)
    about = lake.made("quorum_history", cluster)
    lake.put("quorum_history", cluster, changed)
    answer = ahead(lake, cluster, steps, restart_all, load_settings())
    lake.put("quorum_history", cluster, rows, about)
    return answer


def test_without_a_majority_of_the_controllers_nothing_more_is_predicted(lakes: Path) -> None:
    steps = [ClusterAction(START, 3), ClusterAction(STOP, 3), ClusterAction(STOP, 2), ClusterAction(START, 2)]
    answer = with_voters(lakes, [2, 3, 9], [ClusterAction(START, 2), *steps])

    assert "after 'stop 2' no majority of the controllers [2, 3, 9] runs" in answer.unknown["no_controller"]
    assert "quorum" in answer.unknown
    assert not answer.safe
    assert {r["step"] for r in answer.rows} <= {"start 2", "start 3", "stop 3"}


def test_a_controller_whose_broker_is_down_is_down(lakes: Path) -> None:
    """One of three combined nodes is down: the stop of another one takes the majority away."""
    answer = with_voters(lakes, [1, 8, 9], [ClusterAction(STOP, 1)])
    assert "no_controller" not in answer.unknown
    answer = with_voters(lakes, [1, 4, 9], [ClusterAction(START, 4), ClusterAction(STOP, 4)])
    assert answer.unknown["no_controller"].startswith(
        "after 'stop 4' no majority of the controllers [1, 4, 9] runs, for brokers 1 and 4 do not: "
    )
    assert not answer.safe
    orders = [with_voters(lakes, voters, [], True).order for voters in ([1, 4, 9], [1, 4])]
    assert [len(order or ()) for order in orders] == [4, 0], "the start of 4 alone brings no majority of 1 and 4"


@pytest.mark.parametrize(("name", "clean"), [("elr", {1, 2, 3, 4}), ("logs-4.1.1", set())])
def test_only_the_file_of_a_clean_stop_shows_one(lakes: Path, name: str, clean: set[int]) -> None:
    """All brokers of both captures had asked for a controlled shutdown; one has their files, too."""
    lake = Lake(lakes / name)
    (cluster,) = lake.clusters()
    clocks = lake.read("node_clocks", cluster, NODE_CLOCKS.names)
    facts = judging_inputs(lake, cluster, load_settings(), clocks)[1]
    assert all(state.in_controlled_shutdown for state in facts.brokers.latest())
    assert _stopped_cleanly(lake, cluster, facts) == clean


@pytest.mark.parametrize(
    ("words", "exit_code", "message"),
    [
        (["--stop", "9"], 1, "no broker 9 is registered; the metadata log knows 1, 2, 3, 4"),
        (["--elect", "nothing-0=1"], 1, "no partition nothing-0"),
        (["--set", "min.insync.replicas=1", "--topic", "nothing"], 1, "no topic 'nothing'"),
        (["--set", "retention.ms=1"], 2, "only min.insync.replicas and unclean.leader.election.enable"),
        (["--set", "min.insync.replicas=0"], 2, "'0' is no value of min.insync.replicas"),
        (["--elect", "orders"], 2, "expected PARTITION=BROKER"),
    ],
)
def test_what_cannot_be_asked(lakes: Path, words: list[str], exit_code: int, message: str) -> None:
    result = CliRunner().invoke(app, ["ahead", *words, "--lake", str(lakes / "elr")])

    assert isinstance(result.exception, KraftForensicsError)
    assert result.exception.exit_code == exit_code
    assert message in str(result.exception)


def test_steps_are_parsed() -> None:
    assert str(parse_set("min.insync.replicas = 2", "t")) == "set min.insync.replicas=2 of t"
    assert str(parse_elect("a-b-3=4")) == "elect a-b-3=4"


def test_rows_that_all_branches_have_stand_without_a_condition() -> None:
    possible = [
        Possibility(PROFILES[name], way) for name in ("4.1.0", "4.1.1") for way in (frozenset(), frozenset({2}))
    ]
    conditions = [_condition(branch, possible) for branch in possible]
    assert conditions[1] == "the rules of 4.1.0, broker 2 stopped uncleanly"
    row = {"step": "start 2", "topic": "t", "partition": 0, "leader": 2}
    found = {b: [{**row, "condition": c}] for b, c in zip(possible, conditions, strict=True)}
    assert _merged(found, ["start 2"]) == [{**row, "condition": None}]
    found[possible[0]][0]["leader"] = 3
    assert [r["condition"] for r in _merged(found, ["start 2"])] == sorted(str(c) for c in conditions)
