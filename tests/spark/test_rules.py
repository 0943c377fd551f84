"""`whatif` on the finished lake: its answers, its table, what it refuses, and its page."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from evidence.errors import UsageError
from jobs.cli.commands import app
from jobs.queries.whatif import WhatifQuestion
from replay.whatif.comparison import WHATIF
from tests.spark.conftest import Job
from tests.support.invoked import cli
from tests.support.paths import ROOT


def whatif_rows(job: Job, name: str, *options: str) -> list[dict[str, Any]]:
    place = ("--lake", job.pipeline.root, "--cluster", job.clusters[name], "--format", "json")
    result = cli("whatif", *options, *place)
    assert result.exit_code == 0, result.output
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


def by_place(rows: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["topic"], row["partition"]): row for row in rows}


def test_a_rule_that_was_already_in_force_changes_nothing(job: Job) -> None:
    rows = whatif_rows(job, "elr", "--elr")
    assert len(rows) == 13
    assert {row["first_difference_offset"] for row in rows} == {None}
    assert {row["undetermined_offset"] for row in rows} == {None}
    assert set(rows[0]) == {"cluster_id", *WHATIF.names}


def test_a_strategy_of_the_kip_over_a_range(job: Job) -> None:
    """Broker 1, which lacked 70 offsets, led ledger-0 and ledger-2; Balanced would wait for the last known leader."""
    rows = by_place(whatif_rows(job, "unclean", "--strategy", "balanced", "--to-offset", "110"))
    for place in (("ledger", 0), ("ledger", 2)):
        assert (rows[place]["recorded_leader"], rows[place]["would_be_leader"]) == (1, -1)
        assert (rows[place]["loss_min_recorded"], rows[place]["loss_min_would_be"]) == (70, 0)
        assert rows[place]["leaderless_ms_would_be"] >= rows[place]["leaderless_ms_recorded"]


def test_the_table_shows_the_partitions_that_would_differ(job: Job) -> None:
    place = ("--lake", job.pipeline.root, "--cluster", job.clusters["unclean"])
    result = CliRunner(env={"COLUMNS": "240"}).invoke(app, [str(a) for a in ("whatif", "--min-isr", "1", *place)])
    assert result.exit_code == 0, result.output
    assert "7 of 12 partitions would differ (hypothetical; recorded -> would be)" in result.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "name at least one rule to change"),
        (("--deprioritized", "1,x"), "is not a list of broker ids"),
        (("--policy", "best"), "'best' is not a policy; choose one of unclean_recovery_none"),
        (("--strategy", "bold"), "'bold' is not a strategy"),
        (("--strategy", "none", "--policy", "before_elr"), "give --policy or --strategy, not both"),
        (("--profile", "5.0"), "'5.0' is not a profile; choose one of 4.0"),
        (("--strategy", "none", "--designate", "3"), "give only one of them"),
        (("--elr", "--from-offset", "9", "--to-offset", "3"), "the range ends at 3, before it starts at 9"),
        (("--elr", "--topic", "nothing"), "no history of topic 'nothing'"),
    ],
)
def test_an_invalid_question_is_an_error(job: Job, options: tuple[str, ...], message: str) -> None:
    result = cli("whatif", *options, "--lake", job.pipeline.root, "--cluster", job.clusters["elr"])
    assert result.exit_code != 0
    assert message in f"{result.output} {result.exception}".replace("\n", " ").replace("│", "").replace("  ", " ")


@pytest.mark.parametrize("options", [("--designate", "99"), ("--deprioritized", "1,99@5-9")])
def test_a_broker_that_there_is_not_is_told(job: Job, options: tuple[str, str]) -> None:
    result = cli("whatif", *options, "--lake", job.pipeline.root, "--cluster", job.clusters["elr"])
    assert result.exit_code == 0, result.output
    assert result.stderr.count("broker 99 registers nowhere in the known log") == 1
    assert "broker 1 " not in result.stderr


def test_deprioritized_brokers_may_have_their_own_ranges() -> None:
    question = WhatifQuestion(deprioritized=((1, None, None), (2, 500, 900)), from_offset=100, to_offset=1000)
    assert question.ranges() == ((1, 100, 1001), (2, 500, 901))
    for wrong, message in (
        (WhatifQuestion(profile="9"), "is not a profile"),
        (WhatifQuestion(policy="9"), "is not a policy"),
        (WhatifQuestion(deprioritized=((1, 900, 500),)), "ends at 500, before it starts at 900"),
    ):
        with pytest.raises(UsageError, match=message) as refused:
            wrong.scenario()
        assert refused.value.exit_code == 2


def test_every_option_and_column_of_whatif_is_documented() -> None:
    page = (ROOT / "docs" / "whatif.md").read_text(encoding="utf-8")
    help_text = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["whatif", "--help"]).stdout
    common = {"--help", "--lake", "--format", "--verbose", "--quiet", "--log-format"}
    options = {word.strip("│, ") for word in help_text.split() if word.startswith("--")} - common
    assert len(options) > 10
    assert [option for option in options if f"`{option}" not in page] == []
    for name in WHATIF.names[3:]:
        stem = name.removesuffix("_recorded").removesuffix("_would_be")
        assert f"`{stem}" in page, name
