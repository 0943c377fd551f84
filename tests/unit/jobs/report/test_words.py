"""Words of the report: reasons, the answer, losses of other producers, names of policies."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from jobs.report.page import render_report
from jobs.report.words import POLICY_NAMES, policy_name
from replay.controller.profiles import PROFILES
from replay.findings.statements import statement
from replay.whatif.recovery_policies import POLICIES
from tests.support.report_page import Page, section_text
from tests.support.report_rows import finding, report, small_report


@pytest.mark.parametrize("reason", [None, [], [statement("lost_open") | {"code": "of_a_newer_release"}]])
def test_a_finding_without_known_statements_shows_its_explanation(reason: list[dict[str, Any]] | None) -> None:
    assert "Its log ended at 500." in section_text(render_report(report([finding(reason=reason)])), "details")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (None, None, "evidence does not bound the loss"),
        (0, None, "evidence does not bound the loss"),
        (7, None, "lost at least 7 offsets; no upper bound is known."),
        (0, 9, "lost at most 9 offsets."),
        (None, 0, "lost nothing."),
        (7, 9, "lost at least 7 and at most 9 offsets."),
        (7, 7, "lost exactly 7 offsets."),
    ],
)
def test_losses_of_other_producers_are_worded_by_their_bounds(low: int | None, high: int | None, text: str) -> None:
    assert text in section_text(render_report(report([finding(unacked_min=low, unacked_max=high)])), "details")


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ("profile_4.1.1", "Kafka 4.1.1 to 4.2"),
        ("profile_5.0", "Kafka 5.0"),
        ("before_elr_unclean", "without ELR, unclean election on"),
        ("min_isr_2", "min.insync.replicas = 2"),
        ("deprioritized_1_12", "deprioritized: 1, 12"),
        ("deprioritized_recorded_leader", "recorded leader deprioritized"),
        ("unclean_recovery_none", "unclean recovery, None"),
        ("min_isr_\u0665", "min_isr_\u0665"),
        (None, "unknown"),
    ],
)
def test_policies_have_readable_names(policy: str | None, name: str) -> None:
    assert policy_name(policy) == name


def test_every_policy_and_profile_has_a_name() -> None:
    policies = [*POLICIES, *(f"profile_{name}" for name in PROFILES)]
    assert [policy for policy in policies if policy not in POLICY_NAMES] == []


def test_a_record_is_found_by_its_metadata_offset() -> None:
    small = small_report()
    (command,) = Page(render_report(small | {"cluster_id": "c'1"})).attributes("data-record")
    assert shlex.split(str(command).replace("OFFSET", "7"))[-1] == (
        "select capture, path, position, payload from records where cluster_id = 'c\\'1' and metadata_offset = 7"
    )
