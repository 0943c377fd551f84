"""How a drill compares what `ahead` said with what happened."""

from typing import Any

from drill.ahead import _differences, _rows_that_hold
from jobs.queries.ahead import AheadAnswer
from replay.whatif.ahead import START, STOP, ClusterAction

STATE: dict[str, Any] = {"topic": "t", "partition": 0, "leader": 1, "isr": [1, 2], "elr": []}


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
