"""Who exists, and who reaches whom: what replication and the brokers' sessions both stand on."""

import random
import weakref
from typing import Any

from tests.simulator.broker import Broker, Disk, Process
from tests.simulator.controller import Controller, State
from tests.simulator.events import Events
from tests.simulator.logs import Log
from tests.simulator.node_logs import Line, is_new, release
from tests.simulator.session_lines import ACTIVE, elections
from tests.simulator.setup import BEGIN_MS, Setup
from tests.simulator.truth import Ledger


class Network:
    """cuts: pairs of brokers that do not reach each other. ledgers: the truth, by topic id. notes: (ms, what
    happened). logged: what brokers logged of the partition; of_sessions: see session_lines; of_processes: see
    process_lines. crashes: (ms, broker) of their machines. setbacks: (ms, broker) when a disk lost records, its high
    watermarks or the end of the metadata log, whoever leads. own_rng: for what must not change the course of a life."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.rng = random.Random(setup.seed)
        self.events = Events(BEGIN_MS)
        self.brokers = {
            b: Broker(b, place, Disk(f"d{b}", (f"d{b}", f"other{b}"))) for place, b in enumerate(setup.brokers)
        }
        own = weakref.proxy(self)  # a life without circles is freed at once
        self.controller = Controller(
            setup=setup,
            now=lambda: own.events.now,
            noise=lambda: own.rng.randrange(3),
            elected=lambda before, state: own._elected(before, state),
            changed=lambda before, state: own.of_sessions.extend(elections(own.events.now, before, state)),
            logs=lambda kind, **values: own.log_session(ACTIVE, kind, **values),
            wrote=lambda: own._wrote(),
            min_isr=setup.min_isr,
            unclean=setup.unclean,
            elr=setup.elr,
            next_offset=setup.base_offset,
        )
        self.cuts: set[frozenset[int]] = set()
        self.ledgers: dict[str, Ledger] = {}
        self._records = 0
        self.notes: list[tuple[int, str]] = []
        self.logged: list[Line] = []
        self.of_sessions: list[Line] = []
        self.of_processes: list[Line] = []
        self.crashes: list[tuple[int, int]] = []
        self.setbacks: list[tuple[int, int]] = []
        self.own_rng = random.Random(f"logs {setup.seed}")
        self._new = {b: is_new(release(setup, place)) for place, b in enumerate(setup.brokers)}

    def random(self, low: int, high: int) -> int:
        return low + int(self.rng.random() * (high - low))

    def note(self, text: str) -> None:
        """For whoever reads a life: what a process did that no evidence may show."""
        self.notes.append((self.events.now, text))

    def set_back(self, broker: Broker) -> None:
        self.setbacks.append((self.events.now, broker.id))

    def log(self, broker: Broker, kind: str, **values: Any) -> None:
        """The broker's process logs a line about the partition. values: columns of BROKER_LOG_EVENTS."""
        if broker.process is None or not broker.process.hushed:
            self.logged.append(Line(self.events.now, broker.id, kind, broker.disk.topic_id, values))

    def log_session(self, node: int, kind: str, **values: Any) -> None:
        """A controller or a broker logs a line about a registration."""
        self.of_sessions.append(Line(self.events.now, node, kind, "", values))

    def log_process(self, broker: Broker, kind: str, **values: Any) -> None:
        """A broker's process logs a line that is about no partition."""
        if broker.process is None or not broker.process.hushed:
            self.of_processes.append(Line(self.events.now, broker.id, kind, "", values))

    def prints_as_4_2(self, broker: Broker) -> bool:
        return self._new[broker.id]

    def new_records(self, count: int) -> list[int]:
        self._records += count
        return list(range(self._records - count, self._records))

    def ledger(self, topic_id: str) -> Ledger:
        return self.ledgers.setdefault(topic_id, Ledger())

    def connected(self, one: Broker, other: Broker) -> bool:
        return not self.cuts or frozenset((one.id, other.id)) not in self.cuts

    def controller_is_up(self) -> bool:
        now = self.events.now
        return all(not last < now < first for last, first in self.setup.fail_overs)

    def logs(self, state: State) -> dict[int, Log]:
        """Of the replicas; empty where a broker has none of this topic."""
        disks = {b: self.brokers[b].disk for b in state.replicas}
        return {b: disk.log if disk.topic_id == state.topic_id else Log() for b, disk in disks.items()}

    def _elected(self, before: State, state: State) -> None:
        is_member = state.leader in (*before.isr, *before.elr) and state.recovery == before.recovery
        ledger = self.ledger(state.topic_id)
        ledger.elected(state.offset, state.leader_epoch, state.leader, is_member, self.logs(state))

    def _wrote(self) -> None:
        """Whoever is connected hears of a batch within a second, most much sooner."""
        for broker in self.brokers.values():
            self.tell(broker)

    def tell(self, broker: Broker) -> None:
        process = broker.process
        if process is not None and not process.delivering and process.loaded and broker.reachable:
            process.delivering = True
            slow = self.rng.random() < 0.1
            self.events.after(self.random(300, 1_000) if slow else self.random(3, 200), self.deliver, broker, process)

    def deliver(self, broker: Broker, process: Process) -> None:
        raise NotImplementedError
