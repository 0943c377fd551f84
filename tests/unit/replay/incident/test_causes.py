"""The chain of causes of a proven loss: facts of the log and of nodes' own logs, in order; what nothing shows is not
named."""

from typing import Any

import pytest

from replay.findings.statements import statement
from replay.incident.causes import LABELS, chain, labelled
from replay.incident.node_logs import EVENTS, node_logs
from tests.support.report_rows import START_MS, finding, state
from tests.support.window_table import stories

Row = dict[str, Any]

REASON = [
    statement("elected", [1], offset=120, leader_epoch=2, text="ledger-0"),
    statement("high_watermark_at_least", [3], value=150),
    statement("log_end", value=80),
    statement("lost_at_least", value=70),
    statement("first_lost", value=80),
    statement("clocks", value=250),
]
ELECTED = {"offset": 120, "timestamp_ms": START_MS + 20_000, "leader": 1, "leader_epoch": 2, "previous_leader": 3}
STATES = ["100 3 3,2", "105 3 3 batch=104 leader_epoch=0", "110 -1 - elr=3", "120 1 1"]
SESSIONS = ["2 22", "3 28", "2 104 stopping", "3 111 fenced batch=110", "3 124 fenced epoch=124 restart=unclean"]


def session(broker: int, offset: int, base: int, epoch: int = 20, **values: Any) -> Row:
    given = {"fenced": False, "in_controlled_shutdown": False, "restart_class": "first", "incarnation_id": "i"}
    at = {"timestamp_ms": START_MS + (offset - 100) * 1000, "batch_base_offset": base}
    return {"broker_id": broker, "offset": offset, "broker_epoch": epoch, **at, **given, **values}


def ids(text: str) -> list[int]:
    return [int(broker) for broker in text.split(",") if broker not in ("", "-")]


def words_of(item: str) -> tuple[list[str], dict[str, str]]:
    words = item.split()
    return [word for word in words if "=" not in word], dict(word.split("=", 1) for word in words if "=" in word)


def state_of(item: str) -> Row:
    (offset, leader, isr), values = words_of(item)
    numbers = {"leader_epoch": int(values["leader_epoch"])} if "leader_epoch" in values else {}
    base = int(values.get("batch", offset))
    return state(int(offset), int(leader), ids(isr), ids(values.get("elr", "")), batch_base_offset=base, **numbers)


def session_of(item: str) -> Row:
    (broker, offset, *flags), values = words_of(item)
    more = {"fenced": "fenced" in flags, "in_controlled_shutdown": "stopping" in flags}
    more |= {"restart_class": values.get("restart", "first")}
    return session(int(broker), int(offset), int(values.get("batch", offset)), int(values.get("epoch", 20)), **more)


def line(node: int, kind: str, second: float | None, **values: Any) -> Row:
    at_ms = None if second is None else START_MS + int(second * 1000)
    times = {"logged_at_ms": at_ms, "logged_at_utc_ms": at_ms}
    return {**dict.fromkeys(EVENTS), "node_id": node, "kind": kind, **times, **values}


def line_of(item: str) -> Row:
    item, _, detail = item.partition(" detail=")
    (node, kind, second), values = words_of(item)
    numbers = {name: int(value) for name, value in values.items()}
    return line(
        int(node), kind, None if second == "?" else float(second), **numbers, **({"detail": detail} if detail else {})
    )


def shrinking(item: str) -> Row:
    _, values = words_of(item)
    late = {"broker_id": 2, "log_end_offset": 57, "last_caught_up_ms": START_MS - 30_000}
    known = {
        "topic": "ledger",
        "partition": int(values.get("partition", 0)),
        "log_end_offset": 60,
        "out_of_sync": [late],
    }
    return line(3, "isr_shrinking", 4.5, previous_isr=ids(values["previous"]), isr=ids(values["isr"]), **known)


def start_of(item: str) -> Row:
    (node, epoch, found), values = words_of(item)
    load = values.get("load", "318")
    lists = {f"{kind}_directories": ["/data"] * (kind == found) for kind in ("unclean", "clean")}
    return {"node_id": int(node), "broker_epoch": int(epoch), "load_ms": None if load == "-" else int(load), **lists}


def causes(items: list[str]) -> dict[str, str]:
    """items: as in the text file beside this module; what is not given is as in STATES and SESSIONS."""
    given: dict[str, list[str]] = {}
    for word, _, rest in (item.partition(" ") for item in items):
        given.setdefault(word, []).append(rest)
    none = given.get("no", [])
    election: Row | None = ELECTED | {"cause": "unclean_by_config", "actor": "unfence"}
    for item in given.get("election", []):
        election |= {name: int(v) if v.isdigit() else v for name, v in words_of(item)[1].items()}
    won = {"recorded_leader": int(given["won"][0])} if "won" in given else {}
    events = [*map(line_of, given.get("log", [])), *map(shrinking, given.get("shrinks", []))]
    logs = node_logs(events, tuple(map(start_of, given.get("start", []))), {})
    return dict(
        labelled(
            chain(
                finding=finding(reason=REASON, **won),
                states=[] if "states" in none else [state_of(item) for item in given.get("state", STATES)],
                sessions=[session_of(item) for item in given.get("session", SESSIONS)],
                election=None if "election" in none else election,
                logs=logs,
            )
        )
    )


@pytest.mark.parametrize(("items", "shown", "expected"), stories(__file__))
def test_the_causes_of(items: list[str], shown: set[str], expected: list[str]) -> None:
    found = causes(items)
    assert list(found) == (list(LABELS) if found else [])
    lines = [f"{label}: {text}" for label, text in found.items() if {label.split()[0].lower(), "all"} & shown]
    assert ["->", *lines] == expected


def test_a_departure_without_a_time_has_no_lines() -> None:
    logs = node_logs([line(3, "out_of_memory", 11)], (), {})
    assert logs.departure(3, None, None) == ""
    assert logs.smaller_isr(("ledger", 0), state(1, 3, [3, 2]), {**state(2, 3, [3]), "timestamp_ms": None}) == ""
