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
    ask balanced        what would a strategy do now? (all who are alive answer)
    elect balanced      it is done
    elect DESIGNATION 1 an administrator designates broker 1
    complete removing=0 adding=3    the reassignment ends; cancel adding=3: it is cancelled
    downgrade           metadata.version is set to one without ELR
    judge               which windows does detection find in the history and the files so far? (`windows`: of each, in
                        order, leader, verdict, loss_min, loss_max, first_lost_offset; tests/support/story_windows.py)

After each line the leader advances the high watermark as far as it may.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from replay.whatif.recovery_policies import PolicyOutcome
from tests.support import kip966_state
from tests.support.kip966_state import BEFORE_ELR, DELIVERIES, NO_LEADER, Delivery, Event, State
from tests.support.story_windows import Witness

WORDS = {"fence", "crash", "register", "unfence", "isr", "maximal_isr", "produce", "replicate", "min_isr"}
WORDS |= {"ask", "elect", "complete", "cancel", "downgrade", "judge"}


@dataclass(frozen=True, slots=True)
class Record:
    number: int
    leader_epoch: int
    acks: str


@dataclass(slots=True)
class Story:
    """The partition now. log, known_high_watermark: by broker. committed: all that was ever below a high watermark.
    witness: what is left behind of it all."""

    state: State
    delivery: Delivery
    log: dict[int, list[Record]]
    known_high_watermark: dict[int, int]
    witness: Witness
    maximal_isr: frozenset[int] = frozenset()
    committed: set[Record] = field(default_factory=set)
    produced: int = 0
    said: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def begin(cls, delivery: str, start: dict[str, Any]) -> Story:
        """All brokers are alive, and all logs hold the same committed records (acks=all), `records` of them."""
        replicas, number = list(start["replicas"]), int(start["records"])
        records = [Record(n, 0, "all") for n in range(number)]
        state = State(
            replicas=tuple(replicas),
            isr=frozenset(start["isr"]),
            elr=frozenset(),
            last_known_elr=frozenset(),
            alive=frozenset(replicas),
            leader=start["leader"],
            last_known_leader=NO_LEADER,
            leader_epoch=0,
            min_insync_replicas=start["min_insync_replicas"],
        )
        logs = {broker: list(records) for broker in replicas}
        marks = dict.fromkeys(replicas, number)
        witness = Witness(replicas, DELIVERIES[delivery].keeps_elr)
        story = cls(state, DELIVERIES[delivery], logs, marks, witness, committed=set(records), produced=number)
        story._show("begin")
        return story

    @property
    def leader(self) -> int:
        return self.state.leader

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
        facts: dict[str, Any] = {
            name: sorted(getattr(self.state, name)) for name in ("isr", "elr", "last_known_elr", "replicas")
        }
        facts |= {name: getattr(self.state, name) for name in ("leader", "last_known_leader", "leader_epoch")}
        facts["log_end"] = {str(broker): len(log) for broker, log in sorted(self.log.items())}
        if self.leader != NO_LEADER:
            facts["high_watermark"] = self.known_high_watermark[self.leader]
            facts |= self._lost(self.leader)
        return facts | self.said

    def _show(self, line: str) -> None:
        """Let the witness see what everybody has now."""
        state = self.state
        lists = {"replicas": state.replicas, "isr": state.isr, "elr": state.elr, "lke": state.last_known_elr}
        words = " ".join(f"{name}={','.join(map(str, members))}" for name, members in lists.items())
        words += f" leader={self.leader} epoch={state.leader_epoch} min={state.min_isr}"
        logs = {broker: [(r.number, r.leader_epoch) for r in log] for broker, log in self.log.items()}
        self.witness.look(line, words, self.leader, state.leader_epoch, logs, self.known_high_watermark)

    def _lost(self, leader: int) -> dict[str, int]:
        """Committed records that its log does not have: of all, and of those that were sent with acks=all."""
        lost = self.committed - set(self.log[leader])
        return {"lost": len(lost), "lost_of_acks_all": len([r for r in lost if r.acks == "all"])}

    def _step(self, **lists: frozenset[int]) -> None:
        self._become(kip966_state.step(self.state, Event(**lists), self.delivery))

    def _become(self, state: State) -> None:
        if state.leader != self.leader:
            self.maximal_isr = frozenset()
        self.state = state

    def _fence(self, *brokers: str) -> None:
        self._step(fenced=frozenset(map(int, brokers)))

    def _unfence(self, *brokers: str) -> None:
        self._step(unfenced=frozenset(map(int, brokers)))

    def _register(self, broker: str) -> None:
        self._step(unclean_shutdown=frozenset({int(broker)}))

    def _crash(self, broker: str, losing: str, count: str) -> None:
        if losing != "losing":
            raise ValueError(f"not understood: {losing!r}")
        log = self.log[int(broker)]
        del log[len(log) - int(count) :]
        self.known_high_watermark[int(broker)] = min(self.known_high_watermark[int(broker)], len(log))
        self._step(fenced=frozenset({int(broker)}))

    def _isr(self, *brokers: str) -> None:
        self.maximal_isr = frozenset()
        self._step(proposed_isr=frozenset(map(int, brokers)))

    def _maximal_isr(self, *brokers: str) -> None:
        self.maximal_isr = frozenset(map(int, brokers))

    def _produce(self, acks: str, count: str) -> None:
        if acks not in ("0", "1", "all"):
            raise ValueError(f"not understood: acks={acks!r}")
        accepted = self.leader != NO_LEADER
        if acks == "all":
            accepted = self.state.accepts_acks_all
        self.said = {"accepted": accepted}
        if accepted:
            epoch, first = self.state.leader_epoch, self.produced
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
        self.state = replace(self.state, min_insync_replicas=int(number))
        self._step()

    def _ask(self, name: str, *options: str) -> None:
        found = self._election(name, *options)
        leader = found.tied[0] if found.tied else NO_LEADER
        self.said = {"outcome": found.outcome, "via": found.via, "winner": leader}
        self.said |= {"tied": list(found.tied), "waited_for": sorted(found.waited_for)}
        if leader != NO_LEADER:
            self.said["data_loss_possible"] = leader not in self.state.isr | self.state.elr
            self.said["would_lose"] = self._lost(leader)["lost"]

    def _elect(self, name: str, *options: str) -> None:
        self._ask(name, *options)
        self._become(kip966_state.lead(self.state, self._election(name, *options), self.delivery))

    def _election(self, name: str, *desired: str) -> PolicyOutcome:
        if name == "DESIGNATION":
            return kip966_state.designate(self.state, *map(int, desired))
        if name not in self.delivery.strategies:
            raise ValueError(f"{name!r} is not a strategy of this delivery")
        logs = {b: (log[-1].leader_epoch if log else -1, len(log)) for b, log in self.log.items()}
        return kip966_state.choose(self.state, self.delivery, self.delivery.strategies[name], logs)

    def _complete(self, removing: str, adding: str) -> None:
        self._end(removing, "removing", adding)

    def _cancel(self, adding: str) -> None:
        self._end(adding, "adding")

    def _end(self, leaving: str, word: str, adding: str = "adding=") -> None:
        required = numbers(adding, "adding") if word == "removing" else set()
        state, done = kip966_state.end_reassignment(self.state, numbers(leaving, word), required, self.delivery)
        self._become(state)
        self.said = {"done": done}

    def _judge(self) -> None:
        self.said = {"windows": self.witness.windows()}

    def _downgrade(self) -> None:
        self.delivery = BEFORE_ELR

    def _advance(self) -> None:
        if self.leader == NO_LEADER:
            return
        ends = {broker: len(log) for broker, log in self.log.items()}
        before = self.known_high_watermark[self.leader]
        mark = kip966_state.advance_high_watermark(self.state, before, self.maximal_isr, ends, self.delivery)
        self.known_high_watermark[self.leader] = mark
        self.committed |= set(self.log[self.leader][:mark])


def numbers(text: str, word: str) -> set[int]:
    """removing=0,1"""
    name, _, values = text.partition("=")
    if name != word:
        raise ValueError(f"not understood: {text!r}")
    return {int(v) for v in values.split(",") if v}
