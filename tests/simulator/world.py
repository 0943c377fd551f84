"""A life: the steps of a setup, one after the other, with everything that follows from them."""

from collections.abc import Iterable
from itertools import accumulate

from replay.controller.partition_change_builder import ELECT_PREFERRED, ELECT_UNCLEAN
from tests.simulator.broker import Broker, Process
from tests.simulator.evidence import Captures
from tests.simulator.setup import BEGIN_MS, Setup, Step
from tests.simulator.truth import Truth

# After the last step, so that what it brought about is in the log as far as it can be.
AFTERMATH_MS = 3_000
# Steps that are a method of the same name, which takes the broker alone.
_OF_A_BROKER = ("kill", "stop", "start", "cut_off", "compact", "lose_marks", "lose_directory", "fail_directory")


class World(Captures):
    """truth: by metadata offset of the election. topic_ids: of the topics that had the name, one after the other.
    ended: when the simulation did."""

    def __init__(self, setup: Setup, steps: Iterable[Step]) -> None:
        super().__init__(setup)
        self.truth: dict[int, Truth] = {}
        self.topic_ids: list[str] = []
        self.deletions: list[int] = []
        self._begin()
        for _, first in setup.fail_overs:
            self.events.at(first, self.fail_over)
        at_ms = self.events.now
        for step in steps:
            at_ms += step.after_ms
            self.events.run_until(at_ms)
            self.step(step)
        self.events.run_until(at_ms + AFTERMATH_MS)
        self.ended_ms = self.events.now
        self._close()

    def _begin(self) -> None:
        for broker in self.brokers.values():
            self.start(broker)
        self.events.run_until(BEGIN_MS + 5_000)
        self._create(list(self.setup.brokers[: self.setup.replicas]))
        self.events.run_until(BEGIN_MS + 8_000)

    def _create(self, replicas: list[int]) -> None:
        topic_id = f"{self.setup.topic_ids}{len(self.topic_ids):04}"
        self.topic_ids.append(topic_id)
        self.controller.create_topic(topic_id, replicas)

    def _close(self) -> None:
        state = self.controller.live
        if state is not None:
            self.truth |= self.ledger(state.topic_id).close(self.logs(state))

    def step(self, step: Step) -> None:
        broker = self.brokers[self.setup.brokers[step.broker % len(self.setup.brokers)]]
        if step.name in _OF_A_BROKER:
            getattr(self, step.name)(broker)
        elif step.name == "retain":
            self.retain(broker, step.amount)
        elif step.name == "heal":
            self.heal()
        elif step.name != "idle":  # nothing happens: after_ms passes
            getattr(self, f"_do_{step.name}")(broker, step.amount)

    # Clients. amount: how many records, over the next seconds.

    def _do_produce(self, broker: Broker, amount: int, acks_all: bool = True) -> None:
        """To that broker if it acts as leader, else to anyone that does."""
        leading = [b for b in self.brokers.values() if b.process and b.process.leading and b.process.serving]
        if leading:
            target = broker if broker in leading else leading[amount % len(leading)]
            self.produce(target, amount % 7 + 1, acks_all)

    def _do_delete_records(self, _: Broker, amount: int) -> None:
        """By a client. An even amount: a minute later so many of the last records are lost to the others, one of them
        leads, and the old leader follows it and dies once more."""
        state = self.controller.live
        if state is not None and state.leader >= 0:
            leader = self.brokers[state.leader]
            self.delete_records(leader, amount)
            if amount % 2 == 0:
                self.events.after(self.random(20_000, 70_000), self._lose_all_but, leader, amount + 1)

    def _lose_all_but(self, leader: Broker, lost: int) -> None:
        after, random = self.events.after, self.random
        for broker in self.brokers.values():
            if broker is not leader:
                self.kill(broker, lost, reboots=True)
                after(random(1_000, 4_000), self.start, broker)
        self.kill(leader)
        after(random(10_000, 20_000), self._do_elect_uncleanly, leader, 0)
        again = random(15_000, 30_000)
        after(again, self.start, leader)
        after(again + random(2_000, 30_000), self.kill, leader)
        after(again + random(30_000, 40_000), self.start, leader)

    def _do_stream(self, broker: Broker, amount: int) -> None:
        """Clients write for some seconds."""
        for number in range(amount % 6 + 2):
            self.events.after(self.random(0, 6_000), self._do_produce, broker, number, number % 3 > 0)

    def _do_produce_acks_1(self, broker: Broker, amount: int) -> None:
        self._do_produce(broker, amount, acks_all=False)

    # Brokers.

    def _do_power_loss(self, broker: Broker, amount: int) -> None:
        self.kill(broker, lost=amount, reboots=True)

    def _do_forget(self, broker: Broker, amount: int) -> None:
        """The power fails, also for the metadata log; it is back soon, or when it is started."""
        if broker.process is not None:
            if self.setup.metadata_apart:
                self.kill(broker)
            else:
                self.kill(broker, lost=amount, reboots=True)
            self.set_back(broker)
            broker.disk.forgot = True
            if amount % 2:
                self.events.after(self.random(100, 3_000), self.start, broker)

    def _do_lead_anew(self, _: Broker, amount: int) -> None:
        """The leader dies with records that nobody else has. Two others lead one after the other, and the first of them
        again; that alone forgets, is back soon, and takes the old leader in, which leads when that one dies."""
        state, after, random = self.controller.live, self.events.after, self.random
        if state is None or state.leader < 0 or len(state.isr) < 3:
            return
        old, *others = (self.brokers[b] for b in sorted(state.isr, key=lambda b: b != state.leader))
        for other in others:
            self.cut_pair(old, other)
        self._do_produce(old, amount, acks_all=False)
        after(500, self.kill, old)
        after(600, self.heal)
        first, second = others[:2]
        steps = (
            (20_000, self._do_bounce, first, 0),
            (20_000, self._do_produce, second, amount),
            (4_000, self.stop, second),
            (4_000, self._do_forget, first, amount | 1),
            (random(0, 20_000), self.start, old),
            (20_000, self._do_produce, first, amount),
            (4_000, self.kill, first),
            (random(500, 6_000), self.cut_off, old),
            (random(15_000, 30_000), self.heal),
            (random(3_000, 20_000), self._do_capture, old, amount),
        )
        for at_ms, (_, do, *args) in zip(accumulate(step[0] for step in steps), steps, strict=True):
            after(at_ms, do, *args)

    def _do_lose_leader(self, _: Broker, amount: int) -> None:
        """The leader dies while clients write; an even amount: its machine, with so many of the last records."""
        state = self.controller.live
        if state is not None and state.leader >= 0:
            lost, reboots = (0, False) if amount % 2 else (amount, True)
            self.kill(self.brokers[state.leader], lost, reboots, amid=0.7)

    def _do_hang(self, _: Broker, amount: int) -> None:
        """The leader's disk hangs: an append holds the log's lock, for which the others wait before they move the high
        watermark (UnifiedLog.maybeIncrementHighWatermark), metadata waits for them (Partition.makeFollower)."""
        state, for_ms = self.controller.live, 1_000 + amount * 3_000
        leader = self.brokers[state.leader] if state is not None and state.leader >= 0 else None
        if leader and leader.process and leader.process.leading and leader.process.leading.waiting is None:
            leader.process.leading.waiting, leader.lags_until_ms = 0, self.events.now + for_ms
            self.events.after(for_ms, setattr, leader.process.leading, "waiting", None)
            self.events.after(for_ms, self.advance, leader)

    def _do_replace(self, broker: Broker, amount: int) -> None:
        """Another machine gets the id of one that is down, perhaps after that was unregistered."""
        if broker.process is None:
            if amount % 3 == 0 and self.controller_is_up():
                self.controller.unregister(broker.id)
            self.replace(broker)
            self.events.after(self.random(100, 5_000), self.start, broker)

    def _do_start_all(self, _: Broker, __: int) -> None:
        for broker in self.brokers.values():
            self.start(broker)

    def _do_hush(self, broker: Broker, amount: int) -> None:
        """A signal; it takes a while until the process asks for its controlled shutdown (a long collection of garbage,
        an even amount; or other shutdown hooks), and what it does is not logged."""
        process = broker.process
        if process is not None and not process.frozen and not process.stopping and not process.hushed:
            self.log_process(broker, "signal_received")
            process.hushed = True
            if amount % 2 == 0:
                self.freeze(broker, 1_000 + amount * 2_000)
            self.events.after(1_500 + amount * 4_000, self._stop_if, broker, process)

    def _do_rejoin(self, _: Broker, amount: int) -> None:
        """All links heal, and who was cut off from the controller dies soon: it may have read the metadata, and
        followed a new leader, before its first heartbeat arrived."""
        for broker in self.brokers.values():
            if not broker.reachable and broker.process is not None:
                self.events.after(self.random(200, 1_000) + amount * 100, self.kill, broker)
        self.heal()

    def _stop_if(self, broker: Broker, process: Process) -> None:
        if broker.process is process:
            self.stop(broker)

    def _do_restart(self, broker: Broker, amount: int) -> None:
        """The power fails, and it is back inside its session."""
        if broker.process is not None:
            self.kill(broker, lost=amount, reboots=True)
            self.events.after(self.random(100, 3_000), self.start, broker)

    def _do_bounce(self, broker: Broker, _: int) -> None:
        """A clean stop, and a start soon after."""
        self.stop(broker)
        self.events.after(self.random(5_000, 8_000), self.start, broker)

    def _do_freeze(self, broker: Broker, amount: int) -> None:
        self.freeze(broker, 1_000 + amount % 13 * 2_000)

    def _do_lag(self, broker: Broker, amount: int) -> None:
        """Its metadata thread is busy for a while; heartbeats, fetches and produce requests go on."""
        broker.lags_until_ms = self.events.now + 1_000 + amount * 1_500

    def _do_move(self, broker: Broker, amount: int) -> None:
        self.move(broker, amount, 300 + amount * 2_500)

    def _do_cut_off_leader(self, _: Broker, amount: int) -> None:
        """The leader is cut off from the controller; an odd amount: with a follower in its ISR, which it reaches."""
        state = self.controller.live
        if state is not None and state.leader >= 0:
            self.cut_off(self.brokers[state.leader])
            others = [b for b in state.isr if b != state.leader]
            if others and amount % 2:
                self.cut_off(self.brokers[others[amount // 2 % len(others)]])

    def _do_cut_pair(self, broker: Broker, amount: int) -> None:
        ids = self.setup.brokers
        self.cut_pair(broker, self.brokers[ids[(broker.place + 1 + amount) % len(ids)]])

    # Administrators; nothing is done while no controller is active.

    def _do_min_isr(self, _: Broker, amount: int) -> None:
        value = amount % 3 + 1
        if self.controller_is_up() and value != self.controller.min_isr and self.controller.live:
            self.controller.set_min_isr(value)

    def _do_unclean(self, _: Broker, amount: int) -> None:
        if self.controller_is_up():
            self.controller.set_unclean(bool(amount % 2))

    def _do_elr(self, _: Broker, amount: int) -> None:
        if self.controller_is_up() and bool(amount % 2) != self.controller.elr:
            self.controller.set_elr(bool(amount % 2))

    def _do_elect_uncleanly(self, _: Broker, __: int) -> None:
        if self.controller_is_up():
            self.controller.elect_uncleanly()

    def _do_prefer(self, _: Broker, __: int) -> None:
        state = self.controller.live
        if self.controller_is_up() and state and state.leader != state.replicas[0]:
            self.controller.change(election=ELECT_PREFERRED)
            self.controller.end_batch()

    def _do_reassign(self, broker: Broker, amount: int) -> None:
        """The broker joins the replicas, maybe in the place of one of them. If it is a replica already, it goes."""
        state = self.controller.live
        if not self.controller_is_up() or state is None or state.adding or state.removing:
            return
        replicas = state.replicas
        if broker.id not in replicas:
            gone = [replicas[amount // 2 % len(replicas)]] if amount % 2 else []
            adding = [broker.id]
            merged = [*replicas, broker.id]
        elif len(replicas) > 1:
            gone, adding, merged = [broker.id], [], list(replicas)
        else:
            return
        self.controller.change(replicas=merged, adding=adding, removing=gone)
        self.controller.end_batch()

    def _do_cancel_reassignment(self, _: Broker, __: int) -> None:
        """PartitionReassignmentRevert: without the adding replicas; refused where the ISR would be emptied."""
        state = self.controller.live
        if not self.controller_is_up() or state is None or not (state.adding or state.removing):
            return
        replicas = [b for b in state.replicas if b not in state.adding]
        isr = [b for b in state.isr if b not in state.adding]
        election = None
        if not isr:
            if not self.controller.unclean:
                return
            isr, election = replicas[:1], ELECT_UNCLEAN
        self.controller.change(isr=isr, replicas=replicas, adding=[], removing=[], election=election)
        self.controller.end_batch()

    def _do_delete_topic(self, _: Broker, __: int) -> None:
        state = self.controller.live
        if self.controller_is_up() and state is not None and len(self.topic_ids) < 3:
            self._close()
            self.controller.delete_topic()
            self.deletions.append(self.controller.next_offset - 1)

    def _do_create_topic(self, _: Broker, __: int) -> None:
        """Under the same name, on brokers that are active."""
        active = [b for b in self.setup.brokers if self.controller.active(b)]
        if self.controller_is_up() and self.controller.live is None and active:
            self._create(active[: self.setup.replicas])

    # Somebody who looks.

    def _do_capture(self, _: Broker, amount: int) -> None:
        self.capture(300 + amount % 5 * 1_100)

    def _do_archive(self, _: Broker, amount: int) -> None:
        """A round whose files do not say when they were read."""
        self.capture(300 + amount % 5 * 1_100, timed=False)

    def _do_disk(self, broker: Broker, amount: int) -> None:
        self.copy_disk(broker, timed=bool(amount % 4))
