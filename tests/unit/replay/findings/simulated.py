"""A partition that lives: a few replicas with real logs, a controller, and somebody who copies files now and then.

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

from replay.cluster.brokers import BrokerTimeline
from replay.cluster.facts import Clock, ClusterFacts
from tests.support.replica_log import ReplicaLog, common
from tests.support.scenario import TOPIC_ID, elr_levels, evidence, sessions, states

Row = dict[str, Any]
Step = tuple[str, int, int]
Gap = tuple[int, int] | None

# Seconds between two steps; brokers write their high watermarks at least this often.
GAPS = (2, 3, 5, 20, 70)
CHECKPOINT_INTERVAL = 6
SESSION_TIMEOUT = 9


@dataclass(frozen=True)
class Setup:
    """brokers: the replicas' ids. skews: by how many seconds each one's clock is fast. unclean: whether the config
    allows unclean elections; else an administrator may still ask for one."""

    brokers: tuple[int, ...] = (1, 2, 3)
    min_isr: int = 2
    elr: bool = False
    unclean: bool = False
    skews: tuple[int, ...] = (0, 0, 0)
    topic_id: str = TOPIC_ID

    @property
    def clock_error(self) -> int:
        return max(0, *self.skews) - min(0, *self.skews)


@dataclass
class Replica(ReplicaLog):
    """file: its line of replication-offset-checkpoint, None if that file is lost. led: the epoch in which it believes
    to lead, with the ISR as it knows it. session: broker epoch; clean: it stopped cleanly. ended: its log when each
    session ended."""

    high_watermark: int = 0
    file: int | None = 0
    alive: bool = True
    connected: bool = True
    led: int | None = None
    isr: list[int] = field(default_factory=list)
    session: int = 1
    clean: bool = False
    ended: dict[int, list[int]] = field(default_factory=dict)

    @property
    def able(self) -> bool:
        return self.alive and self.connected

    def cut(self, end: int) -> None:
        super().cut(end)
        self.high_watermark = min(self.high_watermark, self.end)


@dataclass
class Truth:
    """What an election lost: records below the high watermark that the winner did not have, and from where on; what
    each replica would have lost; unacked: records of the last leader's log, acknowledged by all or not."""

    lost: int
    first: int | None
    would_lose: dict[int, int]
    unacked: int


def _offset(line: str) -> int:
    return int(line.split()[0])


class Partition:
    """The simulation: what the steps (name, a number that picks broker and time, how much) make of it. truth: by
    metadata offset of the election. former: who led last, with its session."""

    def __init__(self, setup: Setup, steps: list[Step]) -> None:
        self.setup, self.steps, self.now = setup, steps, 10
        self.skews = dict(zip(setup.brokers, setup.skews, strict=False))
        self.replicas = {b: Replica() for b in setup.brokers}
        self.leader, self.epoch = setup.brokers[0], 0
        self.isr: list[int] = list(setup.brokers)
        self.elrs: list[int] = []
        self.lke: list[int] = []
        self.recovering = False
        self.committed: list[int] = []
        self.records = 0
        self.history: list[str] = []
        self.sessions = [f"1 {what} {b} i1" for b in setup.brokers for what in ("register", "unfence")]
        self.copies: list[str] = []
        self.truth: dict[int, Truth] = {}
        first = self.replicas[self.leader]
        first.assign(0)
        first.led, first.isr, self.former = 0, self.isr, (self.leader, first.session)
        self._record()
        for name, a, b in steps:
            gap = GAPS[a % len(GAPS)]
            self.now += gap
            if gap > CHECKPOINT_INTERVAL:
                self._checkpoint(0, 0)
            getattr(self, f"_{name}")(setup.brokers[a % len(setup.brokers)], b)

    # What others get to see.

    def table(self, gap: Gap = None) -> pa.Table:
        """The history. gap: what was logged at from < offset < to is missing, and a snapshot tells the state at
        `to`."""
        kept = self.history
        if gap is not None:
            start, end = gap
            kept = [line for line in self.history if not start < _offset(line) <= end]
            base = [line for line in self.history if _offset(line) <= end][-1:]
            kept += [f"{end} checkpoint {line.split(maxsplit=1)[1]}" for line in base]
        return states(*sorted(kept, key=_offset), topic_id=self.setup.topic_id)

    def session_lines(self, gap: Gap = None) -> list[str]:
        if gap is None:
            return self.sessions
        start, end = gap
        kept = [line for line in self.sessions if not start < _offset(line) <= end]
        for broker in map(str, self.setup.brokers):
            mine = [w for w in map(str.split, self.sessions) if w[2] == broker and int(w[0]) <= end]
            registered = [w for w in mine if w[1] == "register"][-1:]
            kept += [f"{end} {' '.join(words[1:])}" for words in (*registered, *mine[-1:])]
        return sorted(kept, key=_offset)

    def brokers(self, gap: Gap = None) -> BrokerTimeline:
        return sessions(*self.session_lines(gap))

    def evidence(self) -> list[Row]:
        rows = evidence(*self.copies, topic_id=self.setup.topic_id)
        # Of a log without a .kafka_cleanshutdown beside it nobody knows which session left it so.
        return [{**r, "broker_epoch": None} if r["broker_epoch"] == -1 else r for r in rows]

    def cluster(self, gap: Gap = None) -> ClusterFacts:
        clock = Clock(self.setup.clock_error * 1000)
        return ClusterFacts("simulated", self.brokers(gap), elr_levels(self.setup.elr), clock, self.now * 1000)

    # The controller.

    @property
    def min_isr(self) -> int:
        return min(self.setup.min_isr, len(self.setup.brokers))

    def _able(self) -> list[int]:
        return [b for b, replica in self.replicas.items() if replica.able]

    def _record(self) -> None:
        lists = (("replicas", self.setup.brokers), ("isr", self.isr), ("elr", self.elrs), ("lke", self.lke))
        words = " ".join(f"{name}={','.join(map(str, values))}" for name, values in lists)
        words += f" leader={self.leader} epoch={self.epoch} min={self.min_isr}"
        words += f" unclean={str(self.setup.unclean).lower()}@topic {'recovering' if self.recovering else 'recovered'}"
        self.history.append(f"{self.now} {words}")

    def _change(self, isr: list[int], leader: int, unclean_shutdown: int = -1) -> None:
        """PartitionChangeBuilder: the ELR takes in who leaves the ISR while it is below min ISR."""
        if self.setup.elr and len(isr) < self.min_isr:
            candidates = sorted(set(self.elrs) | set(self.isr))
            self.elrs = [b for b in candidates if b not in isr and b != unclean_shutdown]
        else:
            self.elrs = []
        if not self.setup.elr and not isr:
            isr = self.isr
        if leader < 0 <= self.leader:
            self.lke = [self.leader] if self.setup.elr else []
        if leader != self.leader:
            self.epoch += 1
        elected = leader >= 0 and leader != self.leader
        self.isr, self.leader = isr, leader
        self.lke = [] if leader >= 0 else self.lke
        self.recovering = self.recovering and len(isr) == 1
        self.now += 1
        self._record()
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
        last, session = self.former
        old = self.replicas[last].ended.get(session, self.replicas[last].log)
        unacked = len(old) - common(old, winner.log)
        self.truth[self.now] = Truth(lost[self.leader], first, lost, unacked)
        self.committed = winner.log[: max(have[self.leader], winner.high_watermark)]
        winner.assign(self.epoch)
        for replica in self.replicas.values():
            if replica.connected:
                replica.led = None
        winner.led, self.former = self.epoch, (self.leader, winner.session)

    def _elect_any(self, forced: bool = False) -> None:
        """Without a leader: a member of the ISR, one of the ELR, the last known leader; then anybody, if allowed."""
        able = self._able()
        if self.leader >= 0 or not able:
            return
        clean = [b for b in able if b in self.isr] or [b for b in able if b in self.elrs]
        if not self.isr and not self.elrs:
            clean = clean or [b for b in able if self.lke == [b]]
        if clean:
            self._change(self.isr if clean[0] in self.isr else clean[:1], clean[0])
        elif forced or self.setup.unclean:
            self.isr, self.elrs, self.recovering = [], [], True
            self._change(able[:1], able[0])
            self.elrs = []

    def _gone(self, broker: int) -> None:
        """It is fenced, or asks to be relieved of its leaderships: another one of the ISR leads, or nobody."""
        isr = [b for b in self.isr if b != broker]
        if broker in self.isr and not (self.isr == [broker] and self.leader < 0):
            able = [b for b in isr if self.replicas[b].able]
            stays = self.leader if self.leader != broker else -1
            self._change(isr, stays if stays >= 0 else able[0] if able else -1)

    def _session(self, what: str, broker: int, more: str = "") -> None:
        self.now += 1
        self.sessions.append(f"{self.now} {what} {broker} {more}".strip())

    # What can happen. broker: to whom; much: how much of it.

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
            if not stuck and (not self.setup.elr or len(replica.isr) >= self.min_isr):
                end = min(common(self.replicas[b].log, replica.log) for b in replica.isr)
                replica.high_watermark = max(replica.high_watermark, end)
            current = number == self.leader or (self.leader < 0 and replica.led == self.epoch - 1)
            if current and replica.high_watermark > len(self.committed):
                self.committed = replica.log[: replica.high_watermark]

    def _replicate(self, _: int, much: int) -> None:
        if self.leader < 0 or not self.replicas[self.leader].able:
            return
        leader = self.replicas[self.leader]
        followers = [r for b, r in self.replicas.items() if b != self.leader and r.able]
        for replica in followers:
            replica.follow(leader, None if much % 3 else 1)
        self._advance()
        for replica in followers:
            if common(replica.log, leader.log) == replica.end:
                replica.high_watermark = max(replica.high_watermark, min(leader.high_watermark, replica.end))

    def _checkpoint(self, _: int, __: int) -> None:
        for replica in self.replicas.values():
            if replica.alive:
                replica.file = replica.high_watermark

    def _capture(self, broker: int, much: int) -> None:
        """A round of copying: small files of every broker, and metrics where it runs. One may be left out."""
        for number, replica in self.replicas.items():
            if number != broker or not much % 2:
                self._copy(number, [f"leo={replica.end}"] if replica.alive else [])
        self.now += 1

    def _disk(self, broker: int, _: int) -> None:
        """One broker's disk is copied, running or not, with the end of its log."""
        replica = self.replicas[broker]
        if replica.end:
            left = replica.session if replica.clean and not replica.alive else -1
            self._copy(broker, [f"tail={replica.end}/{replica.epochs[-1]}/{left}"])
        self.now += 1

    def _copy(self, broker: int, more: list[str]) -> None:
        replica = self.replicas[broker]
        words = [] if replica.file is None else [f"hw={replica.file}"]
        words += [*(f"e{e}@{s}" for e, s in replica.entries), *more]
        self.copies.append(f"{self.now + self.skews[broker]} b{broker} {' '.join(words)}")

    def _kill(self, broker: int, much: int) -> None:
        """It stops, and its machine with it: the end of its log that was not flushed is gone. Its disk may be copied
        before the controller notices."""
        replica = self.replicas[broker]
        if replica.alive:
            replica.ended[replica.session] = list(replica.log)
            replica.log = replica.log[: max(replica.end - much % 5, replica.log_start)]
            replica.epochs = replica.epochs[: replica.end]
            self._down(broker, clean=False)
            if much % 3 == 0:
                self._disk(broker, 0)
                self.now += SESSION_TIMEOUT
            if replica.connected:
                self._fence(broker)

    def _stop(self, broker: int, _: int) -> None:
        """It shuts down cleanly: it leaves its leaderships first, if the controller hears of it."""
        replica = self.replicas[broker]
        if not replica.alive:
            return
        if replica.connected:
            self._session("shutdown", broker)
            self._gone(broker)
        replica.file = replica.high_watermark
        replica.ended[replica.session] = list(replica.log)
        self._down(broker, clean=True)
        if replica.connected:
            self._fence(broker)

    def _down(self, broker: int, clean: bool) -> None:
        replica = self.replicas[broker]
        replica.alive, replica.led, replica.clean = False, None, clean

    def _fence(self, broker: int) -> None:
        self._gone(broker)
        self._session("fence", broker)
        self._elect_any()

    def _isolate(self, broker: int, _: int) -> None:
        """The controller does not hear of it any more; it goes on as it was."""
        if self.replicas[broker].able:
            self.replicas[broker].connected = False
            self._fence(broker)

    def _return(self, broker: int, much: int) -> None:
        replica = self.replicas[broker]
        if replica.able:
            return
        replica.connected, replica.led = True, None
        if not replica.alive:
            replica.alive = True
            # A checkpoint file that got lost makes it start from the log's start (KAFKA-16452).
            replica.file = replica.log_start if replica.file is None else replica.file
            replica.high_watermark = replica.file
            replica.cut(replica.end)
            if not replica.clean and self.setup.elr and (broker in self.isr or broker in self.elrs):
                self._change([b for b in self.isr if b != broker], self.leader, unclean_shutdown=broker)
            self._session("register", broker, f"i{self.now}")
            replica.session = self.now
            if much % 5 == 0:
                self.now += 1
                self.copies.append(f"{self.now + self.skews[broker]} b{broker} leo=0")
        self._session("unfence", broker)
        self._elect_any()

    def _forget(self, broker: int, _: int) -> None:
        """The replication-offset-checkpoint of a broker that is down gets lost."""
        if not self.replicas[broker].alive:
            self.replicas[broker].file = None

    def _force(self, _: int, __: int) -> None:
        """An administrator asks for an unclean election."""
        self._elect_any(forced=True)

    def _shrink(self, broker: int, _: int) -> None:
        if self.leader >= 0 and broker in self.isr and broker != self.leader and self.replicas[self.leader].able:
            self._change([b for b in self.isr if b != broker], self.leader)

    def _expand(self, broker: int, _: int) -> None:
        if self.leader < 0 or broker in self.isr or not {broker, self.leader} <= set(self._able()):
            return
        leader, replica = self.replicas[self.leader], self.replicas[broker]
        if common(replica.log, leader.log) == replica.end >= max(leader.high_watermark, leader.entries[-1][1]):
            self._change(sorted([*self.isr, broker]), self.leader)

    def _elect(self, broker: int, _: int) -> None:
        """A preferred election: another member of the ISR takes over."""
        if self.leader >= 0 and broker in self.isr and broker != self.leader and self.replicas[broker].able:
            self._change(self.isr, broker)

    def _retain(self, broker: int, much: int) -> None:
        """Old records are deleted up to the high watermark."""
        replica = self.replicas[broker]
        start = min(replica.log_start + much, replica.high_watermark)
        if replica.alive and start > replica.log_start:
            replica.delete_before(start)
