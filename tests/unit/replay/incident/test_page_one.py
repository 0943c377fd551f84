"""Page one: a cause only as far as a loss is proven, windows of one cause together, what happened in words."""

from collections.abc import Iterator
from typing import Any

import pytest

from replay.incident.page_one import page_one
from replay.plan.inputs import PlanInput
from tests.support.report_rows import START_MS, TOPIC_ID, answered, finding, other_kind
from tests.support.window_table import stories

Row = dict[str, Any]


def window(finding_id: str, values: dict[str, str]) -> tuple[Row, Row]:
    """A finding, and what page one needs of it beside that: broker 1 was elected uncleanly after broker 3 at 20 s."""
    of_election = {
        "cause": "unclean_by_config",
        "previous_leader": 3,
        "isr_before": [],
        "elr_before": [3],
        "cut": False,
    }
    of_election["elected_ms"] = START_MS + 1000 * int(values.pop("elected", 20))
    row: Row = {"loss_max": None}
    for name, text in values.items():
        value = None if text == "-" else True if text == "true" else int(text) if text.isdigit() else text
        (of_election if name in of_election else row)[{"min": "loss_min", "max": "loss_max"}.get(name, name)] = value
    return finding(finding_id, **row), of_election


def session(broker: str, second: str, *flags: str, epoch: str = "1", restart: str = "first", origin: str = "") -> Row:
    up = {
        "incarnation_id": "i",
        "fenced": "fenced" in flags,
        "in_controlled_shutdown": False,
        "broker_epoch": int(epoch),
    }
    at = {"offset": int(second), "timestamp_ms": START_MS + int(second) * 1000}
    return {"broker_id": int(broker), **up, **at, "restart_class": restart, "origin": origin}


def page(items: list[str]) -> Row:
    windows, sessions, leaderless, gaps = [], [], [], []
    plan: Row = {"brokers": {}, "alone_count": {}, "current": {"ledger": TOPIC_ID}}
    for word, *given in (item.split() for item in items):
        words = [each for each in given if "=" not in each]
        values = dict(each.split("=", 1) for each in given if "=" in each)
        if word == "window":
            times, number = int(values.pop("times", 1)), int(values.pop("partition", 0))
            ids = [words[0], *(f"{words[0]}-{n}" for n in range(1, times))]
            windows += [window(each, {**values, "partition": str(number + n)}) for n, each in enumerate(ids)]
        elif word == "session":
            sessions.append(session(*words, **values))
        elif word == "leaderless":
            gone = {"topic_id": TOPIC_ID, "topic": "ledger", "partition": 0, "timestamp_ms": START_MS + 10_000}
            leaderless.append(gone | {"offset": int(words[0])})
        elif word == "alone":
            plan["alone_count"] = {int(broker): int(count) for broker, count in values.items()}
        elif word == "gap":
            gaps.append(other_kind("gap", kind="evidence_gap"))
            plan["current"] = {} if "last" in words else plan["current"]
        else:
            flags = ["fenced"] * (word == "down")
            plan["brokers"] |= {int(broker): session(broker, "0", *flags) for broker in words[0].split(",")}
    found, more = answered([*(row for row, _ in windows), *gaps]), {row["finding_id"]: row | of for row, of in windows}
    rows = [more[row["finding_id"]] for row in (*found["proven"], *found["undecided"])]
    return page_one(found, rows, sessions, leaderless, PlanInput(**plan))


def printed(found: Row, shown: set[str]) -> Iterator[str]:
    yield "->"
    if "cause" in shown:
        yield f"cause: {found['cause'] or 'none'}"
    if "incidents" in shown:
        rows = found["incidents"]
        yield from (f"incident: {row['text']} ({', '.join(row['finding_ids'])})" for row in rows)
        assert found["incident_count"] == len(rows)
    if "timeline" in shown:
        for row in found["timeline"]:
            yield f"{(row['at_ms'] - START_MS) // 1000} s{', proven' if row['proven'] else ''}: {row['text']}"
    yield from (f"{name}: {text}" for name in ("prevention", "now") if name in shown for text in found[name])


@pytest.mark.parametrize(("items", "shown", "expected"), stories(__file__))
def test_page_one_of(items: list[str], shown: set[str], expected: list[str]) -> None:
    assert list(printed(page(items), shown)) == expected
