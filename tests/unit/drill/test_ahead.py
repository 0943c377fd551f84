"""How a drill compares what `ahead` said, and what `watch` told, with what happened."""

from __future__ import annotations

from typing import Any

from drill.ahead import _differences, _rows_that_hold
from drill.run import page
from drill.scenario import read_scenario
from jobs.queries.ahead import AheadAnswer
from replay.whatif.ahead import START, STOP, ClusterAction
from tests.unit.drill.test_scenarios import RESULT, WATCH

STATE: dict[str, Any] = {"topic": "t", "partition": 0, "leader": 1, "isr": [1, 2], "elr": []}
TOLD = {"seen_ms": 3_500, "timestamp_ms": 1_000, "kind": "one_left", "topic": "t", "partition": 0, "text": "alone"}


def test_what_is_not_as_predicted() -> None:
    after = {"t-0": {**STATE, "leader": 2, "isr": [2]}}
    said = {"t-0": {**STATE, "leader": 2, "isr": [2], "elr": []}}

    assert _differences(ClusterAction(STOP, 1), {"t-0": STATE}, after, said) == []
    assert len(_differences(ClusterAction(STOP, 1), {"t-0": STATE}, after, {})) == 1
    # A replica that comes back joins the ISR in its own time.
    assert _differences(ClusterAction(START, 3), {"t-0": STATE}, {"t-0": {**STATE, "isr": [1, 2, 3]}}, {}) == []


def test_the_condition_that_is_true_counts() -> None:
    conditions = [
        f"the rules of {rules}, broker 2 stopped {how}"
        for rules in ("4.1.0", "4.1.1")
        for how in ("cleanly", "uncleanly")
    ]
    answer = AheadAnswer("c", 1, None, [], [{**STATE, "condition": c, "leader": n} for n, c in enumerate(conditions)])

    assert _rows_that_hold(answer, "4.1.0", set())["t-0"]["leader"] == 0
    assert _rows_that_hold(answer, "4.1.1", {2})["t-0"]["leader"] == 3


def test_the_page_of_a_drill_has_the_alarms_of_its_watch() -> None:
    text = page({**RESULT, "watch": WATCH, "alarms": [TOLD]}, read_scenario("unclean_by_config"))
    assert "| 00:00:01 | 2.5 | one_left | t-0 | alone |" in text
