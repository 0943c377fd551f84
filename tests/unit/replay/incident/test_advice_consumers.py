"""Who is concerned by lost records."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from jobs.cli import app
from replay.incident.advice_consumers import concerned, coordinator_partition
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


def test_consumers_of_a_proven_loss_are_checked() -> None:
    rows = [lost("ledger"), lost("ledger", 1, first_lost_offset=None), lost("audit", 2, verdict="possible")]
    (found,) = concerned(rows, {})
    assert found["code"] == "check_consumers"
    assert found["partitions"] == ["ledger-0", "ledger-1"]
    assert found["facts"] == [
        "ledger-0: the first lost offset is 500.",
        "ledger-1: the first lost offset is not known.",
    ]
    assert found["commands"] == [
        'kafka-consumer-groups.sh --bootstrap-server "$BOOTSTRAP" --describe --all-groups',
        'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" find-hanging --topic ledger --partition 0',
        'kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" find-hanging --topic ledger --partition 1',
    ]


def test_groups_are_those_of_the_lost_partitions() -> None:
    rows = [lost("__consumer_offsets", 7, verdict="possible"), lost("__consumer_offsets", 3, verdict="possible")]
    (found,) = concerned(rows, {TOPIC_ID: 50})
    assert found["code"] == "check_groups"
    assert found["advice"] == (
        "Check the consumer groups whose id belongs to partition 3, 7 of __consumer_offsets: whether records of these "
        "are lost is not known."
    )
    assert found["facts"] == ["An id belongs to the partition abs(hashCode(id)) mod 50 of __consumer_offsets."]
    assert found["commands"] == [
        'kafka-consumer-groups.sh --bootstrap-server "$BOOTSTRAP" --list'
        " | kraft-forensics coordinator --partitions 50 --only 3,7"
    ]


def test_without_the_number_of_partitions_the_rule_is_given_alone() -> None:
    (found,) = concerned([lost("__transaction_state", 3)], {})
    assert found["code"] == "check_transactions"
    assert "records of these partitions are lost" in found["advice"]
    assert "mod the number of partitions of __transaction_state" in found["facts"][0]
    assert found["commands"] == ['kafka-transactions.sh --bootstrap-server "$BOOTSTRAP" list']


def test_the_command_shows_the_ids_of_some_partitions() -> None:
    words = ["coordinator", "--partitions", "50", "--format", "json"]
    shown = CliRunner().invoke(app, [*words, "abc", "hello"])
    assert json.loads(shown.stdout) == [{"id": "abc", "partition": 4}, {"id": "hello", "partition": 22}]
    piped = CliRunner().invoke(app, [*words, "--only", "22"], input="abc\nhello\n\n")
    assert json.loads(piped.stdout) == [{"id": "hello", "partition": 22}]
    assert CliRunner().invoke(app, [*words, "--only", "x"]).exit_code == 2
