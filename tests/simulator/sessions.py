"""How brokers' processes begin and end, and what the controller makes of their heartbeats.

A process opens its listener when the controller has registered and unfenced it, and not before: BrokerServer.startup
waits for both, then calls socketServer.enableRequestProcessing (the same in 3.9.1 to 4.4.0). Until then nobody produces
to it or fetches from it, although it reads the metadata and acts on it.

Follows Kafka's BrokerLifecycleManager, BrokerHeartbeatManager, LogManager (clean shutdown, checkpoints at start) and
ReplicationControlManager.processBrokerHeartbeat.
"""

from tests.simulator.broker import Broker, Disk, Process
from tests.simulator.controller import Registration, State
from tests.simulator.logs import Log
from tests.simulator.replication import STARTS_MS, Replication
from tests.simulator.setup import incarnation_id

HEARTBEAT_MS = 2_000


class Sessions(Replication):
    """Processes and their sessions with the controller."""

    # Processes.

    def start(self, broker: Broker) -> None:
        """The process starts: it reads and deletes the marker of a clean stop, registers, and loads its log."""
        if broker.process is not None:
            return
        broker.incarnations += 1
        self.note(f"broker {broker.id} starts")
        self.log_process(broker, "process_started")
        self.log_start(broker)
        disk = broker.disk
        if disk.failed:
            self._after_failure(broker)
        if disk.marker is None:
            self.log_session(broker.id, "broker_epoch_unread", directory=f"/var/lib/kafka/{disk.directory}")
        who = {"broker_id": broker.id, "incarnation_id": incarnation_id(broker.id, broker.incarnations)}
        self.log_session(broker.id, "broker_starting", **who)
        epoch = -1 if disk.marker is None else disk.marker
        process = broker.process = Process(broker.incarnations, self.events.now, epoch)
        disk.marker = None
        self._promote_abandoned(broker)
        self.events.after(self.random(30, 1_500), self.load, broker, process)
        self.events.after(self.random(20, 400), self.register, broker, process)

    def load(self, broker: Broker, process: Process) -> None:
        """Loading waits for the metadata; then it acts as that says."""
        if broker.process is not process:
            return
        if process.frozen or not broker.reachable:
            self.events.after(500, self.load, broker, process)
            return
        disk = broker.disk
        self._load_from_start(broker)
        log = disk.log
        self.log_load(broker, disk.torn and self.own_rng.random() < 0.5)
        self.log_process(broker, "logs_loaded", duration_ms=5)
        disk.torn = False
        log.cut(log.end)
        mark = disk.marks if disk.marks is not None and disk.marks >= 0 else log.start
        process.high_watermark = max(log.start, min(mark, log.end))
        process.loaded = True
        self.note(f"broker {broker.id} loaded its log: end {log.end}, hw {process.high_watermark}")
        # Its file is rewritten every few seconds, whether the value changed or not.
        self._high_watermark(broker, process.high_watermark)
        self.events.after(STARTS_MS, self.checkpoint_starts, broker, process)
        process.delivering = True
        process.to_read = self._states_again(broker)
        self.deliver(broker, process)

    def _load_from_start(self, broker: Broker) -> None:
        """A log that ends below what the file of log starts says, as it was truncated since, is dropped and begins
        there anew. Records that were deleted are back if the file does not say so (LogLoader, 3.9.1 to 4.3.1)."""
        disk, log = broker.disk, broker.disk.log
        if disk.topic_id and log.end < disk.starts:
            self.note(f"broker {broker.id} drops its log, which ends at {log.end}, and begins at {disk.starts}")
            self.set_back(broker)
            start, gone = disk.starts, [-1 - offset for offset in range(disk.starts)]  # offsets count, of no record
            self.ledger(disk.topic_id).deleted.update(gone)
            disk.log = Log(gone, [-1] * start, start=start, base=start)
        disk.log.start = max(disk.log.base, disk.starts if disk.topic_id else 0)

    def _states_again(self, broker: Broker) -> list[State]:
        """What a process reads piece by piece that begins with a metadata log whose end was not on disk: it was
        lost, or written while no process ran.

        It takes the end of the first fetched piece for the end of the log (KafkaRaftClient.updateFollowerHighWatermark:
        the lower of both; MetadataLoader.stillNeedToCatchUp), so it publishes each piece from then on: 8 MiB in 3.9.1
        to 4.2.0, 1 MiB (controller.quorum.fetch.max.bytes) in 4.3.1.
        """
        disk, now = broker.disk, self.controller.live
        forgot, disk.forgot = disk.forgot, False
        pieces = self.setup.reads_in_pieces and self.own_rng.random() < 0.7
        if not (forgot or pieces) or now is None or disk.topic_id != now.topic_id:
            return []
        states = [s for s in self.controller.states if s.topic_id == now.topic_id]
        on_disk = sum(s.offset <= disk.read for s in states)  # the last of these may be published once more
        if forgot:
            on_disk = 1 if self.setup.metadata_apart else len(states) - self.own_rng.randint(1, 5)
        states = states[max(on_disk - 1, 0) :]
        if not all(broker.id in s.replicas for s in states):
            return []
        return [s for s in states if self.own_rng.random() < 0.7]

    def kill(self, broker: Broker, lost: int = 0, reboots: bool = False, amid: float | None = None) -> None:
        """SIGKILL; or the power fails (reboots), and so many records at the log's end were not flushed. amid: how
        likely a leader was appending; None: as is usual."""
        if broker.process is None:
            return
        self._append_in_flight(broker, broker.process, (0.0 if lost else 0.3) if amid is None else amid)
        self._end_process(broker)
        self.note(f"broker {broker.id} dies at {broker.log.end} and loses {lost} records")
        if reboots:
            broker.boots += 1
            broker.booted_ms = self.events.now
            self.crashes.append((self.events.now, broker.id))
        if lost:
            broker.disk.torn = True
            self.set_back(broker)
            broker.log.lose(max(broker.log.end - lost, broker.log.base))
            broker.disk.recovery_point = min(broker.disk.recovery_point, broker.log.end)

    def _append_in_flight(self, broker: Broker, process: Process, share: float) -> None:
        """Request threads append under a read lock and move the high watermark afterwards: up to one batch a thread
        (num.io.threads) may be in the log of a killed leader above it (Kafka's Partition.appendRecordsToLeader)."""
        leading = process.leading
        if leading and leading.reign and not process.frozen and self.own_rng.random() < share:
            for _ in range(self.own_rng.randint(1, self.setup.request_threads) - (leading.waiting or 0)):
                count = self.own_rng.randint(1, 3)
                self.appended(broker, self.new_records(count), leading.epoch)

    def _promote_abandoned(self, broker: Broker) -> None:
        """LogManager.recoverAbandonedFutureLogs: a replica was recorded in the directory of its future log, and the
        process ended before that took the log's place. It does so now, whatever it lacks."""
        disk = broker.disk
        if disk.future is not None:
            directory, log = disk.future
            self.set_back(broker)
            self.note(f"broker {broker.id} takes the future log, which ends at {log.end}, for {disk.log.end}")
            disk.directory, disk.log, disk.future = directory, log, None
            disk.marks = None if disk.marks is None else min(disk.marks, log.end)
            disk.marks_ms = self.events.now
            disk.recovery_point = min(disk.recovery_point, log.end)

    def _end_process(self, broker: Broker) -> None:
        assert broker.process is not None
        self._lose_contact(broker)
        self.disturb(broker)
        self._stop_leading(broker.process)
        if broker.process.view is not None:
            broker.disk.read = max(broker.disk.read, broker.process.view.offset)
        if broker.disk.topic_id:
            self.ledger(broker.disk.topic_id).process_ended(broker.id, broker.log)
        broker.process = None

    def stop(self, broker: Broker) -> None:
        """SIGTERM: it asks the controller to be relieved of its leaderships, and does not wait forever."""
        process = broker.process
        if process is None or process.frozen or process.stopping:
            return
        process.stopping = True
        if self.setup.hushed:
            self.log_process(broker, "signal_received")
            process.hushed = True
        registered = self._registration(broker)
        if broker.reachable and self.controller_is_up() and registered:
            if not registered.shutting_down and not registered.fenced:
                self.controller.shut_down(broker.id)
            self.events.after(self.random(300, 2_500), self.stopped, broker, process, True)
        else:
            self.events.after(self.random(1_000, 4_000), self.stopped, broker, process, False)

    def stopped(self, broker: Broker, process: Process, relieved: bool) -> None:
        if broker.process is not process or process.frozen:
            return
        registered = self._registration(broker)
        if relieved and registered and not registered.fenced and self._hears(broker):
            self.controller.fence(broker.id)
        disk = broker.disk
        loaded = process.loaded
        if loaded:
            disk.marks = process.high_watermark if disk.topic_id else -1
            disk.marks_ms = self.events.now
            disk.recovery_point = disk.log.end if disk.topic_id else -1
            self.write_starts(broker)
        self._end_process(broker)
        self.note(f"broker {broker.id} stopped cleanly at {disk.log.end}, relieved: {relieved}")
        # The marker is written after the checkpoints; a disk may be read in between.
        epoch = -1 if process.broker_epoch is None else process.broker_epoch
        self.events.after(self.random(5, 400), self._mark_clean, broker, broker.incarnations, epoch)

    def _mark_clean(self, broker: Broker, incarnation: int, epoch: int) -> None:
        if broker.process is None and broker.incarnations == incarnation:
            broker.disk.marker = epoch

    def freeze(self, broker: Broker, for_ms: int) -> None:
        process = broker.process
        if process is None or process.frozen:
            return
        self._lose_contact(broker)
        self.disturb(broker)
        process.frozen = True
        self.note(f"broker {broker.id} freezes for {for_ms} ms")
        self.events.after(for_ms, self.thaw, broker, process)

    def thaw(self, broker: Broker, process: Process) -> None:
        if broker.process is not process or not process.frozen:
            return
        process.frozen = False
        self._regain_contact(broker)
        self.tell(broker)
        self.wake(broker)
        self._wake_followers(broker)
        if process.stopping:
            self.events.after(500, self.stopped, broker, process, True)
        elif process.leading:
            self.events.after(10_000, self.check_isr, broker, process, process.leading.epoch)

    # Links.

    def cut_off(self, broker: Broker) -> None:
        """The controller does not hear of it any more, nor it of the controller."""
        if broker.reachable:
            if broker.process is not None:
                self._lose_contact(broker)
            broker.reachable = False
            self.note(f"broker {broker.id} is cut off from the controller")

    def cut_pair(self, one: Broker, other: Broker) -> None:
        if one is not other and self.connected(one, other):
            self.disturb_pair(one, other)
            self.cuts.add(frozenset((one.id, other.id)))
            self.note(f"brokers {one.id} and {other.id} are cut off from each other")

    def disturb_pair(self, one: Broker, other: Broker) -> None:
        for follower, leader in ((one, other), (other, one)):
            process = follower.process
            if process is not None and process.view is not None and process.view.leader == leader.id:
                self.disturb(follower)

    def heal(self) -> None:
        self.cuts.clear()
        self.note("all links heal")
        for broker in self.brokers.values():
            if not broker.reachable:
                broker.reachable = True
                if broker.process is not None:
                    self._regain_contact(broker)
                    self.tell(broker)
        for broker in self.brokers.values():
            self.wake(broker)

    # Sessions.

    def _registration(self, broker: Broker) -> Registration | None:
        """That of the broker's process, if it has one; not that of an earlier process."""
        process, registered = broker.process, self.controller.brokers.get(broker.id)
        return registered if process and registered and process.broker_epoch == registered.epoch else None

    def _hears(self, broker: Broker) -> bool:
        """Whether heartbeats of the registered process arrive."""
        return (
            self._registration(broker) is not None and broker.running and broker.reachable and self.controller_is_up()
        )

    def _lose_contact(self, broker: Broker) -> None:
        """No heartbeat arrives from now on: it is fenced when its session is over."""
        registered = self._registration(broker)
        if registered is None or not registered.contact:
            return
        registered.contact = False
        registered.generation += 1
        heard = self.events.now - self.random(0, HEARTBEAT_MS)
        if self.setup.late_heartbeats:
            # The controller takes one until half an interval later (ControllerApis.handleBrokerHeartBeatRequest).
            heard = self.events.now + self.random(0, HEARTBEAT_MS // 2)
        began = max((first for _, first in self.setup.fail_overs if first <= self.events.now), default=0)
        registered.last_heard_ms = max(heard, began, registered.last_heard_ms)
        self._plan_fence(broker)

    def _plan_fence(self, broker: Broker) -> None:
        registered = self.controller.brokers[broker.id]
        timeout = self.setup.session_timeout_ms
        at = registered.last_heard_ms + timeout + 1 + self.random(0, timeout // 4)
        self.events.at(at, self.fence_stale, broker, registered.generation)

    def fence_stale(self, broker: Broker, generation: int) -> None:
        registered = self.controller.brokers.get(broker.id)
        if registered is None or registered.contact or registered.generation != generation or registered.fenced:
            return
        if not self.controller_is_up():
            return  # the next controller plans anew
        self.controller.fence(broker.id)

    def fail_over(self) -> None:
        """A new controller is active: it takes every unfenced broker as just heard of."""
        for broker in self.brokers.values():
            registered = self.controller.brokers.get(broker.id)
            if registered is not None and not registered.contact and not registered.fenced:
                registered.last_heard_ms = self.events.now
                registered.generation += 1
                self._plan_fence(broker)

    def _regain_contact(self, broker: Broker) -> None:
        process = broker.process
        if process is not None and self._registration(broker) is not None:
            self.events.after(self.random(10, HEARTBEAT_MS), self.heartbeat, broker, process)

    def heartbeat(self, broker: Broker, process: Process) -> None:
        """The first one after a break, or after the registration: a fenced broker is unfenced if it is up to date."""
        if broker.process is not process:
            return
        registered = self._registration(broker)
        if registered is None:
            return
        if process.frozen or not broker.reachable:
            return  # thaw and heal ask again
        # A broker is unfenced when it has read its own registration (BrokerHeartbeatManager).
        is_loaded = process.loaded or broker.disk.failed
        if not self.controller_is_up() or not is_loaded or process.read <= registered.epoch:
            self.events.after(HEARTBEAT_MS, self.heartbeat, broker, process)
            return
        registered.contact, registered.last_heard_ms = True, self.events.now
        registered.generation += 1
        if registered.fenced and not registered.shutting_down:
            self.controller.unfence(broker.id)
        if not registered.fenced and not process.serving:
            self.events.after(self.random(5, 60), self.open, broker, process)

    def open(self, broker: Broker, process: Process) -> None:
        """The listener is opened, for as long as the process lives."""
        if broker.process is process and not process.serving:
            process.serving = True
            self.note(f"broker {broker.id} opens its listener")
            self.log_process(broker, "kafka_version", detail=self.setup.profile)  # KafkaRaftServer.startup
            if process.leading:
                self.reign(broker, process, process.leading)
                self.advance(broker)
                self._wake_followers(broker)

    def register(self, broker: Broker, process: Process) -> None:
        if broker.process is not process or process.broker_epoch is not None:
            return
        if process.frozen or not broker.reachable or not self.controller_is_up():
            self.events.after(1_000, self.register, broker, process)
            return
        accepted = self.controller.register(
            broker.id, process.incarnation, broker.disk.directories, process.previous_epoch
        )
        if not accepted:
            self.events.after(self.random(300, 2_000), self.register, broker, process)
            return
        process.broker_epoch = self.controller.brokers[broker.id].epoch
        self.log_process(broker, "broker_registered", broker_epoch=process.broker_epoch)
        self.events.after(self.random(200, 2_000), self.heartbeat, broker, process)

    # Disks of brokers that are down.

    def lose_marks(self, broker: Broker) -> None:
        """Its replication-offset-checkpoint gets lost (KAFKA-16452)."""
        if broker.process is None:
            broker.disk.marks = None
            self.set_back(broker)

    def lose_directory(self, broker: Broker) -> None:
        """The log directory is taken out of log.dirs after a clean stop: another one has the marker, too."""
        disk = broker.disk
        if broker.process is None and disk.marker is not None and len(disk.directories) > 1 and not disk.future:
            self._drop_directory(broker)

    def _drop_directory(self, broker: Broker) -> None:
        disk = broker.disk
        disk.failed, disk.directories = False, tuple(d for d in disk.directories if d != disk.directory)
        disk.directory = disk.directories[0]
        disk.topic_id, disk.log, disk.marks, disk.recovery_point, disk.starts = "", Log(), -1, -1, 0
        disk.marks_ms = self.events.now
        self.set_back(broker)

    def fail_directory(self, broker: Broker) -> None:
        """A disk fails, and the process runs on with its other directory: it neither leads nor follows the replica, and
        a heartbeat says so (ReplicaManager.handleLogDirFailure, BrokerLifecycleManager.propagateDirectoryFailure)."""
        process, disk, state = broker.process, broker.disk, self.controller.live
        if not process or not process.loaded or not process.serving or process.frozen or len(disk.directories) < 2:
            return
        if disk.future or state is None or disk.topic_id != state.topic_id or broker.id not in state.replicas:
            return
        if state.directories[state.replicas.index(broker.id)] != disk.directory:
            return
        self.note(f"broker {broker.id} loses its directory, log end {disk.log.end}")
        self.disturb(broker)
        self._stop_leading(process)
        self.ledger(disk.topic_id).process_ended(broker.id, disk.log)
        process.loaded, disk.failed = False, True
        self.events.after(self.random(20, 2_000), self._report_failure, broker, process)

    def _report_failure(self, broker: Broker, process: Process) -> None:
        if broker.process is process and broker.disk.failed:
            if self._hears(broker):
                self.controller.directory_failed(broker.id, broker.disk.directory)
            else:
                self.events.after(1_000, self._report_failure, broker, process)

    def _after_failure(self, broker: Broker) -> None:
        """The directory works again, perhaps without the last records, and has no marker
        (LogManager.readBrokerEpochFromCleanShutdownFiles); or it is taken out of log.dirs."""
        disk = broker.disk
        disk.failed = False
        if self.own_rng.random() < 0.5:
            self._drop_directory(broker)
            return
        disk.marker = None
        if lost := self.own_rng.choice((0, 0, 1, 3)):
            disk.torn = True
            self.set_back(broker)
            disk.log.lose(max(disk.log.end - lost, disk.log.base))

    def replace(self, broker: Broker) -> None:
        """Another machine has its id, which has run for long; its disks are new."""
        broker.boots += 1
        broker.booted_ms = -broker.boots * 100_000
        names = tuple(f"{name}{broker.id}-{broker.boots}" for name in ("d", "other"))
        broker.disk = Disk(names[0], names)
        self.set_back(broker)
        self.note(f"broker {broker.id} is another machine")
