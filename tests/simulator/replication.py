"""How brokers replicate: fetches, high watermarks, ISR changes, taking over and following.

Follows Kafka's Partition (makeLeader, makeFollower, maybeIncrementLeaderHW, maybeExpandIsr, maybeShrinkIsr) and
ReplicaFetcherThread. A follower that has all there is does not fetch again until something changes.
"""

from tests.simulator.broker import Broker, Leading, Process
from tests.simulator.controller import State
from tests.simulator.lines import Lines
from tests.simulator.logs import Log, diverging, follow, truncate

# log.flush.start.offset.checkpoint.interval.ms
STARTS_MS = 60_000


class Replication(Lines):
    """The brokers' side of the protocol. Every method takes the broker that does something."""

    # Metadata arrives.

    def deliver(self, broker: Broker, process: Process) -> None:
        """The process reads the metadata up to now.

        It applies what partitions are before the cluster's default of min ISR, also when it has just started and goes
        by its file (Kafka's BrokerMetadataPublisher.onMetadataUpdate: topics before dynamic configs, 3.9.1 to 4.3.1. It
        has the topics' own configs before, from LogManager.startup; from 4.0 on the cluster's, too, if the last
        snapshot on its disk has them: DynamicBrokerConfig.readDynamicBrokerConfigsFromSnapshot).
        """
        process.delivering = False
        if broker.process is not process or process.frozen or not broker.reachable or not process.loaded:
            return
        if self.events.now < broker.lags_until_ms:
            process.delivering = True
            self.events.at(broker.lags_until_ms, self.deliver, broker, process)
            return
        process.read = self.controller.next_offset
        process.active = self.controller.all_active
        state = self.controller.state
        if process.to_read:
            state = process.to_read.pop(0)
            process.read, process.delivering = state.offset, True
            self.events.after(self.own_rng.choice((5, 200, 4_000)), self.deliver, broker, process)
        min_isr = self.controller.min_isr_at(process.read)
        if self.setup.min_isr_layer == "topic" and process.view is None:
            process.min_isr = min_isr
        self._apply(broker, process, state)
        process.min_isr = min_isr

    def _apply(self, broker: Broker, process: Process, state: State | None) -> None:
        if state is None or state is process.view:
            self._wake_followers(broker)
            return
        new_topic = process.view is None or process.view.topic_id != state.topic_id
        leader_epoch = -1 if new_topic or process.view is None else process.view.leader_epoch
        before, process.view = process.view, state
        if state.removed or broker.id not in state.replicas:
            self._stop_leading(process)
            self._drop_log(broker)
            return
        if broker.disk.topic_id != state.topic_id:
            self._stop_leading(process)
            self._new_log(broker, state)
            leader_epoch = -1
        if leader_epoch < 0:
            process.known = None
            self.log_partition(broker, process)
        if state.leader_epoch > leader_epoch:
            self._new_epoch(broker, process, state, before)
        else:
            self.log_state(broker, process, state)
        leading = process.leading
        if leading and state.leader_epoch <= leader_epoch and state.partition_epoch > leading.partition_epoch:
            leading.isr, leading.pending, leading.partition_epoch = state.isr, None, state.partition_epoch
            leading.replicas = state.replicas
            self.advance(broker)
        self._wake_followers(broker)
        self.wake(broker)

    def _drop_log(self, broker: Broker) -> None:
        broker.disk.future = None
        if broker.disk.topic_id:
            broker.disk.topic_id, broker.disk.log = "", Log()
            broker.disk.recovery_point, broker.disk.starts = -1, 0
            self._high_watermark(broker, 0)

    def _new_log(self, broker: Broker, state: State) -> None:
        """A replica without a log here makes an empty one, and tells the controller in which directory."""
        broker.disk.topic_id, broker.disk.log, broker.disk.recovery_point = state.topic_id, Log(), 0
        broker.disk.future = None
        self._high_watermark(broker, 0)
        assert broker.process is not None
        if state.directories[state.replicas.index(broker.id)] != broker.disk.directory:
            self.events.after(self.random(300, 2_000), self.assign_directory, broker, broker.process)

    def assign_directory(self, broker: Broker, process: Process) -> None:
        state = self.controller.live
        if broker.process is not process or state is None or broker.id not in state.replicas:
            return
        if state.directories[state.replicas.index(broker.id)] == broker.disk.directory:
            return
        if not broker.reachable or process.frozen or not self.controller_is_up() or process.broker_epoch is None:
            self.events.after(2_000, self.assign_directory, broker, process)
            return
        self.controller.change(directories={broker.id: broker.disk.directory})
        self.controller.end_batch()

    def move(self, broker: Broker, behind: int, for_ms: int) -> None:
        """The replica is moved to another directory: the controller has recorded that, and the future log, which lacks
        so many records now, takes the log's place for_ms later (Kafka's ReplicaAlterLogDirsThread)."""
        disk, process, state = broker.disk, broker.process, self.controller.live
        others = [d for d in disk.directories if d != disk.directory]
        if process is None or not process.serving or not broker.running or not others or disk.future is not None:
            return
        if state is None or disk.topic_id != state.topic_id or not broker.reachable or not self.controller_is_up():
            return
        disk.future = others[0], disk.log.prefix(max(disk.log.start, disk.log.end - behind))
        self.note(f"broker {broker.id} moves its replica to {others[0]}: {disk.future[1].end} of {disk.log.end}")
        self.controller.change(directories={broker.id: others[0]})
        self.controller.end_batch()
        self.events.after(for_ms, self.promote, broker, process, disk.future)

    def promote(self, broker: Broker, process: Process, future: tuple[str, Log]) -> None:
        if broker.process is process and broker.disk.future is future:
            if process.frozen:
                self.events.after(500, self.promote, broker, process, future)
                return
            broker.disk.directory, broker.disk.future = future[0], None

    def _new_epoch(self, broker: Broker, process: Process, state: State, before: State | None) -> None:
        led = process.leading
        self._stop_leading(process)
        process.quiet = False
        self.log_epoch(broker, process, state)
        if state.leader != broker.id:
            self._fetch_once_more(broker, process, before)
            return
        log = broker.log
        log.assign(state.leader_epoch, log.end)
        self.note(f"broker {broker.id} leads epoch {state.leader_epoch} from {log.end}, hw {process.high_watermark}")
        now = self.events.now
        caught_up = {b: now if b in state.isr else 0 for b in state.replicas if b != broker.id}
        # A leader that led before, as far as it has read, keeps the log ends that it knows (Replica.resetReplicaState
        # with isNewLeader false), although another one may have led in between.
        known = led.log_ends if led else {}
        process.leading = Leading(
            state.leader_epoch, None, state.isr, state.partition_epoch, state.replicas, None, known, caught_up
        )
        if process.serving:
            self.reign(broker, process, process.leading)
        elif self.setup.appends_by_itself:
            self.events.after(self.random(100, 3_000), self.append_by_itself, broker, process, process.leading)
        self.advance(broker)
        lag = self.setup.replica_lag_time_max_ms
        self.events.after(lag + self.random(0, lag // 2), self.check_isr, broker, process, state.leader_epoch)

    def reign(self, broker: Broker, process: Process, leading: Leading) -> None:
        """Clients and followers reach a process that acts as leader."""
        ledger = self.ledger(broker.disk.topic_id)
        leading.reign = ledger.leads(broker.id, leading.epoch, broker.log)
        # What is below its high watermark is committed, whoever wrote it. Offsets count that retention deleted, too.
        ledger.promise(leading.epoch, 0, broker.log.records[: process.high_watermark])

    def append_by_itself(self, broker: Broker, process: Process, leading: Leading) -> None:
        """A coordinator writes to the partition that it leads in its own eyes."""
        if broker.process is process and process.leading is leading and not process.serving and not process.frozen:
            self.appended(broker, self.new_records(1), leading.epoch)
            self.ledger(broker.disk.topic_id).wrote_unreached(leading.epoch, broker.log)
            self.advance(broker)

    def appended(self, broker: Broker, records: list[int], epoch: int) -> None:
        broker.log.append(records, [epoch] * len(records))

    def _stop_leading(self, process: Process) -> None:
        leading = process.leading
        if leading and leading.reign:
            self.note(f"epoch {leading.epoch} of broker {leading.reign.broker} ends at {leading.reign.log.end}")
            leading.reign.end()
        process.leading = None

    # Records.

    def produce(self, broker: Broker, count: int, acks_all: bool) -> None:
        process = broker.process
        if process is None or not broker.running or not process.leading or not process.serving:
            return
        leading = process.leading
        if acks_all and len(leading.isr) < min(process.min_isr, len(leading.replicas)):
            return
        if leading.waiting is not None:
            if leading.waiting == self.setup.request_threads:
                return
            leading.waiting += 1
        for follower in self.followers(broker, leading):
            if follower.process is not None and follower.process.quiet:
                leading.caught_up_ms[follower.id] = self.events.now
                follower.process.quiet = False
        self.note(f"broker {broker.id} takes {count} records at {broker.log.end}, acks {'all' if acks_all else 1}")
        self.appended(broker, self.new_records(count), leading.epoch)
        self.advance(broker)
        self._wake_followers(broker)

    def advance(self, broker: Broker) -> None:
        """The high watermark: the least log end of the maximal ISR and of those who may soon join it; it stands still
        below min ISR (C26)."""
        process = broker.process
        if process is None or process.leading is None:
            return
        leading, log, begin = process.leading, broker.disk.log, process.high_watermark
        if len(log.records) <= begin or leading.waiting is not None:
            return
        below = len(leading.isr) < min(process.min_isr, len(leading.replicas))
        if below and self.setup.hwm_stands_below_min_isr:
            return
        maximal = {*leading.isr, *(leading.pending or ())} - {broker.id}
        since_ms = self.events.now - self.setup.replica_lag_time_max_ms
        joining = {b for b, at in leading.caught_up_ms.items() if at >= since_ms and b in process.active}
        joining &= set(leading.replicas)
        mark = min([log.end, *(leading.log_ends.get(b, -1) for b in maximal | joining)])
        if mark > begin:
            state = process.view
            assert state is not None
            if leading.reign:
                ledger = self.ledger(state.topic_id)
                winner = None if ledger.waiting_for is None else self.brokers[ledger.waiting_for]
                held = winner.log.records if winner is not None and winner.disk.topic_id == state.topic_id else ()
                ledger.promise(leading.epoch, begin, log.records[begin:mark], held)
            self._high_watermark(broker, mark)
            self.note(f"broker {broker.id} has high watermark {mark} in epoch {leading.epoch}")
            self._wake_followers(broker)

    def _high_watermark(self, broker: Broker, mark: int) -> None:
        process = broker.process
        assert process is not None
        process.high_watermark = mark
        if not process.checkpointing:
            process.checkpointing = True
            interval = self.setup.checkpoint_interval_ms
            wait = interval - (self.events.now - process.started_ms) % interval
            self.events.after(wait, self.checkpoint, broker, process)

    def checkpoint(self, broker: Broker, process: Process) -> None:
        process.checkpointing = False
        if broker.disk.failed:
            return
        if broker.process is process and not process.frozen:
            broker.disk.marks = process.high_watermark if broker.disk.topic_id else -1
            broker.disk.marks_ms = self.events.now
        elif broker.process is process:
            self._high_watermark(broker, process.high_watermark)

    def retain(self, broker: Broker, count: int) -> None:
        process = broker.process
        if process is not None and broker.running and process.loaded:
            start = min(broker.log.start + count, process.high_watermark)
            if start > broker.log.start:
                if process.leading and process.leading.reign:
                    self.ledger(broker.disk.topic_id).deleted.update(broker.log.records[:start])
                broker.log.delete_before(start)
                broker.log.base = start

    def delete_records(self, broker: Broker, amount: int) -> None:
        """DeleteRecords, up to the high watermark or less. Segments stay: a file has the log's start within a minute
        (Partition.deleteRecordsOnLeader, LogManager.checkpointLogStartOffsets)."""
        process, log = broker.process, broker.log
        if process is not None and broker.running and process.leading and process.serving:
            start = process.high_watermark - amount // 2
            if start > log.start:
                self.note(f"broker {broker.id} deletes records before {start}")
                self.ledger(broker.disk.topic_id).deleted.update(log.records[:start])
                log.delete_before(start)

    def checkpoint_starts(self, broker: Broker, process: Process) -> None:
        if broker.process is process:
            if not process.frozen and not broker.disk.failed:
                self.write_starts(broker)
            self.events.after(STARTS_MS, self.checkpoint_starts, broker, process)

    def write_starts(self, broker: Broker) -> None:
        """LogManager.checkpointLogStartOffsetsInDir: of logs that begin inside their first segment."""
        log = broker.log
        broker.disk.starts = log.start if log.start > log.base else 0

    def compact(self, broker: Broker) -> None:
        """The cleaner removes some of the batches below the high watermark, never the log's last one (LogCleaner)."""
        process = broker.process
        if process is not None and broker.running and process.loaded and broker.log.batches:
            below = [b for b in broker.log.batches[:-1] if b < process.high_watermark]
            broker.log.compact({b for b in below if self.own_rng.random() < 0.6})
            gone = (broker.log.records[offset] for offset in broker.log.compacted)
            self.ledger(broker.disk.topic_id).deleted.update(gone)

    # Fetching.

    def followers(self, broker: Broker, leading: Leading) -> list[Broker]:
        return [self.brokers[b] for b in leading.replicas if b != broker.id]

    def _wake_followers(self, broker: Broker) -> None:
        if broker.process is not None and broker.process.leading:
            for follower in self.followers(broker, broker.process.leading):
                self.wake(follower)

    def wake(self, broker: Broker) -> None:
        """It fetches soon, if it can."""
        process = broker.process
        if process is not None and not process.fetching and process.loaded and not process.frozen:
            process.fetching = True
            self.events.after(self.random(20, 450), self.fetch, broker, process)

    def fetch(self, broker: Broker, process: Process) -> None:
        process.fetching = False
        if broker.process is not process or process.frozen or process.leading:
            return
        view = process.view
        if view is None or view.removed or view.leader < 0 or view.leader == broker.id:
            return
        if broker.disk.topic_id != view.topic_id:
            return
        leader = self.brokers[view.leader]
        there = leader.process
        if there is None or not self.connected(broker, leader) or not leader.running or there.leading is None:
            return
        if not there.serving:
            return
        leading, its_log, log = there.leading, leader.disk.log, broker.disk.log
        if leading.epoch != view.leader_epoch or leader.disk.topic_id != view.topic_id:
            return
        if broker.id not in leading.replicas:
            return
        told = diverging(its_log, log)
        if told is not None:
            before = log.end
            truncate(log, told)
            self.log_truncation(broker, leader, told, (before, process.high_watermark))
            broker.disk.recovery_point = min(broker.disk.recovery_point, log.end)
            if broker.disk.future is not None:
                truncate(broker.disk.future[1], told)
            self.note(f"broker {broker.id} is cut from {before} to {log.end}, hw was {process.high_watermark}")
            self._high_watermark(broker, min(process.high_watermark, log.end))
            self.wake(broker)
            return
        told_mark = there.high_watermark
        leading.log_ends[broker.id] = end = log.end
        leading.broker_epochs[broker.id] = -1 if process.broker_epoch is None else process.broker_epoch
        if end >= its_log.end:
            leading.caught_up_ms[broker.id] = self.events.now
        self._maybe_expand(leader, there, broker)
        self.advance(leader)
        follow(its_log, log)
        mark = min(told_mark, log.end)
        if mark != process.high_watermark:
            self.log_set_back(broker, process.high_watermark, mark)
            self._high_watermark(broker, mark)
        if mark < there.high_watermark or end < its_log.end:
            self.wake(broker)
        else:
            process.quiet = True

    def _fetch_once_more(self, broker: Broker, process: Process, before: State | None) -> None:
        """The line of a new leader is logged before the fetcher of the old one is removed: it may append what it got,
        and fetch from there once more (Kafka's ReplicaManager.applyLocalFollowersDelta)."""
        if before is None or before.removed or before.leader in (-1, broker.id) or self.own_rng.random() < 0.7:
            return
        leader = self.brokers[before.leader]
        there = leader.process
        if there is None or there.leading is None or not there.serving or not leader.running:
            return
        same = leader.disk.topic_id == before.topic_id and there.leading.epoch == before.leader_epoch
        if not same or not self.connected(broker, leader) or broker.id not in there.leading.replicas:
            return
        if process.loaded and diverging(leader.log, broker.log) is None and broker.log.end < leader.log.end:
            follow(leader.log, broker.log)
            there.leading.log_ends[broker.id] = broker.log.end
            self.advance(leader)

    # ISR changes.

    def _maybe_expand(self, leader: Broker, process: Process, follower: Broker) -> None:
        leading = process.leading
        if leading is None or follower.id in leading.isr or leading.pending is not None:
            return
        end = follower.log.end
        if end < process.high_watermark or end < leader.log.entries[-1][1] or not self.controller.active(follower.id):
            return
        self._alter(leader, process, [*leading.isr, follower.id])

    def check_isr(self, broker: Broker, process: Process, epoch: int) -> None:
        """Followers that have not had all for replica.lag.time.max.ms leave the ISR."""
        leading = process.leading
        if broker.process is not process or leading is None or leading.epoch != epoch:
            return
        lag, now = self.setup.replica_lag_time_max_ms, self.events.now
        behind = [f for f in self.followers(broker, leading) if f.id in leading.isr and not self._is_quiet(f, broker)]
        late = {f.id for f in behind if now - leading.caught_up_ms.get(f.id, 0) > lag}
        if late and not process.frozen and leading.pending is None:
            isr = [b for b in leading.isr if b not in late]
            self.log_shrinking(broker, process, leading, isr)
            self._alter(broker, process, isr)
        if behind or process.frozen:
            self.events.after(lag // 2, self.check_isr, broker, process, epoch)

    def _is_quiet(self, follower: Broker, leader: Broker) -> bool:
        process = follower.process
        return process is not None and process.quiet and follower.running and self.connected(follower, leader)

    def _alter(self, broker: Broker, process: Process, isr: list[int]) -> None:
        assert process.leading is not None
        process.leading.pending, wait_ms = isr, self.random(5, 60)
        if self.setup.late_requests and self.own_rng.random() < 0.4 and process.broker_epoch is not None:
            epochs = (process.broker_epoch, process.leading.epoch, process.leading.partition_epoch)
            known = {b: process.leading.broker_epochs.get(b, -1) for b in isr if b != broker.id}
            self.events.after(self.own_rng.randint(50, 6_000), self._alter_unanswered, broker.id, epochs, isr, known)
            wait_ms += self.own_rng.randint(500, 30_000)
        self.events.after(wait_ms, self.alter, broker, process, process.leading, isr)

    def _alter_unanswered(
        self, leader: int, epochs: tuple[int, int, int], isr: list[int], known: dict[int, int]
    ) -> None:
        """The request waits, whatever becomes of the leader; it compares members' broker epochs, but for -1 (KIP-903,
        ReplicationControlManager.ineligibleReplicasForIsr)."""
        registered = self.controller.brokers
        if self.controller_is_up() and all(
            epoch == -1 or (b in registered and registered[b].epoch == epoch) for b, epoch in known.items()
        ):
            self.controller.alter_partition(leader, epochs, isr)

    def alter(self, broker: Broker, process: Process, leading: Leading, isr: list[int]) -> None:
        if broker.process is not process or process.leading is not leading or leading.pending is not isr:
            return
        if process.frozen or not broker.reachable or not self.controller_is_up():
            self.events.after(1_500, self.alter, broker, process, leading, isr)
            return
        epoch = -1 if process.broker_epoch is None else process.broker_epoch
        epochs = (epoch, leading.epoch, leading.partition_epoch)
        answer = self.controller.alter_partition(broker.id, epochs, isr)
        state = self.controller.live
        if answer == "ok" and state is not None:
            leading.isr, leading.pending, leading.partition_epoch = state.isr, None, state.partition_epoch
            self.log_isr(broker, process, state)
            self.advance(broker)
        elif answer == "refused":
            leading.pending = None
            self.events.after(self.setup.replica_lag_time_max_ms // 2, self.check_isr, broker, process, leading.epoch)

    def disturb(self, broker: Broker) -> None:
        """Its fetches, or its followers', stop here: who had all had it until now."""
        for follower in self.brokers.values():
            process = follower.process
            if process is None or not process.quiet or process.view is None:
                continue
            leader = self.brokers.get(process.view.leader)
            if leader is None or broker not in (follower, leader):
                continue
            process.quiet = False
            there = leader.process
            if there is not None and there.leading:
                leading = there.leading
                leading.caught_up_ms[follower.id] = self.events.now
                lag = self.setup.replica_lag_time_max_ms
                self.events.after(lag + self.random(0, lag // 2), self.check_isr, leader, there, leading.epoch)
