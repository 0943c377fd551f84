"""Who is concerned by lost records."""

import json
from subprocess import run
from typing import Any

import pytest
from typer.testing import CliRunner

from jobs.cli.commands import app
from jobs.incident.plan import commands_of
from replay.plan.clients import clients, coordinator_partition
from replay.plan.inputs import PlanInput
from replay.plan.step import PlanStep
from tests.support.report_rows import TOPIC_ID, finding


@pytest.mark.parametrize(
    ("name", "hash_code"),
    [
        ("", 0),
        ("abc", 96354),
        ("hello", 99162322),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -(1 << 31)),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),  # a surrogate pair in UTF-16
    ],
)
def test_the_partition_of_an_id_is_that_of_javas_hash_code(name: str, hash_code: int) -> None:
    expected = 0 if hash_code == -(1 << 31) else abs(hash_code)
    assert [coordinator_partition(name, n) for n in (50, 7, 1)] == [expected % 50, expected % 7, 0]


def lost(topic: str, partition: int = 0, **values: Any) -> dict[str, Any]:
    return finding(f"f{partition}", topic=topic, partition=partition, **values)


def commands(step: PlanStep) -> list[str]:
    return [text for action in step.actions for text in commands_of(action)]


def test_consumers_of_a_proven_loss_are_checked() -> None:
    rows = [lost("ledger"), lost("ledger", 1, first_lost_offset=None), lost("audit", 2, verdict="possible")]
    (found,) = clients(PlanInput(lost=rows, current={"ledger": TOPIC_ID}))
    assert (found.code, found.places) == ("check_clients", ("ledger-0", "ledger-1"))
    assert found.facts == ("ledger-0: the first lost offset is 500.", "ledger-1: the first lost offset is not known.")
    assert commands(found) == [
        'kafka-consumer-groups.sh --bootstrap-server "$BOOTSTRAP" --describe --all-groups',
        'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" find-hanging --topic ledger --partition 0',
        'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" find-hanging --topic ledger --partition 1',
    ]


@pytest.mark.parametrize("current", [{}, {"ledger": "another id"}])
def test_no_command_names_a_topic_that_was_deleted_since(current: dict[str, str]) -> None:
    (found,) = clients(PlanInput(lost=[lost("ledger")], current=current))
    assert commands(found) == ['kafka-consumer-groups.sh --bootstrap-server "$BOOTSTRAP" --describe --all-groups']


def test_groups_are_those_of_the_lost_partitions() -> None:
    rows = [lost("__consumer_offsets", number, verdict="possible") for number in range(22)]
    (found,) = clients(PlanInput(lost=rows, partition_counts={TOPIC_ID: 50}))
    assert found.text.startswith("Check the consumer groups of __consumer_offsets.")
    assert found.facts == (
        "An id belongs to the partition abs(hashCode(id)) mod 50 of __consumer_offsets; concerned: "
        f"{', '.join(map(str, range(20)))}, 2 more.",
    )
    assert commands(found) == [
        'kafka-consumer-groups.sh --bootstrap-server "$BOOTSTRAP" --list'
        f" | kraft-forensics coordinator --partitions 50 --only {','.join(map(str, range(22)))}"
    ]


def test_without_the_number_of_partitions_the_rule_is_given_alone() -> None:
    (found,) = clients(PlanInput(lost=[lost("__transaction_state", 3)], left_out=12))
    assert "mod the number of partitions of __transaction_state" in found.facts[0]
    assert found.facts[-1].startswith("12 more windows were not read for this plan")
    (command,) = commands(found)
    lists, ids = command.split(" | ", 1)
    assert lists == 'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" list'
    table = "TransactionalId\tCoordinator\t\n" + "a b            \t1          \t\nan-id-as-long-as-x\t2\t\n"
    assert (
        run(ids, shell=True, input=table, capture_output=True, text=True, check=True).stdout
        == "a b\nan-id-as-long-as-x\n"
    )


def test_the_command_shows_the_ids_of_some_partitions() -> None:
    words = ["coordinator", "--partitions", "50", "--format", "json"]
    shown = CliRunner().invoke(app, [*words, "abc", "hello"])
    assert json.loads(shown.stdout) == [{"id": "abc", "partition": 4}, {"id": "hello", "partition": 22}]
    piped = CliRunner().invoke(app, [*words, "--only", "22"], input="abc\nhello\n\n")
    assert json.loads(piped.stdout) == [{"id": "hello", "partition": 22}]
    assert CliRunner().invoke(app, [*words, "--only", "x"]).exit_code == 2
