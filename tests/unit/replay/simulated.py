"""A partition that lives: three replicas with real logs, a controller, and somebody who copies files now and then.

It knows what nobody can see from outside, the truth: which records were below the high watermark, and which of them
each new leader did not have. The tests hold verdicts from the copied files against it. Brokers follow Kafka's rules: a
follower is cut back to where its log parts from the leader's, a leader writes its log end into its
leader-epoch-checkpoint, the high watermark is the least log end of the ISR and stands still below min ISR (on clusters
with ELR; others let it rise).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from replay.brokers import BrokerTimeline
from replay.cases import Cluster
from replay.offsets import Clock
from tests.support.scenario import evidence, sessions, states

Row = dict[str, Any]
Step = tuple[str, int, int]

REPLICAS = (1, 2, 3)
MIN_ISR = 2
OPERATIONS = (
    "produce",
    "produce",
    "replicate",
    "replicate",
    "checkpoint",
    "capture",
    "capture",
    "capture",
    "crash",
    "isolate",
    "return",
    "return",
    "shrink",
    "expand",
    "elect",
    "retain",
)
# Seconds between two of them; brokers write their high watermarks at least this often.
GAPS = (2, 3, 5, 20, 70)
CHECKPOINT_INTERVAL = 6


@dataclass
class Replica:
    """log: the record's number at every offset, from offset 0. entries: the leader-epoch-checkpoint. file: the
    replication-offset-checkpoint. led: the epoch in which it believes to lead, with the ISR as it knows it."""

    log: list[int] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    entries: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int = 0
    file: int = 0
    log_start: int = 0
    alive: bool = True
    connected: bool = True
    unflushed: int = 0
    led: int | None = None
    isr: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        return len(self.log)

    def assign(self, epoch: int) -> None:
        """Note that the epoch begins at the log's end (LeaderEpochFileCache.assign)."""
        if not any(e == epoch for e, _ in self.entries):
            self.entries = [(e, s) for e, s in self.entries if e < epoch and s < self.end] + [(epoch, self.end)]

    def cut(self, end: int) -> None:
        if end < self.end:
            self.log, self.epochs = self.log[:end], self.epochs[:end]
            self.entries = [(e, s) for e, s in self.entries if s < end]
            self.high_watermark = min(self.high_watermark, end)

    def append(self, record: int, epoch: int) -> None:
        self.assign(epoch)
        self.log.append(record)
        self.epochs.append(epoch)


@dataclass
class Truth:
    """What an election lost: records below the high watermark that the winner did not have, and from where on."""

    lost: int
    first: int | None
    would_lose: dict[int, int]


def common(left: list[int], right: list[int]) -> int:
    end = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        end += 1
    return end


def _offset(line: str) -> int:
    return int(line.split()[0])


class Partition:
    """The simulation. elr: whether the ELR feature is on; skews: by how many seconds each broker's clock is fast."""

    def __init__(self, elr: bool, skews: tuple[int, int, int], steps: list[Step]) -> None:
        self.elr, self.skews = elr, dict(zip(REPLICAS, skews, strict=True))
        self.now = 10
        self.replicas = {b: Replica() for b in REPLICAS}
        self.leader, self.epoch = 1, 0
        self.isr, self.elrs, self.lke = [1, 2, 3], [], []
        self.committed: list[int] = []
        self.records = 0
        self.history: list[str] = []
        self.sessions = [f"{b} {what} {b} i0" for b in REPLICAS for what in ("register", "unfence")]
        self.copies: list[str] = []
        self.truth: dict[int, Truth] = {}
        self.incarnations = dict.fromkeys(REPLICAS, 0)
        self.replicas[1].assign(0)
        self.replicas[1].led, self.replicas[1].isr = 0, [1, 2, 3]
        self._record(self.now)
        for name, a, b in steps:
            self.now += GAPS[a % len(GAPS)]
            if GAPS[a % len(GAPS)] > CHECKPOINT_INTERVAL:
                self._checkpoint(0, 0)
            getattr(self, f"_{name}")(REPLICAS[a % 3], b)

    # What others get to see.

    def table(self, gap: tuple[int, int] | None = None) -> pa.Table:
        """The history. gap: what was logged at from < offset < to is missing, and a snapshot tells the state at
        `to`."""
        if gap is None:
            return states(*self.history)
        start, end = gap
        kept = [line for line in self.history if not start < _offset(line) <= end]
        base = [line for line in self.history if _offset(line) <= end][-1:]
        kept += [f"{end} checkpoint {line.split(maxsplit=1)[1]}" for line in base]
        return states(*sorted(kept, key=_offset))

    def brokers(self, gap: tuple[int, int] | None = None) -> BrokerTimeline:
        if gap is None:
            return sessions(*self.sessions)
        start, end = gap
        kept = [line for line in self.sessions if not start < _offset(line) <= end]
        for broker in map(str, REPLICAS):
            mine = [w for w in map(str.split, self.sessions) if w[2] == broker and int(w[0]) <= end]
            registered = [w for w in mine if w[1] == "register"][-1:]
            kept += [f"{end} {' '.join(words[1:])}" for words in (*registered, *mine[-1:])]
        return sessions(*sorted(kept, key=_offset))

    def evidence(self) -> list[Row]:
        return evidence(*self.copies)

    def cluster(self, gap: tuple[int, int] | None = None) -> Cluster:
        error_ms = (max(self.skews.values()) - min([0, *self.skews.values()])) * 1000
        return Cluster("simulated", self.brokers(gap), lambda _: self.elr, Clock(error_ms), self.now * 1000)

    # The controller.

    def _record(self, offset: int) -> None:
        lists = (("isr", self.isr), ("elr", self.elrs), ("lke", self.lke))
        words = " ".join(f"{name}={','.join(map(str, values))}" for name, values in lists)
        self.history.append(f"{offset} {words} leader={self.leader} epoch={self.epoch} min={MIN_ISR}")

    def _change(self, isr: list[int], leader: int, unclean_shutdown: int = 0) -> None:
        """PartitionChangeBuilder: the ELR takes in who leaves the ISR while it is below min ISR."""
        if self.elr and len(isr) < MIN_ISR:
            candidates = sorted(set(self.elrs) | set(self.isr))
            self.elrs = [b for b in candidates if b not in isr and b != unclean_shutdown]
        else:
            self.elrs = []
        if not self.elr and not isr:
            isr = self.isr
        if leader < 0 and self.leader >= 0:
            self.lke = [self.leader] if self.elr else []
        if leader != self.leader:
            self.epoch += 1
        elected = leader >= 0 and leader != self.leader
        self.isr, self.leader = isr, leader
        self.lke = [] if leader >= 0 else self.lke
        self.now += 1
        self._record(self.now)
        if elected:
            self._lead()
        if leader >= 0:
            self.replicas[leader].isr = isr
            self._advance()

    def _lead(self) -> None:
        winner = self.replicas[self.leader]
        have = {b: common(r.log, self.committed) for b, r in self.replicas.items()}
        lost = {b: len(self.committed) - end for b, end in have.items()}
        first = have[self.leader] if lost[self.leader] else None
        self.truth[self.now] = Truth(lost[self.leader], first, lost)
        self.committed = winner.log[: max(have[self.leader], winner.high_watermark)]
        winner.assign(self.epoch)
        for replica in self.replicas.values():
            if replica.connected:
                replica.led = None
        winner.led = self.epoch

    def _fenced(self, broker: int) -> None:
        isr = [b for b in self.isr if b != broker]
        if broker in self.isr and not (self.isr == [broker] and self.leader < 0):
            able = [b for b in REPLICAS if b in isr and self._able(b)]
            stays = self.leader if self.leader != broker else -1
            self._change(isr, stays if stays >= 0 else able[0] if able else -1)
        self.now += 1
        self.sessions.append(f"{self.now} fence {broker}")

    def _able(self, broker: int) -> bool:
        return self.replicas[broker].alive and self.replicas[broker].connected

    def _unfenced(self, broker: int, allow_unclean: bool) -> None:
        self.now += 1
        self.sessions.append(f"{self.now} unfence {broker}")
        if self.leader >= 0:
            return
        if broker in self.isr:
            self._change(self.isr, broker)
        elif not self.isr and (broker in self.elrs or (self.lke == [broker] and not self.elrs)):
            self._change([broker], broker)
        elif allow_unclean:
            self.isr = []
            self.elrs = []
            self._change([broker], broker)
            self.elrs = []

    # What can happen. a: a broker; b: how much of it.

    def _produce(self, broker: int, much: int) -> None:
        """Whoever believes to lead takes records: the leader, or one that is cut off and does not know better."""
        replica = self.replicas[self.leader if self.leader >= 0 and much % 4 else broker]
        if replica.alive and replica.led is not None:
            for _ in range(much % 5 + 1):
                self.records += 1
                replica.append(self.records, replica.led)
        self._advance()

    def _advance(self) -> None:
        """High watermarks of those who believe to lead. What the last real leader promised counts until the next
        one."""
        for number, replica in self.replicas.items():
            if not replica.alive or replica.led is None:
                continue
            # Nobody fetches from one that is cut off: it can only go on alone.
            stuck = number != self.leader and replica.isr != [number]
            if not stuck and (not self.elr or len(replica.isr) >= MIN_ISR):
                end = min(common(self.replicas[b].log, replica.log) for b in replica.isr)
                replica.high_watermark = max(replica.high_watermark, end)
            current = number == self.leader or (self.leader < 0 and replica.led == self.epoch - 1)
            if current and replica.high_watermark > len(self.committed):
                self.committed = replica.log[: replica.high_watermark]

    def _replicate(self, _: int, much: int) -> None:
        if self.leader < 0 or not self._able(self.leader):
            return
        leader = self.replicas[self.leader]
        for number, replica in self.replicas.items():
            if number != self.leader and self._able(number):
                replica.cut(common(replica.log, leader.log))
                for offset in range(replica.end, leader.end if much % 3 else min(leader.end, replica.end + 1)):
                    replica.append(leader.log[offset], leader.epochs[offset])
        self._advance()
        for number, replica in self.replicas.items():
            if number != self.leader and self._able(number) and common(replica.log, leader.log) == replica.end:
                replica.high_watermark = max(replica.high_watermark, min(leader.high_watermark, replica.end))

    def _checkpoint(self, _: int, __: int) -> None:
        for replica in self.replicas.values():
            if replica.alive:
                replica.file = replica.high_watermark

    def _capture(self, broker: int, much: int) -> None:
        for number, replica in self.replicas.items():
            if number == broker and much % 2:
                continue
            words = [f"hw={replica.file}", *(f"e{e}@{s}" for e, s in replica.entries)]
            words += [f"leo={replica.end}"] if replica.alive else []
            self.copies.append(f"{self.now + self.skews[number]} b{number} {' '.join(words)}")
        self.now += 1

    def _crash(self, broker: int, much: int) -> None:
        """It stops; how much of its log is lost shows when it returns."""
        if not self.replicas[broker].alive:
            return
        self.replicas[broker].alive = False
        self.replicas[broker].led = None
        self.replicas[broker].unflushed = much % 4
        if self.replicas[broker].connected:
            self._fenced(broker)

    def _isolate(self, broker: int, _: int) -> None:
        """The controller does not hear of it any more; it goes on as it was."""
        if self._able(broker):
            self.replicas[broker].connected = False
            self._fenced(broker)

    def _return(self, broker: int, much: int) -> None:
        replica = self.replicas[broker]
        if replica.alive and replica.connected:
            return
        replica.connected, replica.led = True, None
        if not replica.alive:
            replica.alive = True
            lost = min(replica.unflushed, replica.end - replica.log_start)
            replica.cut(replica.end - lost)
            # A checkpoint file that got lost makes it start from the log's start (KAFKA-16452).
            replica.file = replica.log_start if much % 7 == 0 else replica.file
            replica.high_watermark = min(replica.file, replica.end)
            if lost and self.elr and (broker in self.isr or broker in self.elrs):
                self._change([b for b in self.isr if b != broker], self.leader, unclean_shutdown=broker)
            self.incarnations[broker] += 1
            self.now += 1
            self.sessions.append(f"{self.now} register {broker} i{self.incarnations[broker]}")
            if much % 5 == 0:
                self.now += 1
                self.copies.append(f"{self.now + self.skews[broker]} b{broker} leo=0")
        self._unfenced(broker, allow_unclean=much % 2 == 0)

    def _shrink(self, broker: int, _: int) -> None:
        if self.leader >= 0 and broker in self.isr and broker != self.leader and self._able(self.leader):
            self._change([b for b in self.isr if b != broker], self.leader)

    def _expand(self, broker: int, _: int) -> None:
        if self.leader < 0 or broker in self.isr or not self._able(broker) or not self._able(self.leader):
            return
        leader, replica = self.replicas[self.leader], self.replicas[broker]
        if common(replica.log, leader.log) == replica.end >= max(leader.high_watermark, leader.entries[-1][1]):
            self._change(sorted([*self.isr, broker]), self.leader)

    def _elect(self, broker: int, _: int) -> None:
        """A preferred election, or one while the leader shuts down: an ISR member takes over."""
        if self.leader >= 0 and broker in self.isr and broker != self.leader and self._able(broker):
            self._change(self.isr, broker)

    def _retain(self, broker: int, much: int) -> None:
        """Old records are deleted: the first line of the leader-epoch-checkpoint moves up with the log's start."""
        replica = self.replicas[broker]
        start = min(replica.log_start + much, replica.high_watermark)
        if replica.alive and start > replica.log_start:
            replica.log_start = start
            gone = [e for e in replica.entries if e[1] <= start]
            if gone:
                replica.entries = [(gone[-1][0], start), *(e for e in replica.entries if e[1] > start)]
