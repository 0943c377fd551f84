"""Every window under other rules: with those in force the recorded leader, with others what they say, and its cost."""

from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from replay.bucket import Detected, detect
from replay.controller.profiles import PROFILES
from replay.whatif.counterfactuals import DEPRIORITIZED_LEADER, Question
from replay.whatif.recovery_policies import POLICIES
from tests.support.detection import windows
from tests.support.scenario import evidence, ms, offsets_table, sessions, states, up
from tests.unit.replay.controller.test_predictions import around
from tests.unit.replay.whatif.test_simulation import real

Row = dict[str, Any]

SIMULATED = {*(f"profile_{name}" for name in PROFILES), "before_elr", "before_elr_unclean", DEPRIORITIZED_LEADER}


@cache
def found(name: str) -> Detected:
    captured = real(name)
    return detect(captured.history, captured.offsets, captured.bucket.facts, Question(((3,),), (1, 2, 3)))


def rows(detected: Detected) -> dict[str, dict[str, Row]]:
    """finding id -> policy -> row."""
    result: dict[str, dict[str, Row]] = defaultdict(dict)
    for row in detected.counterfactuals.to_pylist():
        assert row["policy"] not in result[row["finding_id"]]
        result[row["finding_id"]][row["policy"]] = row
    return result


CAPTURES = {"unclean": "4.3", "elr": "4.3", "churn": "4.3", "jbod-4.0.2": "4.0", "jbod-4.1.1": "4.1.1"}
CAPTURES["unclean-4.4.0"] = "4.3"
OTHERS = {"min_isr_1", "min_isr_2", "min_isr_3"}


@pytest.mark.parametrize("name", CAPTURES)
def test_every_window_is_asked_every_policy_and_the_rules_in_force_elect_the_recorded_leader(name: str) -> None:
    answers, judged = rows(found(name)), windows(found(name).findings)
    assert len(answers) == len(judged) > 0
    for finding in judged:
        asked = answers[finding["finding_id"]]
        assert set(asked) >= {*POLICIES, *SIMULATED, "deprioritized_3"}
        assert {p for p in set(asked) - {*POLICIES, *SIMULATED} if not p.startswith("deprioritized")} <= OTHERS
        answer = asked[f"profile_{CAPTURES[name]}"]
        assert (answer["leader"], answer["differs"]) == (finding["recorded_leader"], False)
        assert (answer["loss_min"], answer["loss_max"]) == (finding["loss_min"], finding["loss_max"])
    for finding in found(name).findings.to_pylist():
        if finding["kind"] in ("hwm_regression_counterfactual", "unclean_recovery_divergence"):
            assert (finding["verdict"], finding["policy"] is None) == ("possible", False)
            assert finding["would_be_leader"] != finding["recorded_leader"]


def test_a_fenced_last_known_leader_is_elected_by_4_0_only() -> None:
    """KAFKA-19522: thirteen windows of a real 4.0.2, of which the later rules would have let some wait."""
    answers = rows(found("jbod-4.0.2"))
    of = {f["finding_id"]: f for f in windows(found("jbod-4.0.2").findings)}
    waits = {finding_id for finding_id in of if answers[finding_id]["profile_4.3"]["outcome"] == "waits"}
    assert len(waits) == 13
    for finding_id in waits:
        assert answers[finding_id]["profile_4.3"]["leader"] is None
        assert answers[finding_id]["profile_4.0"]["leader"] == of[finding_id]["recorded_leader"]


def test_without_elr_clean_windows_of_unclean_would_have_lost() -> None:
    """audit-0 and audit-2 lost nothing thanks to ELR; without it their config would have let a short log lead."""
    lost = {
        (f["topic"], f["partition"], f["policy"]): f
        for f in found("unclean").findings.to_pylist()
        if f["kind"] == "hwm_regression_counterfactual"
    }
    least = {key: finding["loss_min"] for key, finding in lost.items()}
    # The file that says 20 of audit-0 was written within a minute of a start that may have cut the log (P4).
    assert least == {("audit", 0, "before_elr_unclean"): 5, ("audit", 2, "before_elr_unclean"): 20}
    for finding in lost.values():
        assert (finding["verdict"], finding["would_be_leader"]) == ("possible", 1)
        assert finding["would_be_leader"] != finding["recorded_leader"]
        natures = {s["nature"] for s in finding["reason"]}
        assert natures == {"fact", "bound", "prediction"}
        assert "Prediction: under before_elr_unclean broker 1 would have led." in finding["explanation"]


def test_divergences_are_of_windows_without_a_clean_winner() -> None:
    divergences = [f for f in found("unclean").findings.to_pylist() if f["kind"] == "unclean_recovery_divergence"]
    expected = {
        ("ledger", 0, 3): "medium",
        ("ledger", 1, 4): "low",
        ("ledger", 2, 3): "medium",
        ("audit", 1, 3): "medium",
    }
    assert {(f["topic"], f["partition"], f["would_be_leader"]): f["severity"] for f in divergences} == expected


# A partition of three replicas with ELR on and min ISR 2: 2 and 3 leave, then 1, which has records that only it has.
HISTORY = ("10 isr=1,2,3 leader=1", "20 isr=1,3 leader=1", "30 isr=1 elr=3 leader=1", "40 isr= elr=1,3 lke=1 leader=-1")
SESSIONS = (*up(1, 2, 3), "20 fence 2 batch=20", "29 shutdown 3 batch=29", "30 fence 3 batch=30", "41 fence 1 batch=40")
EVIDENCE = (
    *("15 b1 hw=50 leo=50 e0@0", "16 b2 hw=50 leo=50 e0@0", "17 b3 hw=50 leo=50 e0@0", "28 b1 hw=80 leo=80 e0@0"),
    *("29 b3 hw=80 leo=80 e0@0", "45 b2 hw=50 leo=50 e0@0", "46 b3 hw=80 leo=80 e0@0", "52 b2 hw=50 leo=50 e0@0"),
)


BACK = ("49 register 2 j2", "50 unfence 2", "58 register 3 j3", "59 unfence 3 batch=59")


def small(*more: str, back: tuple[str, ...], question: Question | None = None) -> tuple[Row, dict[str, Row]]:
    """The one window of HISTORY and `more`, and what it is answered."""
    history = states(*HISTORY, *more)
    timeline = sessions(*SESSIONS, *back)
    facts = replace(around(timeline), log_end_ms=ms(100), session_timeout_ms=0)
    detected = detect(history, offsets_table(evidence(*EVIDENCE)), facts, question or Question())
    (window,) = windows(detected.findings)
    return window, rows(detected)[window["finding_id"]]


def test_an_elr_member_came_back_and_others_would_have_been_elected_without_elr() -> None:
    """2 is back first: with ELR it waits for 3; without, and with unclean elections, 2 leads and 30 are gone."""
    window, answers = small("60 isr=3 elr=1 lke= leader=3 batch=59", back=BACK)
    assert (window["verdict"], window["recorded_leader"]) == ("excluded", 3)
    assert (answers["profile_4.3"]["leader"], answers["profile_4.3"]["loss_max"]) == (3, 0)
    assert answers["before_elr"]["outcome"] == "waits"
    unclean = answers["before_elr_unclean"]
    assert (unclean["leader"], unclean["loss_min"], unclean["loss_max"]) == (2, 30, None)
    assert unclean["log_end_offset"] == 50
    # Tried last, it is elected all the same: nobody else could be.
    assert answers[DEPRIORITIZED_LEADER]["leader"] == 3


def test_a_higher_min_isr_bounds_no_loss_from_below() -> None:
    """With min ISR 3 the high watermark might have stopped at 50: that it had reached 80 proves nothing there."""
    _, answers = small("60 isr=3 elr=1 lke= leader=3 batch=59", back=BACK)
    # 2 left while |ISR| was below 3 then: it would have been in the ELR, and is elected as soon as it is back.
    higher = answers["min_isr_3"]
    # As recorded it was no member then, so nothing promises that it had everything.
    assert (higher["leader"], higher["loss_min"], higher["loss_max"]) == (2, 0, None)
    assert "min_isr_2" not in answers
    lower = answers["min_isr_1"]
    assert lower["outcome"] in ("waits", "elected")


def test_configured_lists_of_deprioritized_brokers_are_asked() -> None:
    back = ("58 register 3 j3", "59 unfence 3 batch=59", "59 unfence 1 batch=59")
    more = "60 isr=3 elr=1 lke= leader=3 batch=59"
    _, answers = small(more, back=back, question=Question(((3,), (1, 2)), ()))
    assert {p for p in answers if p.startswith("deprioritized")} == {
        DEPRIORITIZED_LEADER,
        "deprioritized_3",
        "deprioritized_1_2",
    }
    assert not any(p.startswith("min_isr") for p in answers)
    assert answers["deprioritized_1_2"]["leader"] == 3


def test_behind_a_part_of_history_that_would_have_been_another_nothing_is_known() -> None:
    """Another leader led meanwhile: what its log would have held is not to be had from recorded logs."""
    detected = found("unclean")
    told = [r for r in detected.counterfactuals.to_pylist() if "another leader would have led" in r["explanation"]]
    assert told
    for row in told:
        assert row["outcome"] == "elected"
        assert (row["loss_min"], row["loss_max"]) == (None, None)


def test_no_window_needs_no_answer() -> None:
    history = states("10 isr=1,2,3 leader=1")
    timeline = sessions(*SESSIONS[:6])
    facts = replace(around(timeline), log_end_ms=ms(100))
    assert len(detect(history, offsets_table([]), facts, Question()).counterfactuals) == 0
