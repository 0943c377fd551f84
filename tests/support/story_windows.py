"""What a story's controller and brokers leave behind, and the windows that detection finds in it.

Every line of a story takes a minute; half a minute later, and once more after that, the files of all brokers are
copied, and the metrics of those that have not crashed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from replay.bucket import detect
from replay.cluster.facts import Clock, ClusterFacts
from tests.simulator.logs import Log, common
from tests.support.scenario import elr_levels, evidence, offsets_table, sessions, states

Row = dict[str, Any]
# (record, leader epoch) at every offset, by broker.
Logs = dict[int, list[tuple[int, int]]]

MINUTE = 60


@dataclass(slots=True)
class Witness:
    """history, sessions, copies: lines of tests/support/scenario.py. files: lines of replication-offset-checkpoints.
    downgraded: since when ELR is off."""

    brokers: list[int]
    elr: bool
    now: int = 0
    replicas: dict[int, Log] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    crashed: set[int] = field(default_factory=set)
    started: dict[int, int] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    downgraded: int | None = None

    def look(self, line: str, state: str, leader: int, epoch: int, logs: Logs, marks: dict[int, int]) -> None:
        """After a line of the story. state: of the partition, as words of a history line; logs, marks: by broker the
        (record, leader epoch) at every offset, and the high watermark that it knows."""
        if not self.history:
            self.replicas = {broker: Log() for broker in self.brokers}
            self.sessions = [f"0 {what} {b} first" for b in self.brokers for what in ("register", "unfence")]
        self.now += MINUTE
        if not self.history or self.history[-1].split(maxsplit=1)[1] != state:
            self.history.append(f"{self.now} {state}")
        self._note(line.split())
        for broker, log in logs.items():
            self._write(self.replicas[broker], log)
        if leader >= 0:
            self.replicas[leader].assign(epoch, self.replicas[leader].end)
        self.files |= {b: mark for b, mark in marks.items() if b not in self.crashed}
        shown = dict(word.split("=") for word in state.split() if "=" in word)
        in_sync = len([b for b in shown["isr"].split(",") if b])
        for broker, replica in self.replicas.items():
            words = [f"hw={self.files[broker]}", *(f"e{e}@{s}" for e, s in replica.entries)]
            if broker not in self.crashed:
                words += [f"leo={replica.end}", f"proc={self.started.get(broker, -1)}"]
                if broker == leader:
                    words += [f"isr={in_sync}", f"under={int(in_sync < int(shown['min']))}"]
            self.copies += [
                f"{self.now + after} b{broker} {' '.join(words)}" for after in (MINUTE // 2, MINUTE * 3 // 4)
            ]

    def findings(self) -> list[Row]:
        """The judged windows, in order."""
        end_ms = (self.now + MINUTE) * 1000
        switches = () if self.downgraded is None else ((self.downgraded, False),)
        cluster = ClusterFacts("story", sessions(*self.sessions), elr_levels(self.elr, *switches), Clock(), end_ms)
        found = detect(states(*self.history), offsets_table(evidence(*self.copies)), cluster).findings.to_pylist()
        return sorted((f for f in found if f["kind"] == "hwm_regression"), key=lambda f: f["election_offset"])

    def windows(self) -> list[Row]:
        """What a story says of them; bounds that are open are left out."""
        names = {"leader": "recorded_leader"} | {n: n for n in ("verdict", "loss_min", "loss_max", "first_lost_offset")}
        return [{n: f[column] for n, column in names.items() if f[column] is not None} for f in self.findings()]

    def _note(self, words: list[str]) -> None:
        """Broker records, and crashes, of a line."""
        what, brokers = words[0], words[1:]
        if what == "crash":
            what, brokers = "fence", brokers[:1]
            self.crashed.add(int(brokers[0]))
        if what in ("fence", "unfence", "register"):
            self.sessions += [f"{self.now} {what} {broker} i{self.now}" for broker in brokers]
        if what == "register":
            self.crashed.discard(int(brokers[0]))
            self.started[int(brokers[0])] = self.now - 1
            # As a log is loaded: lines of epochs without records go.
            replica = self.replicas[int(brokers[0])]
            replica.cut(replica.end)
        if what == "downgrade":
            self.downgraded = self.now

    def _write(self, replica: Log, log: list[tuple[int, int]]) -> None:
        records, epochs = [number for number, _ in log], [epoch for _, epoch in log]
        same = common(replica.records, records)
        if same < replica.end:
            replica.cut(same)
        replica.append(records[same:], epochs[same:])
