"""Small incidents and what must be found of each, as a table in plain text, in a file beside the test module:

    UP = 1 register 1 i1; 2 register 2 i2; 4 unfence 1; 5 unfence 2
    test_a_high_watermark_above_the_winners_log_end_is_a_loss: UP; 10 isr=1,2; 40 isr=2 leader=2
      # Why, if the name does not say it.
      25 b1 hw=150 e0@0; 50 b2 e0@0 e1@80 -> proven 70..; floor_logged=150
      25 b1 hw=150 -> possible; no floor_logged

A name in capitals stands for what follows its `=`. A test has a name, what all its cases have in common, and perhaps an
answer; a case, indented, adds to that (both go on in lines with four blanks before them). What happens: states and
the brokers' sessions as in tests/support/scenario.py, in the order of their offsets; what brokers showed (its
`evidence`); lines of their logs (tests/support/broker_log_lines.py). And what is known of the cluster:

    newer               the brokers are of 3.7 or later; zookeeper 1: broker 1 still has one
    elr, elr 38, no elr the ELR feature is on, or from an offset on
    judged 60           the election's offset
    threads 1:4,3:4     request threads by broker
    machine 1 a@8 a@95  its boot id at these seconds; `machine 1 -@95 booted=8 disks`: none, its boot time, local disks
    ran 3 until 19 next 54-90 quiet 80 signal 18     a LoggedProcess; `ran 1/90`: of the registration at 90
    split 61 60         the batch at 61 goes on with the event of the one at 60
    fail-over 22-27; topic t; tiered, compacted (tiered ?: any may be); refused; error 6500; session 0
    interval 120000; lag 80000; log-end 70 (?: not known); disk-error 1@49 (1@?: in no known zone)
    apart 1             the metadata log of broker 1 is in a directory of its own
    set 5 cluster 2     min.insync.replicas at an offset, see `set_to`; `set` alone: no record sets it
    earlier t           an earlier topic's name (?: the log does not show all)

The answer: the verdict with loss_min..loss_max (`excluded` and `possible` alone: 0..0 and 0..; `not excluded`: any
other), `unacked 70..80`, `first 80` (first_lost_offset), `none` (no window), and codes of statements, with value
(`=150`), brokers (`@2`; `@`: none), or `no`. `role old_leader_log_end=170`: a line of the finding's evidence.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from replay.cluster.boots import BootReading, LoggedProcess
from replay.cluster.broker_events import SplitEvents
from replay.cluster.brokers import BrokerTimeline
from replay.cluster.configs import (
    BROKER,
    MIN_ISR,
    TOPIC,
    UNCLEAN_LEADER_ELECTION,
    ConfigChange,
    ElectionConfigs,
    config_timeline,
)
from replay.cluster.facts import Clock, ClusterFacts
from replay.findings.statements import SENTENCES
from tests.support.broker_log_lines import logged
from tests.support.detection import statements, windows_of
from tests.support.scenario import SESSION, TOPIC_ID, elr_levels, evidence, ms, newer, offsets_table, sessions, states

Row = dict[str, Any]

_MACRO = re.compile(r"([A-Z][A-Z_0-9]*) = (.+)")
_NEVER = config_timeline(MIN_ISR, [], [], {})
_OPEN = {"excluded": "0..0", "possible": "0..", "undetermined": "0..", "proven": "0.."}


@dataclass(frozen=True, slots=True)
class Entry:
    """cases: (what happens, what must be found) in lines of the table."""

    name: str
    cases: tuple[tuple[str, str], ...]

    def check(self) -> None:
        """Raise AssertionError for a case of which something else is found."""
        for happens, answer in self.cases:
            found = window(happens)
            for expected in answer.split("; "):
                assert holds(found, expected), f"{happens} -> not {expected}: {found and _shown(found)}"


def entries(table: str, known_of_all: str = "") -> list[Entry]:
    """The tests of a table, its names in capitals replaced."""
    known: dict[str, str] = {}
    found: list[tuple[str, str, list[str]]] = []
    for line in re.sub(r"(?<=[;:])\n {4}", " ", table).splitlines():
        if macro := _MACRO.fullmatch(line):
            known[macro[1]] = _replaced(macro[2], known)
        elif line.startswith("test_"):
            name, _, common = line.partition(":")
            found.append((name, _replaced(common.strip(), known), []))
        elif line.strip() and not line.lstrip().startswith("#"):
            found[-1][2].append(_replaced(line.strip(), known))
    shared = f"{known_of_all}; " if known_of_all else ""
    return [
        Entry(name, tuple(_joined(shared + common, case) for case in cases or ["->"])) for name, common, cases in found
    ]


def beside(module: str, part: str = "") -> str:
    """The table in the text file beside a test module; part: what stands there below `== part`. ValueError: nothing."""
    text = Path(module).with_suffix(".txt").read_text(encoding="utf-8")
    found = text.partition(f"== {part}\n")[2].partition("\n== ")[0] if part else text
    if not found:
        raise ValueError(f"there is no {part or 'table'} beside {module}")
    return found


def lines_of(table: str) -> list[Any]:
    """Of each line (further ones with four blanks), `name: what happens -> answer`: a parameter set of the last two."""
    known: dict[str, str] = {}
    found = []
    for line in table.replace("\n    ", " ").splitlines():
        if macro := _MACRO.fullmatch(line):
            known[macro[1]] = _replaced(macro[2], known)
        elif line and not line.startswith("#"):
            name, story, answer = re.split(": | -> ", line)
            found.append(pytest.param(_replaced(story, known).split("; "), answer, id=name))
    return found


def stories(module: str) -> list[Any]:
    """Of each `== name` in the text file beside a test module: what is given, what is to be shown (`show`), and the
    lines from `->` on, which must be printed: a parameter set of these three."""
    found = []
    for story in beside(module).removeprefix("== ").split("\n== "):
        about, _, expected = story.partition("\n->")
        name, _, given = about.replace("\n    ", " ").partition("\n")
        items = [item for item in given.split("; ") if item]
        shown = {word for item in items if item.startswith("show ") for word in item.split()[1:]}
        items = [item for item in items if not item.startswith("show ")]
        found.append(pytest.param(items, shown, f"->{expected}".strip().splitlines(), id=name))
    return found


def _replaced(text: str, known: dict[str, str]) -> str:
    return re.sub(r"(?<![\w=,])[A-Z][A-Z_0-9]+(?![\w=,-])", lambda name: known[name[0]], text)


def _joined(common: str, case: str) -> tuple[str, str]:
    shared, _, usual = common.partition("->")
    own, _, answer = case.partition("->")
    return "; ".join(part.strip(" ;") for part in (shared, own) if part.strip(" ;")), (answer or usual).strip()


def window(story: str) -> Row | None:
    """The judged window of what happens; None if there is none."""
    *known, lines, judged = inputs(story)
    return next((row for row in windows_of(*known, lines) if row["election_offset"] == judged), None)


def inputs(story: str) -> tuple[pa.Table, pa.Table, ClusterFacts, pa.Table | None, int]:
    """The history, what brokers showed, the cluster, lines of their logs, and the offset of the judged election."""
    kinds: dict[str, list[str]] = {"session": [], "evidence": [], "line": [], "state": [], "fact": []}
    for item in story.split("; "):
        kinds[_kind(item)].append(item)
    facts = dict(_facts(kinds["fact"]))
    judged, topic = facts.pop("judged"), facts.pop("topic")
    brokers = sessions(*sorted(kinds["session"], key=_offset))
    brokers = newer(brokers) if facts.pop("newer") else brokers
    migrating = facts.pop("zookeeper")
    by_broker = {b: [replace(s, has_zookeeper=b == migrating) for s in own] for b, own in brokers.states.items()}
    brokers = brokers if migrating is None else BrokerTimeline(by_broker)
    history = states(*sorted(kinds["state"], key=_offset), topic=topic)
    lines = logged(*kinds["line"]) if kinds["line"] else None
    return history, offsets_table(evidence(*kinds["evidence"])), ClusterFacts("c", brokers, **facts), lines, judged


def _kind(item: str) -> str:
    if SESSION.match(item):
        return "session"
    if re.match(r"[\d.?]+ (b\d+|any) ", item):
        return "evidence"
    if re.match(r"b\d+ ", item):
        return "line"
    return "state" if item[0].isdigit() else "fact"


def _offset(item: str) -> int:
    return int(item.split()[0])


def _facts(items: list[str]) -> Iterator[tuple[str, Any]]:
    """Arguments of ClusterFacts, and judged, topic, newer. Unless it is given the session margin is 4 s."""
    found: Row = {"judged": 60, "topic": "t", "log_end_ms": ms(1_000), "session_timeout_ms": 2_000}
    found |= {
        "elr": None,
        "newer": False,
        "zookeeper": None,
        "changes": [],
        "checkpoint_interval_ms": 1_000,
        "boots": {},
        "disk_errors": {},
        "processes": {},
        "fail_overs": [],
    }
    for item in items:
        name, *words = item.split()
        match name:
            case "newer":
                found["newer"] = True
            case "elr":
                found["elr"] = int(words[0]) if words else 0
            case "no":
                found["elr"] = None
            case "judged":
                found["judged"] = int(words[0])
            case "topic":
                found["topic"] = words[0]
            case "tiered":
                found["tiered_topics"] = None if words else frozenset({"t"})
            case "refused":
                found["refused_topics"] = frozenset({"t"})
            case "compacted":
                found["compacted_topics"] = None if words else frozenset({"t"})
            case "zookeeper":
                found["zookeeper"] = int(words[0])
            case "apart":
                found["metadata_apart"] = frozenset({int(words[0])})
            case "split":
                found["split"] = SplitEvents(*(np.array([int(word)]) for word in words))
            case "threads":
                pairs = (pair.split(":") for pair in words[0].split(","))
                found["request_threads"] = {int(broker): int(number) for broker, number in pairs}
            case "machine":
                found["boots"][int(words[0])] = list(_readings(words[1:]))
            case "ran":
                found["processes"] |= [_process(words)]
            case "fail-over":
                first, last = words[0].split("-")
                found["fail_overs"].append((ms(float(first)), ms(float(last))))
            case "set":
                found["changes"].extend(zip(words[::3], words[1::3], words[2::3], strict=True))
            case "error":
                found["clock"] = Clock(int(words[0]))
            case "disk-error":
                broker, _, at = words[0].partition("@")
                found["disk_errors"].setdefault(int(broker), []).append(None if at == "?" else ms(float(at)))
            case "earlier" if words == ["?"]:
                found["knows_all_topics"] = False
            case "earlier":
                found["configs"] = ElectionConfigs({TOPIC_ID: "t", "earlier": words[0]}, _NEVER, _NEVER)
            case "log-end":
                found["log_end_ms"] = None if words == ["?"] else ms(float(words[0]))
            case "session" | "interval" | "lag":
                long = {"session": "session_timeout", "interval": "checkpoint_interval", "lag": "lag_time_max"}[name]
                found[f"{long}_ms"] = int(words[0])
            case _:
                raise ValueError(f"not known: {item}")
    changes = found.pop("changes")
    found |= set_to(changes) if any(item.startswith("set") for item in items) else {}
    since = found.pop("elr")
    yield "features", elr_levels(since == 0, *([(since, True)] if since else []))
    yield from found.items()


def set_to(changes: Iterable[tuple[str, str, str]]) -> Row:
    """What ClusterFacts knows of min.insync.replicas. changes: offset, resource (`cluster`, `t`: the topic, `file`: the
    controller's file, or a broker) and value (`-`: none)."""
    found, file = [], {}
    for offset, resource, value in changes:
        if resource == "file":
            file = {3000: {"process.roles": "controller", MIN_ISR: value}}
            continue
        kind, name = (TOPIC, "t") if resource == "t" else (BROKER, "" if resource == "cluster" else resource)
        found.append(ConfigChange(int(offset), kind, name, MIN_ISR, None if value == "-" else value))
    seen_by = {broker: config_timeline(MIN_ISR, found, [(-1, broker)], {}) for broker in (1, 2, 3)}
    unclean = config_timeline(UNCLEAN_LEADER_ELECTION, [], [], {})
    configs = ElectionConfigs({TOPIC_ID: "t"}, config_timeline(MIN_ISR, found, [(-1, 3000)], file), unclean)
    return {"configs": configs, "broker_min_isr": seen_by}


def _readings(words: list[str]) -> Iterator[BootReading]:
    booted = next((ms(float(word.removeprefix("booted="))) for word in words if word.startswith("booted=")), None)
    for word in (word for word in words if "@" in word):
        boot, _, time = word.partition("@")
        first, _, last = time.partition("-")
        span = ms(float(first)), ms(float(last or first))
        yield BootReading(None if boot == "-" else boot, *span, booted, True if "disks" in words else None)


def _process(words: list[str]) -> tuple[tuple[int, int], LoggedProcess]:
    broker, _, epoch = words[0].partition("/")
    values = dict(zip(words[1::2], words[2::2], strict=True))
    following = tuple(ms(float(time)) for time in values["next"].split("-")) if "next" in values else None
    quiet = ms(float(values["quiet"])) if "quiet" in values else None
    last_ms = ms(float(values["until"]))
    return (int(broker), int(epoch or broker)), LoggedProcess(last_ms, following, quiet, None, "signal" in values)


def holds(found: Row | None, expected: str) -> bool:
    """Whether a part of the answer is true of a window. ValueError: it denies a code that no statement has."""
    if found is None or expected == "none":
        return found is None and expected == "none"
    word, _, value = expected.partition(" ")
    if word == "not":
        return found["verdict"] != value
    if word == "no":
        if value not in SENTENCES:
            raise ValueError(f"no statement has the code {value}")
        return value not in statements(found)
    if word == "role":
        return value in {f"{line['role']}={line['value']}" for line in found["evidence"]}
    if word == "first":
        return found["first_lost_offset"] == int(value)
    if word in _OPEN:
        return (word, _range(found, "loss")) == (found["verdict"], value or _OPEN[word])
    if word == "unacked":
        return _range(found, "unacked") == value
    code, value, brokers = re.fullmatch(r"(\w+)(?:=(\d+))?(?:@([-\d,]*))?", expected).groups()
    said = statements(found).get(code)
    if said is None:
        return False
    is_value = value is None or said["value"] == int(value)
    return is_value and (brokers is None or (said["brokers"] or []) == [int(b) for b in brokers.split(",") if b])


def _range(found: Row, name: str) -> str:
    low, high = found[f"{name}_min"], found[f"{name}_max"]
    return f"{'' if low is None else low}..{'' if high is None else high}"


def _shown(found: Row) -> str:
    codes = [f"{code}={said['value']}" for code, said in statements(found).items()]
    bounds = f"{_range(found, 'loss')}; unacked {_range(found, 'unacked')}"
    return f"{found['verdict']} {bounds}; first {found['first_lost_offset']}; {'; '.join(codes)}"
