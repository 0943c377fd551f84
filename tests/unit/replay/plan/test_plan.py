"""A plan follows from recorded facts: each step has its rule, keeps natures apart, and is there only if needed."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from jobs.incident.plan import as_row
from replay.findings.statements import statement
from replay.plan.inputs import PlanInput
from replay.plan.plan import make_plan
from replay.plan.start_order import BY_LOG, ELR, ISR, LAST_KNOWN, NOBODY, Waiting
from replay.plan.step import PlanStep
from tests.support.paths import ROOT
from tests.support.report_rows import TOPIC_ID, exposure, finding, other_kind, state
from tests.support.window_table import stories

UNCLEAN = "unclean.leader.election.enable"
PHASES = ["prevent", "copy", "start", "do_not", "check", "later"]
BY = {"isr": ISR, "elr": ELR, "last": LAST_KNOWN, "log": BY_LOG, "nobody": NOBODY}


def waiting(by: str = ELR, members: tuple[int, ...] = (3,), **values: Any) -> Waiting:
    given = {"topic_id": TOPIC_ID, "topic": "ledger", "replicas": (1, 2, 3)}
    return Waiting(**{**given, "members": members, "by": by, **values})


def broker(fenced: bool = True, epoch: int = 20, **values: Any) -> dict[str, Any]:
    given = {"incarnation_id": "i", "in_controlled_shutdown": False, "offset": 98, "broker_epoch": epoch}
    return {"fenced": fenced, **given, **values}


def config(topic: str, name: str, value: str, source: str = "topic") -> dict[str, Any]:
    row = {"resource_type": "topic", "resource_name": topic, "name": name}
    return {**row, "effective_value": value, "value": value, "source": source}


def window(leader: int | None = 3, **values: Any) -> dict[str, Any]:
    """A window that is not excluded, with what the plan needs of its election."""
    election = {"previous_leader": leader, "isr_before": [], "elr_before": [], "candidates": [1], "joined_again": False}
    return {**finding(verdict="possible"), **election, **values}


def ids(text: str | None) -> list[int]:
    return [int(word) for word in (text or "").split(",") if word not in ("", "-")]


def plan_input(items: list[str]) -> PlanInput:
    """items: as in the text file beside this module. `waiting`: whose return is waited for, by what, whether unclean
    election is on; `broker`: up or down, `gone` (not registered), `stopping`; `active`: as in PlanInput; `seen`: log
    end/high watermark; `lost`, `alone`: a window, a last replica."""
    found: dict[str, Any] = defaultdict(list)
    brokers, seen, sizes = found.setdefault("brokers", {}), {}, {}
    for word, *given in (item.split() for item in items):
        values = dict(value.split("=", 1) for value in given if "=" in value)
        if word == "waiting":
            topic = values.get("topic", "ledger")
            more = {"topic": topic, "topic_id": TOPIC_ID if topic == "ledger" else topic[0]}
            more |= {"passed_over": (int(values["passed"]),)} if "passed" in values else {}
            more |= {"last_known": int(values["known"])} if "known" in values else {}
            more |= {"count": int(values["count"])} if "count" in values else {}
            more |= {"replicas": tuple(ids(values["replicas"]))} if "replicas" in values else {}
            if given[2] != "?":
                value = {"on": "true", "off": "false"}[given[2]]
                found["configs"].append(config(topic, UNCLEAN, value, values.get("layer", "topic")))
            found["waiting"].append(waiting(BY[given[0]], tuple(ids(given[1])), **more))
        elif word in ("up", "down"):
            brokers |= dict.fromkeys(ids(given[0]), broker(fenced=word == "down"))
        elif word == "broker":
            more = {"incarnation_id": None} if "gone" in given else {"in_controlled_shutdown": "stopping" in given}
            brokers[int(given[0])] = broker("down" in given, int(values.get("epoch", 20)), **more)
        elif word == "active":
            found.setdefault("active", {})[int(given[0])] = tuple(map(int, given[1].split("-")))
        elif word == "seen":
            names = ("log_end_offset", "high_watermark")
            read = (None if value == "-" else int(value) for value in given[1].split("/"))
            seen[int(given[0])] = dict(zip(names, read, strict=True))
        elif word == "size":
            read_at = {"source": "listing", "captured_at_ms": 1_795_000_000_000}
            sizes[int(given[0])] = {**read_at, "size_bytes": int(given[1])}
        elif word == "lost":
            leader = values.get("leader", "3")
            more: dict[str, Any] = {"isr_before": ids(values["isr"])} if "isr" in values else {}
            more |= {"verdict": "proven"} if "proven" in given else {}
            more |= {"joined_again": "joined" in given}
            found["lost"].append(
                window(None if leader == "-" else int(leader), candidates=ids(values.get("candidates", "1")), **more)
            )
        elif word == "alone":
            alone = int(given[0])
            least = {"min_isr": int(values["min"])} if "min" in values else {}
            found["alone"].append(state(110, alone, [alone], replicas=ids(values["replicas"]), **least))
            found["alone_count"] = {alone: 1}
        elif word == "feature":
            found["features"] = {**dict(found.get("features", {})), **{name: int(n) for name, n in values.items()}}
        elif word == "voters":
            found["voters"] = frozenset(ids(given[0]))
        elif word == "config":
            ((name, value),) = values.items()
            source = "assumed_default" if "assumed" in given else "topic"
            found["configs"].append(config(given[0], name, value, source))
        elif word == "single":
            found["single"] = frozenset(given)
        elif word == "tiered":
            ((topic, value),) = values.items()
            found["configs"].append(config(topic, "remote.storage.enable", value) | {"effective_value": None})
        elif word == "bug":
            found["known_bugs"].append(other_kind("m", kind="rule_mismatch", ticket=given[0]))
    return PlanInput(**found, last_seen={(TOPIC_ID, 0): seen}, sizes={("ledger", 0): sizes})


def printed(steps: list[PlanStep], shown: set[str]) -> Iterator[str]:
    """The steps with their brokers, and all of some."""
    yield "-> " + (" ".join(f"{step.code}({','.join(map(str, step.brokers))})" for step in steps) or "no steps")
    for step, row in zip(steps, as_row(steps)["steps"], strict=True):
        if step.code in shown:
            yield f"{step.code}: {step.text}"
            yield from (
                f"    {name[:-1]}: {text}" for name in ("facts", "assumptions", "predictions") for text in row[name]
            )
            yield from (f"    place: {place}" for place in step.places)
            yield from (f"    $ {text}" for text in row["commands"])


@pytest.mark.parametrize(("items", "shown", "expected"), stories(__file__))
def test_the_plan_of(items: list[str], shown: set[str], expected: list[str]) -> None:
    steps = make_plan(plan_input(items))
    assert list(printed(steps, shown)) == expected
    row = as_row(steps)
    commands = "".join(text for step in row["steps"] for text in step["commands"])
    assert set(row["fill_in"]) == set(re.findall(r"\$[A-Z]+(?:_\d+)?", commands))


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rule_is_documented(rule: str) -> bool:
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    return f"**{rule}. " in text or f"`{rule}`" in text


def test_no_name_that_kafka_refuses_is_in_a_command() -> None:
    topic = "a;rm -rf ~\x1b"
    rows = [waiting(topic=topic), waiting(NOBODY, (), topic=topic)]
    lost = window(topic=topic, verdict="proven")
    given = {
        "waiting": rows,
        "configs": [config(topic, UNCLEAN, "true")],
        "lost": [lost],
        "brokers": dict.fromkeys((1, 2, 3), broker()),
    }
    for step in as_row(make_plan(PlanInput(**given, current={topic: TOPIC_ID})))["steps"]:
        assert "rm -rf" not in "".join(step["commands"])
        assert "\x1b" not in "".join((*step["places"], *step["facts"], step["text"]))


def test_every_step_names_its_rule_mixes_no_natures_and_forbids_no_runnable_text() -> None:
    lost = window(verdict="proven")
    back = window(9, verdict="proven")
    groups = lost | {"topic": "__consumer_offsets", "verdict": "possible"}
    rows = [waiting(), waiting(NOBODY, (), topic="n", replicas=(4, 5)), waiting(LAST_KNOWN, topic="k")]
    longest = exposure("x", kind="last_replica_standing", reason=[statement("last_replica", [4], offset=9)])
    given = PlanInput(
        waiting=rows,
        alone=[state(110, 3, [3], replicas=[3, 1])],
        alone_count={3: 1},
        lost=[lost, back, groups],
        longest=[longest],
        configs=[config("a", "min.insync.replicas", "1")],
        features={"metadata.version": 25},
        brokers={**dict.fromkeys(range(1, 6), broker()), 9: broker(epoch=121)},
        active={9: (121, 130)},
    )
    found = make_plan(given)
    assert len(found) == len({step.code for step in found}) == 10
    for step in found:
        assert step.text.count("\n") == 0
        page, _, anchor = step.see.partition("#")
        assert anchor in anchors(page)
        assert all(rule_is_documented(rule) for rule in step.rule.split(", ")), step.rule
        assert not any("Prediction" in text for text in (*step.facts, *step.assumptions, *step.predictions))
        assert step.phase != "do_not" or step.actions == ()
        assert ".sh" not in step.text
    order = [PHASES.index(step.phase) for step in found]
    assert order == sorted(order)
