"""One partition told as a story: tests.support.kip966_state with logs beside it, so that loss can be counted.

A step is a list of lines and what must be true after them. The lines:

    fence 0 1           the controller loses sight of the brokers
    crash 2 losing 8    as fence; the last 8 records of its log are gone
    register 2          it registers after an unclean shutdown, and is still fenced
    unfence 0 1         the brokers are back
    isr 1 2             the leader asks for this ISR
    maximal_isr 0 2     the leader wants to add to the ISR, and has not been answered
    produce all 5       a producer sends 5 records with acks=all (or 0, or 1)
    replicate 1 2       the followers fetch: cut back to where they agree with the leader, then copy
    min_isr 1           min.insync.replicas is changed
    ask balanced        what would a strategy, or a type of kafka-leader-election.sh, do now? (all who are alive answer)
    elect balanced      it is done; options of both: minimal=2, desired=1, and at=0, ms since the recovery began
    complete removing=0 adding=3    the reassignment ends; cancel adding=3: it is cancelled
    downgrade           metadata.version is set to one without ELR
    judge               which windows does detection find in the history and the files so far? (`windows`: of each, in
                        order, leader, verdict, loss_min, loss_max, first_lost_offset; tests/support/story_windows.py)

After each line the leader advances the high watermark as far as it may.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from replay.arrow.ragged import PAD, Array
from replay.whatif.kip966_rules import BEFORE_ELR, DELIVERIES, UNCLEAN_RECOVERY_TIMEOUT_MS, election_type, strategy
from replay.whatif.unclean_recovery import NO_LEADER, Answers, Elections, elect
from tests.support import kip966_state
from tests.support.kip966_state import States
from tests.support.story_windows import Witness

WORDS = {"fence", "crash", "register", "unfence", "isr", "maximal_isr", "produce", "replicate", "min_isr"}
WORDS |= {"ask", "elect", "complete", "cancel", "downgrade", "judge"}


@dataclass(frozen=True, slots=True)
class Record:
    number: int
    leader_epoch: int
    acks: str


def row(members: list[int]) -> Array:
    return np.array([members or [PAD]], dtype=np.int64)


def ids(lists: Array) -> list[int]:
    return [int(b) for b in lists[0] if b != PAD]


@dataclass(slots=True)
class Story:
    """The partition now. log, known_high_watermark: by broker. committed: all that was ever below a high watermark.
    witness: what is left behind of it all."""

    states: States
    delivery: Any
    log: dict[int, list[Record]]
    known_high_watermark: dict[int, int]
    witness: Witness
    maximal_isr: list[int] = field(default_factory=list)
    committed: set[Record] = field(default_factory=set)
    produced: int = 0
    said: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def begin(cls, delivery: str, start: dict[str, Any]) -> Story:
        """All brokers are alive, and all logs hold the same committed records (acks=all), `records` of them."""
        replicas, number = list(start["replicas"]), int(start["records"])
        records = [Record(n, 0, "all") for n in range(number)]
        none = np.array([NO_LEADER])
        states = States(
            replicas=row(replicas),
            isr=row(start["isr"]),
            elr=row([]),
            last_known_elr=row([]),
            alive=row(replicas),
            leader=np.array([start["leader"]]),
            last_known_leader=none,
            leader_epoch=np.array([0]),
            min_insync_replicas=np.array([start["min_insync_replicas"]]),
        )
        logs = {broker: list(records) for broker in replicas}
        marks = dict.fromkeys(replicas, number)
        witness = Witness(replicas, DELIVERIES[delivery].keeps_elr)
        story = cls(states, DELIVERIES[delivery], logs, marks, witness, committed=set(records), produced=number)
        story._show("begin")
        return story

    @property
    def leader(self) -> int:
        return int(self.states.leader[0])

    def tell(self, line: str) -> None:
        """Errors: ValueError for a line that is not understood."""
        word, *rest = line.split()
        self.said = {}
        if word not in WORDS:
            raise ValueError(f"not understood: {line!r}")
        getattr(self, f"_{word}")(*rest)
        self._advance()
        self._show(line)

    def observed(self) -> dict[str, Any]:
        """What a story can state; lists without an order are sorted."""
        states = self.states
        facts = {name: sorted(ids(getattr(states, name))) for name in ("isr", "elr", "last_known_elr", "replicas")}
        facts |= {name: int(getattr(states, name)[0]) for name in ("leader", "last_known_leader", "leader_epoch")}
        facts["log_end"] = {str(broker): len(log) for broker, log in sorted(self.log.items())}
        if self.leader != NO_LEADER:
            facts["high_watermark"] = self.known_high_watermark[self.leader]
            facts |= self._lost(self.leader)
        return facts | self.said

    def _show(self, line: str) -> None:
        """Let the witness see what everybody has now."""
        states, minimum = self.states, int(kip966_state.min_isr(self.states)[0])
        lists = {"replicas": states.replicas, "isr": states.isr, "elr": states.elr, "lke": states.last_known_elr}
        words = " ".join(f"{name}={','.join(map(str, ids(members)))}" for name, members in lists.items())
        words += f" leader={self.leader} epoch={int(states.leader_epoch[0])} min={minimum}"
        logs = {broker: [(r.number, r.leader_epoch) for r in log] for broker, log in self.log.items()}
        self.witness.look(line, words, self.leader, int(states.leader_epoch[0]), logs, self.known_high_watermark)

    def _lost(self, leader: int) -> dict[str, int]:
        """Committed records that its log does not have: of all, and of those that were sent with acks=all."""
        lost = self.committed - set(self.log[leader])
        return {"lost": len(lost), "lost_of_acks_all": len([r for r in lost if r.acks == "all"])}

    def _step(self, **lists: list[int]) -> None:
        events = replace(kip966_state.nothing_happens(self.states), **{n: row(m) for n, m in lists.items()})
        self._become(kip966_state.step(self.states, events, self.delivery))

    def _become(self, states: States) -> None:
        if int(states.leader[0]) != self.leader:
            self.maximal_isr = []
        self.states = states

    def _fence(self, *brokers: str) -> None:
        self._step(fenced=[int(b) for b in brokers])

    def _unfence(self, *brokers: str) -> None:
        self._step(unfenced=[int(b) for b in brokers])

    def _register(self, broker: str) -> None:
        self._step(unclean_shutdown=[int(broker)])

    def _crash(self, broker: str, losing: str, count: str) -> None:
        if losing != "losing":
            raise ValueError(f"not understood: {losing!r}")
        log = self.log[int(broker)]
        del log[len(log) - int(count) :]
        self.known_high_watermark[int(broker)] = min(self.known_high_watermark[int(broker)], len(log))
        self._step(fenced=[int(broker)])

    def _isr(self, *brokers: str) -> None:
        self.maximal_isr = []
        self._step(proposed_isr=[int(b) for b in brokers])

    def _maximal_isr(self, *brokers: str) -> None:
        self.maximal_isr = [int(b) for b in brokers]

    def _produce(self, acks: str, count: str) -> None:
        if acks not in ("0", "1", "all"):
            raise ValueError(f"not understood: acks={acks!r}")
        accepted = self.leader != NO_LEADER
        if acks == "all":
            accepted = bool(kip966_state.accepts_acks_all(self.states)[0])
        self.said = {"accepted": accepted}
        if accepted:
            epoch, first = int(self.states.leader_epoch[0]), self.produced
            self.log[self.leader] += [Record(n, epoch, acks) for n in range(first, first + int(count))]
            self.produced += int(count)

    def _replicate(self, *brokers: str) -> None:
        source = self.log[self.leader]
        for broker in map(int, brokers):
            self.log[broker] = list(source)
        self._advance()
        for broker in map(int, brokers):
            self.known_high_watermark[broker] = self.known_high_watermark[self.leader]

    def _min_isr(self, number: str) -> None:
        self.states = replace(self.states, min_insync_replicas=np.array([int(number)]))
        self._step()

    def _ask(self, name: str, *options: str) -> None:
        found = self._election(name, options)
        leader = int(found.leader[0])
        self.said = {"outcome": str(found.outcome[0]), "via": str(found.via[0]), "winner": leader}
        self.said |= {"tied": ids(found.tied), "waited_for": sorted(ids(found.waited_for))}
        self.said["data_loss_possible"] = bool(found.data_loss_possible[0])
        if leader != NO_LEADER:
            self.said["would_lose"] = self._lost(leader)["lost"]

    def _elect(self, name: str, *options: str) -> None:
        self._ask(name, *options)
        self._become(kip966_state.lead(self.states, self._election(name, options), self.delivery))

    def _election(self, name: str, options: tuple[str, ...]) -> Elections:
        given = {word: int(number) for word, number in (option.split("=") for option in options)}
        elapsed_ms = given.pop("at", UNCLEAN_RECOVERY_TIMEOUT_MS)
        names = {"minimal": "minimal_replicas", "desired": "desired_leader"}
        logs = [self.log[b] for b in ids(self.states.replicas)]
        zero = np.zeros((1, len(logs)), dtype=np.int64)
        answers = Answers(
            answered_ms=zero,
            broker_epoch=zero,
            current_leader_epoch=zero + self.states.leader_epoch[0],
            last_written_leader_epoch=row([log[-1].leader_epoch if log else -1 for log in logs]),
            log_end_offset=row([len(log) for log in logs]),
        )
        cases = kip966_state.cases_of(self.states, self.delivery, answers, elapsed_ms)
        cases = replace(cases, **{names[word]: np.array([number]) for word, number in given.items()})
        rule = election_type(name) if name.isupper() else strategy(name, self.delivery)
        return elect(cases, rule)

    def _complete(self, removing: str, adding: str) -> None:
        self._end(removing, "removing", adding)

    def _cancel(self, adding: str) -> None:
        self._end(adding, "adding")

    def _end(self, leaving: str, word: str, adding: str = "adding=") -> None:
        required = numbers(adding, "adding") if word == "removing" else []
        states, done = kip966_state.end_reassignment(
            self.states, row(numbers(leaving, word)), row(required), self.delivery
        )
        self._become(states)
        self.said = {"done": bool(done[0])}

    def _judge(self) -> None:
        self.said = {"windows": self.witness.windows()}

    def _downgrade(self) -> None:
        self.delivery = BEFORE_ELR

    def _advance(self) -> None:
        if self.leader == NO_LEADER:
            return
        ends = row([len(self.log[b]) for b in ids(self.states.replicas)])
        before = np.array([self.known_high_watermark[self.leader]])
        mark = kip966_state.advance_high_watermark(self.states, before, row(self.maximal_isr), ends, self.delivery)
        self.known_high_watermark[self.leader] = int(mark[0])
        self.committed |= set(self.log[self.leader][: int(mark[0])])


def numbers(text: str, word: str) -> list[int]:
    """removing=0,1"""
    name, _, values = text.partition("=")
    if name != word:
        raise ValueError(f"not understood: {text!r}")
    return [int(v) for v in values.split(",") if v]
