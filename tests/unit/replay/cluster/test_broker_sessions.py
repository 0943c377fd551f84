"""Broker sessions: how each began, against what was really done to the brokers, and rule by rule."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.arrow import schemas
from replay.cluster.broker_sessions import (
    EVIDENCE_LIMIT,
    SESSION_EVIDENCE,
    broker_history,
    registrations,
    session_evidence,
)
from tests.support.paths import CAPTURES as FOLDER
from tests.support.pure import history_of
from tests.support.scenario import states, together
from tests.unit.test_oracle import decoded as decoded_capture

Row = dict[str, Any]
CAPTURES = ["unclean", "elr", "churn", "diverge"]
ELR_ON = {"type": "FEATURE_LEVEL_RECORD", "data": {"name": "eligible.leader.replicas.version", "featureLevel": 1}}


def record(offset: int, kind: str, batch: int | None = None, **data: Any) -> Row:
    place = {"capture": "c", "path": "log", "sha256": "00", "position": offset, "epoch": 1}
    at = {"offset": offset, "batch_base_offset": offset if batch is None else batch, "timestamp_ms": offset * 10}
    return {**at, **place, "type": kind, "data": data}


def register(offset: int, incarnation: str, broker: int = 1, batch: int | None = None, **data: Any) -> Row:
    about = {"brokerId": broker, "brokerEpoch": offset, "incarnationId": incarnation, "fenced": True}
    return record(offset, "REGISTER_BROKER_RECORD", batch, **about, **data)


def change(offset: int, epoch: int, broker: int = 1, **data: Any) -> Row:
    about = {"brokerId": broker, "brokerEpoch": epoch, "fenced": 0, "inControlledShutdown": 0, **data}
    return record(offset, "BROKER_REGISTRATION_CHANGE_RECORD", **about)


def elr(offset: int, level: int = 1) -> Row:
    return record(offset, ELR_ON["type"], name=ELR_ON["data"]["name"], featureLevel=level)


def history_rows(records: list[Row], *partitions: pa.Table, files: tuple[Row, ...] = ()) -> list[Row]:
    partition_history = together(*partitions) if partitions else schemas.PARTITION_HISTORY.empty_table()
    evidence = session_evidence(partition_history, registrations(records))
    return broker_history(records, evidence, files).to_pylist()


def last_class(records: list[Row], *partitions: pa.Table, files: tuple[Row, ...] = ()) -> tuple[str, list[int]]:
    row = history_rows(records, *partitions, files=files)[-1]
    return row["restart_class"], row["restart_evidence"]


def restarts(name: str) -> list[Row]:
    """The first row of every session of a real capture."""
    decoded = decoded_capture(name)
    history, state = history_of(decoded)
    evidence = session_evidence(schemas.sorted_history(history.table), registrations(state.records))
    files = [r for r in decoded.offsets.to_pylist() if r["source"] == "clean_shutdown"]
    first: dict[tuple[int, int], Row] = {}
    for row in broker_history(state.records, evidence, files).to_pylist():
        if row["broker_epoch"] is not None:
            first.setdefault((row["broker_id"], row["broker_epoch"]), row)
    return list(first.values())


@pytest.mark.parametrize(("name", "told"), [("unclean", 5), ("elr", 5), ("churn", 3), ("diverge", 0)])
def test_no_restart_is_called_what_it_was_not(name: str, told: int) -> None:
    """stops.json has what was done to the captured clusters' brokers: [ms, broker, stop (clean) or kill]."""
    ends = json.loads((FOLDER / "stops.json").read_text())[name]
    decided = 0
    for row in restarts(name):
        before = [how for ms, broker, how in ends if broker == row["broker_id"] and ms < row["timestamp_ms"]]
        if not before:
            assert row["restart_class"] == "first"
            continue
        really = {"stop": "clean", "kill": "unclean"}[before[-1]]
        assert row["restart_class"] in (really, "unknown")
        decided += row["restart_class"] == really
    assert decided == told


def test_what_a_session_looks_like() -> None:
    records = [
        register(1, "a", rack="r1", logDirs=["d1", "d2"]),
        change(2, 1, fenced=-1),
        change(3, 1, logDirs=["d2"]),
        change(4, 1, inControlledShutdown=1),
        change(5, 1, fenced=1),
        record(6, "UNREGISTER_BROKER_RECORD", brokerId=1, brokerEpoch=1),
        register(7, "b"),
    ]
    rows = history_rows(records)
    names = ("offset", "incarnation_id", "fenced", "in_controlled_shutdown", "rack", "log_dirs", "end_offset")
    assert [tuple(r[n] for n in names) for r in rows] == [
        (1, "a", True, False, "r1", ["d1", "d2"], 2),
        (2, "a", False, False, "r1", ["d1", "d2"], 3),
        (3, "a", False, False, "r1", ["d2"], 4),
        (4, "a", False, True, "r1", ["d2"], 5),
        (5, "a", True, True, "r1", ["d2"], 6),
        (6, None, None, None, None, None, 7),
        (7, "b", True, False, None, None, None),
    ]
    assert [r["restart_class"] for r in rows] == ["first"] * 5 + [None, "unknown"]
    assert [r["position"] for r in rows] == [r["offset"] for r in rows]


RESTART = [elr(0), register(1, "a"), register(12, "b", batch=10)]


def test_taken_off_the_isr_below_min_isr_and_not_made_eligible_is_unclean() -> None:
    assert last_class(RESTART, states("5 isr=1", "11 isr= leader=-1 batch=10")) == ("unclean", [11])


def test_taken_off_the_elr_is_unclean() -> None:
    assert last_class(RESTART, states("5 isr=2 elr=1 leader=2", "11 elr= batch=10")) == ("unclean", [11])


def test_still_eligible_when_it_registers_is_clean() -> None:
    assert last_class(RESTART, states("5 isr=2 elr=1 leader=2")) == ("clean", [5])
    assert last_class(RESTART, states("5 isr=1,2", "11 isr=2 elr=1 leader=2 batch=10")) == ("clean", [11])


def test_an_elr_that_was_cleared_in_the_same_batch_is_no_proof() -> None:
    cleared = record(11, "CLEAR_ELR_RECORD", 10, topicName="t")
    lines = ["5 isr=2 elr=1 leader=2", "11 elr= batch=10"]
    assert last_class([*RESTART[:2], cleared, RESTART[2]], states(*lines)) == ("unknown", [])


@pytest.mark.parametrize(
    ("why", "records", "lines"),
    [
        ("nothing is said of it", RESTART, ["5 isr=2,3 leader=2"]),
        ("at min ISR the ELR is empty either way", RESTART, ["5 isr=1,2,3 leader=2", "11 isr=2,3 batch=10"]),
        ("another batch", RESTART, ["5 isr=1", "9 isr= leader=-1"]),
        ("behind its registration", RESTART, ["5 isr=1", "13 isr= leader=-1 batch=10"]),
        ("another broker left", RESTART, ["5 isr=2 leader=2", "11 isr= leader=-1 batch=10"]),
        ("another one left, too", RESTART, ["5 isr=1,3", "11 isr= leader=-1 batch=10"]),
        ("an unclean election empties the ELR", RESTART, ["5 isr=1", "11 isr=2 leader=2 recovering batch=10"]),
        ("so does a new directory", RESTART, ["5 isr=2 elr=1 leader=2", "11 elr= dirs=d1,x,d3 batch=10"]),
        ("a reassignment took it off", RESTART, ["5 isr=2 elr=1 leader=2", "11 elr= replicas=2,3 batch=10"]),
        ("min ISR is a guess, and 1 may be it", RESTART, ["5 isr=1,2 min=1 assumed", "11 isr=2 batch=10"]),
        ("ELR is off", [register(1, "a"), register(12, "b", batch=10)], ["5 isr=1", "11 isr= leader=-1 batch=10"]),
        ("ELR was switched off", [elr(0), elr(7, 0), *RESTART[1:]], ["5 isr=1", "11 isr= leader=-1 batch=10"]),
        ("eligible no more", RESTART, ["5 isr=2 elr=1 leader=2", "8 elr="]),
        ("a snapshot's state follows from nothing", RESTART, ["5 isr=1", "11 checkpoint isr= leader=-1 batch=10"]),
    ],
)
def test_what_proves_nothing_is_unknown(why: str, records: list[Row], lines: list[str]) -> None:
    assert last_class(sorted(records, key=lambda r: r["offset"]), states(*lines)) == ("unknown", []), why


def test_proofs_that_contradict_each_other_prove_nothing() -> None:
    other = states("5 isr=2 elr=1 leader=2", partition=1)
    assert last_class(RESTART, states("5 isr=1", "11 isr= leader=-1 batch=10"), other) == ("unknown", [5, 11])


def test_the_same_incarnation_is_the_same_session() -> None:
    records = [elr(0), register(1, "a"), register(12, "a", batch=10)]
    rows = history_rows(records, states("5 isr=1", "11 isr= leader=-1 batch=10"))
    assert {r["restart_class"] for r in rows} == {"first"}


def test_a_clean_shutdown_file_counts_for_the_session_that_it_names() -> None:
    file = {"broker_id": 1, "broker_epoch": 1, "capture": "c", "path": ".kafka_cleanshutdown", "sha256": "ff"}
    row = history_rows(RESTART, files=(file,))[-1]
    assert (row["restart_class"], row["clean_shutdown_broker_epoch"]) == ("clean", 1)
    assert (row["clean_shutdown_path"], row["clean_shutdown_sha256"]) == (".kafka_cleanshutdown", "ff")
    assert last_class(RESTART, files=({**file, "broker_epoch": 12},)) == ("unknown", [])
    assert last_class(RESTART, files=({**file, "broker_id": 2},)) == ("unknown", [])
    assert last_class(RESTART, files=({**file, "broker_epoch": None},)) == ("unknown", [])
    # The log knows better: it may have started and died since.
    assert last_class(RESTART, states("5 isr=1", "11 isr= leader=-1 batch=10"), files=(file,))[0] == "unclean"


def test_a_broker_that_a_snapshot_brings_was_perhaps_there_before() -> None:
    records = [{**register(4, "a"), "place": 3}, {**register(4, "b", broker=2), "place": 4}, register(9, "c", broker=3)]
    rows = history_rows(records)
    assert [(r["broker_id"], r["restart_class"], r["origin"]) for r in rows] == [
        (1, "unknown", "checkpoint"),
        (2, "unknown", "checkpoint"),
        (3, "unknown", "log"),
    ]


def test_the_evidence_of_a_broker_with_many_partitions_is_bounded() -> None:
    many = [states("5 isr=1", "11 isr= leader=-1 batch=10", partition=p) for p in range(EVIDENCE_LIMIT + 5)]
    found = session_evidence(together(*many), registrations(RESTART))
    assert found.schema == SESSION_EVIDENCE
    assert len(found) == EVIDENCE_LIMIT


class Controller:
    """A controller with four brokers and two partitions, as Kafka 4.0 and later write their log, and what it knew when
    a broker registered: the truth."""

    REPLICAS = ([1, 2, 3], [3, 4, 1, 2])

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.offset, self.batch = rng, 10, 10
        self.min_isr, self.allowed = rng.randint(1, 3), rng.random() < 0.4
        # 4.0 elects a last known leader who is fenced.
        self.any_last_known = rng.random() < 0.3
        self.active = {1, 2, 3, 4}
        self.crashed: set[int] = set()
        self.truth: dict[int, str] = {}
        self.records = [elr(0), *(register(b, f"{b}", broker=b) for b in self.active)]
        self.epochs = {b: b for b in self.active}
        self.parts: list[Row] = [
            {"isr": set(r), "elr": set(), "lke": [], "leader": r[0], "replicas": r, "dirs": 0} for r in self.REPLICAS
        ]
        self.lines: list[list[str]] = [[], []]
        for n in range(len(self.parts)):
            self.write(n)

    def next(self) -> int:
        self.offset += 1
        return self.offset

    def write(self, n: int, offset: int = 0) -> None:
        part = self.parts[n]
        words = [f"{k}={','.join(map(str, sorted(part[k])))}" for k in ("isr", "elr", "lke")]
        words += ["replicas=" + ",".join(map(str, part["replicas"])), f"leader={part['leader']}", f"min={self.min_isr}"]
        words += ["dirs=" + ",".join(f"d{b}.{part['dirs']}" for b in part["replicas"]), f"batch={self.batch}"]
        self.lines[n].append(f"{offset or self.next()} {' '.join(words)}")

    def build(self, n: int, isr: set[int], active: set[int], unclean: int = 0) -> None:
        """PartitionChangeBuilder.build for a wanted ISR."""
        part, isr = self.parts[n], set(isr)
        eligible = set() if len(isr) >= self.min_isr else (part["elr"] | part["isr"]) - isr - {unclean}
        would_do = [b for b in part["replicas"] if b in active and b in (isr or eligible)]
        known = part["lke"] if not isr and not eligible and len(part["lke"]) == 1 else []
        known = [b for b in known if b in active or self.any_last_known]
        strangers = [b for b in part["replicas"] if b in active and self.allowed]
        leader = part["leader"]
        if leader not in would_do:
            leader = next(iter([*would_do, *known, *strangers]), -1)
            if leader in eligible and would_do:
                isr, eligible = {leader}, eligible - {leader}
            elif leader >= 0 and not would_do:
                isr, eligible = {leader}, set()
        last_known = [] if leader >= 0 else part["lke"]
        last_known = [part["leader"]] if not isr and part["leader"] >= 0 else last_known
        after = {**part, "isr": isr, "elr": eligible, "lke": last_known, "leader": leader}
        if after != part:
            self.parts[n] = after
            self.write(n)

    def with_broker(self, name: str, broker: int) -> list[int]:
        return [n for n, part in enumerate(self.parts) if broker in part[name]]

    def step(self) -> None:
        if self.rng.random() < 0.5:  # else it is in the batch of the event before
            self.batch = self.offset + 1
        broker, what = self.rng.choice([1, 2, 3, 4]), self.rng.choice(["go", "go", "come", "come", "lead", "other"])
        if what == "go" and broker in self.active:
            self.crashed |= {broker} if self.rng.random() < 0.5 else set()
            # Else it is back before anyone notices.
            if self.rng.random() < 0.7:
                self.active -= {broker}
                for n in self.with_broker("isr", broker):
                    self.build(n, self.parts[n]["isr"] - {broker}, self.active)
            else:
                self.register(broker)
        elif what == "come" and broker not in self.active:
            self.register(broker)
            self.active |= {broker}
            for n in [n for n, part in enumerate(self.parts) if part["leader"] < 0]:
                self.build(n, self.parts[n]["isr"], self.active)
        elif what == "lead":
            n = self.rng.randrange(len(self.parts))
            if self.parts[n]["leader"] >= 0:
                some = {b for b in self.parts[n]["replicas"] if b in self.active and self.rng.random() < 0.6}
                self.build(n, some | {self.parts[n]["leader"]}, self.active)
        elif what == "other":
            self.other(self.rng.randrange(len(self.parts)))

    def other(self, n: int) -> None:
        """A request that has no ELR in mind, an administrator's, or another min ISR (which clears every ELR)."""
        which = self.rng.choice(["directory", "election", "min"])
        if which == "directory":
            self.parts[n] = {**self.parts[n], "elr": set(), "dirs": self.parts[n]["dirs"] + 1}
            self.write(n)
        elif which == "election":
            self.build(n, self.parts[n]["isr"], self.active)
        else:
            self.min_isr, offset = self.rng.randint(1, 3), self.next()
            self.records.append(record(offset, "CLEAR_ELR_RECORD", self.batch, topicName="t"))
            for m, part in enumerate(self.parts):
                if part["elr"] or part["lke"]:
                    self.parts[m] = {**part, "elr": set(), "lke": []}
                    self.write(m, offset)

    def register(self, broker: int) -> None:
        unclean, self.active = broker in self.crashed, self.active - {broker}
        self.crashed -= {broker}
        for name in ("isr", "elr") if unclean else ("isr",):
            for n in self.with_broker(name, broker):
                self.build(n, self.parts[n]["isr"] - {broker}, self.active, broker if unclean else 0)
        offset = self.next()
        self.truth[offset] = "unclean" if unclean else "clean"
        self.records.append(register(offset, f"{broker}.{offset}", broker=broker, batch=self.batch))


def judged(controller: Controller) -> list[tuple[str, str]]:
    """(what is said, what is true) of every restart."""
    partitions = [states(*rows, partition=n) for n, rows in enumerate(controller.lines)]
    rows = history_rows(controller.records, *partitions)
    return [(r["restart_class"], controller.truth[r["offset"]]) for r in rows if r["offset"] in controller.truth]


def life(seed: int) -> Controller:
    controller = Controller(random.Random(seed))
    for _ in range(controller.rng.randint(5, 60)):
        controller.step()
    return controller


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**40))
def test_whatever_happens_no_restart_is_called_what_it_was_not(seed: int) -> None:
    for said, true in judged(life(seed)):
        assert said in (true, "unknown")


def test_the_simulated_controller_is_worth_asking() -> None:
    found = [pair for seed in range(60) for pair in judged(life(seed))]
    for kind in ("clean", "unclean"):
        assert found.count((kind, kind)) > 20
        assert found.count(("unknown", kind)) > 20


def test_of_several_copies_of_a_file_the_first_by_name_is_named() -> None:
    """A row of the lake depends on the evidence, not on the order in which its files are read."""
    copies = [
        {"broker_id": 1, "broker_epoch": 1, "capture": "c", "path": f"{n}/.kafka_cleanshutdown", "sha256": "ff"}
        for n in (3, 1, 2)
    ]
    for files in (copies, copies[::-1]):
        assert history_rows(RESTART, files=tuple(files))[-1]["clean_shutdown_path"] == "1/.kafka_cleanshutdown"
