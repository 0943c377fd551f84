"""--fail-on: what counts as that bad, or worse."""

from __future__ import annotations

import tomllib
from typing import get_args

import pytest

from jobs.console.options import FailOn, levels_from
from tests.support.invoked import invoke
from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("given", "levels"),
    [
        ("none", set()),
        ("proven", {"proven"}),
        ("possible", {"proven", "possible"}),
        ("critical", {"critical"}),
        ("high", {"critical", "high"}),
        ("medium", {"critical", "high", "medium"}),
        ("low", {"critical", "high", "medium", "low"}),
        ("info", {"critical", "high", "medium", "low", "info"}),
        ("unknown", {"proven", "possible", "unknown"}),
        ("new-proven", {"new-proven"}),
        ("new-unknown", {"new-proven", "new-possible", "new-unknown"}),
        ("new-medium", {"new-critical", "new-high", "new-medium"}),
    ],
)
def test_a_level_includes_what_is_worse(given: FailOn, levels: set[str]) -> None:
    assert levels_from(given) == levels


def test_the_dags_take_the_same_levels() -> None:
    """The DAGs import nothing of the job, so that their schema repeats them."""
    text = (ROOT / "airflow_dags" / "kraft_forensics_dags" / "params.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["nightly"]["fail_on"]["enum"] == [*get_args(FailOn)]


@pytest.mark.parametrize(
    "words",
    [
        ["whatif", "--min-isr", "99999999999999999999"],
        ["describe", "--at-offset", "99999999999999999999"],
        ["findings", "--partition", "-99999999999999999999"],
        ["ahead", "--stop", "1", "--stop", "99999999999999999999"],
        ["maintain", "--retention-days", "9223372036854775807"],
    ],
)
def test_a_number_that_is_too_large_is_a_usage_error(words: list[str]) -> None:
    assert invoke(words).exit_code == 2
