"""The active controller: what it knows, and the batches of records that it writes.

Follows Kafka's ReplicationControlManager and ClusterControlManager; a PartitionChangeRecord is what
tests.support.scalar_builder decides.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from replay.controller.partition_change_builder import (
    ELECT_ONLINE,
    ELECT_UNCLEAN,
    KEEP_RECOVERY,
    NO_CHANGE,
    NO_LEADER,
    RECOVERED,
)
from replay.controller.profiles import PROFILES
from tests.simulator.setup import Setup, incarnation_id
from tests.support.scalar_builder import Case, build, without

Row = dict[str, Any]
UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAA"
CHANGE = "BROKER_REGISTRATION_CHANGE_RECORD"


@dataclass(slots=True)
class State:
    """A partition as one record left it. offset and batch: of that record and of its batch."""

    offset: int
    batch: int
    at_ms: int
    topic_id: str
    replicas: list[int]
    isr: list[int]
    elr: list[int]
    lke: list[int]
    removing: list[int]
    adding: list[int]
    directories: list[str]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery: int
    min_isr: int
    unclean: bool
    removed: bool = False


@dataclass(slots=True)
class Registration:
    """A broker as the controller has it. contact: whether heartbeats arrive; generation: of that answer."""

    epoch: int
    incarnation: int
    directories: tuple[str, ...]
    fenced: bool = True
    shutting_down: bool = False
    last_heard_ms: int = 0
    contact: bool = True
    generation: int = 0

    @property
    def active(self) -> bool:
        return not self.fenced and not self.shutting_down


@dataclass
class Controller:
    """wrote: called after each batch, with the partition's states before and after it. changed: called with those
    before and after each record. logs: called with kind and values of a line about a registration. elr_levels and
    min_isr_levels: (offset, value) since when. next_offset: of the metadata log."""

    setup: Setup
    now: Callable[[], int]
    noise: Callable[[], int]
    elected: Callable[[State, State], None]
    changed: Callable[[State | None, State], None]
    logs: Callable[..., None]
    wrote: Callable[[], None]
    state: State | None = None
    brokers: dict[int, Registration] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    records: list[Row] = field(default_factory=list)
    # How the stop before a registration was taken, by its offset.
    restarts: dict[int, str] = field(default_factory=dict)
    elr: bool = False
    min_isr: int = 2
    unclean: bool = False
    elr_levels: list[tuple[int, bool]] = field(default_factory=list)
    min_isr_levels: list[tuple[int, int]] = field(default_factory=list)
    next_offset: int = 0
    unregistered: set[int] = field(default_factory=set)
    _batch: int | None = None
    # (offset, brokers): up to which offset, and who was active then.
    _known_active: tuple[int, frozenset[int]] = (-1, frozenset())

    # Batches.

    def _offset(self) -> int:
        """Take the next offset; the first one of a batch is its base."""
        if self._batch is None:
            self.next_offset += self.noise()
            self._batch = self.next_offset
        self.next_offset += 1
        return self.next_offset - 1

    def end_batch(self) -> None:
        if self._batch is not None:
            self._batch = None
            self.wrote()

    def _place(self) -> tuple[int, int, int]:
        offset = self._offset()
        assert self._batch is not None
        return offset, self._batch, self.now() + self.setup.skew_ms(0)

    def _write(self, state: State, **changes: Any) -> State:
        offset, batch, at_ms = self._place()
        shared = {"min_isr": min(self.min_isr, len(changes.get("replicas", state.replicas))), "unclean": self.unclean}
        before = self.state
        self.state = replace(state, offset=offset, batch=batch, at_ms=at_ms, **{**shared, **changes})
        self.states.append(self.state)
        self.changed(before, self.state)
        same = before is not None and before.topic_id == self.state.topic_id
        if same and before.leader_epoch != self.state.leader_epoch and self.state.leader >= 0:  # type: ignore[union-attr]
            self.elected(before, self.state)  # type: ignore[arg-type]
        return self.state

    def _session(self, kind: str, broker: int, **data: Any) -> None:
        offset, batch, at_ms = self._place()
        place = {"offset": offset, "batch_base_offset": batch, "timestamp_ms": at_ms, "type": kind}
        self.records.append({**place, "data": {"brokerId": broker, "brokerEpoch": self.brokers[broker].epoch, **data}})

    # Topics, configs, features.

    def create_topic(self, topic_id: str, replicas: list[int]) -> None:
        isr = [b for b in replicas if self.active(b)]
        directories = [self.brokers[b].directories[0] for b in replicas]
        empty: list[int] = []
        lists = (list(replicas), isr, empty, empty, empty, empty, directories)
        leader = isr[0]
        offset = self.next_offset
        self._write(State(offset, offset, 0, topic_id, *lists, leader, 0, 0, RECOVERED, 0, False))
        self.end_batch()

    def delete_topic(self) -> None:
        if self.state is not None and not self.state.removed:
            self._write(self.state, removed=True)
            self.end_batch()

    def min_isr_at(self, offset: int) -> int:
        """What it was after the metadata log's record at that offset."""
        return next((value for at, value in reversed(self.min_isr_levels) if at <= offset), self.setup.min_isr)

    def set_min_isr(self, value: int) -> None:
        """Any change of it clears ELR and last known ELR, where ELR is on."""
        offset = self._offset()
        self.min_isr = value
        self.min_isr_levels.append((offset, value))
        state = self.live
        if self.elr and state and (state.elr or state.lke):
            self._write(state, elr=[], lke=[], partition_epoch=state.partition_epoch + 1)
        self.end_batch()

    def set_unclean(self, value: bool) -> None:
        self._offset()
        self.unclean = value
        self.end_batch()

    def set_elr(self, enabled: bool) -> None:
        self.elr_levels.append((self._offset(), enabled))
        self.elr = enabled
        self.end_batch()

    # Brokers.

    def active(self, broker: int) -> bool:
        return broker in self.brokers and self.brokers[broker].active

    @property
    def all_active(self) -> frozenset[int]:
        if self._known_active[0] != self.next_offset:
            self._known_active = self.next_offset, frozenset(b for b, own in self.brokers.items() if own.active)
        return self._known_active[1]

    def register(self, broker: int, incarnation: int, directories: tuple[str, ...], previous_epoch: int) -> bool:
        """False: refused, an older incarnation's session is still valid (DuplicateBrokerRegistration)."""
        old, changes, is_clean = self.brokers.get(broker), 0, None
        if old is not None:
            valid = not old.fenced and self.now() - old.last_heard_ms <= self.setup.session_timeout_ms
            if (valid or (old.contact and not old.fenced)) and not old.shutting_down:
                return False
        if old is not None or broker in self.unregistered:
            is_clean = (old is not None and previous_epoch == old.epoch) if self.elr else None
            if is_clean is False:
                for _ in range(self._has("isr", broker) + self._has("elr", broker)):
                    if self.change(unclean_shutdown=broker):
                        self.logs("unclean_shutdown_handled", count=1)
                        changes += 1
            elif self.setup.removes_at_registration and self._has("isr", broker):
                changes += self.change(remove=broker)
        offset = self._offset()
        if is_clean is not None:
            self.restarts[offset] = "clean" if is_clean else "unclean"
        epoch = self._batch if self._batch is not None else offset
        who = {"broker_id": broker, "incarnation_id": incarnation_id(broker, incarnation)}
        self.logs("incarnation_registered", **who, broker_epoch=epoch, count=changes)
        generation = old.generation + 1 if old else 0
        self.brokers[broker] = Registration(
            epoch, incarnation, directories, last_heard_ms=self.now(), generation=generation
        )
        place = {"offset": offset, "batch_base_offset": epoch, "timestamp_ms": self.now() + self.setup.skew_ms(0)}
        data = {"brokerId": broker, "brokerEpoch": epoch, "incarnationId": incarnation_id(broker, incarnation)}
        data |= {"fenced": True, "inControlledShutdown": False, "logDirs": list(directories)}
        # A broker of 3.6 supports up to 3.6-IV2, one of 4.1 up to 4.1-IV1.
        newest = 27 if self.setup.hwm_stands_below_min_isr else 14
        data["features"] = [{"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": newest}]
        self.records.append({**place, "type": "REGISTER_BROKER_RECORD", "data": data})
        self.end_batch()
        return True

    def fence(self, broker: int) -> None:
        if self._has("isr", broker):
            self.change(remove=broker)
        self._session(CHANGE, broker, fenced=1, inControlledShutdown=0)
        self.brokers[broker].fenced = True
        self.end_batch()

    def unfence(self, broker: int) -> None:
        self._session(CHANGE, broker, fenced=-1, inControlledShutdown=0)
        self.brokers[broker].fenced = False
        if self.live and self.live.leader < 0:
            self.change(add=broker)
        self.end_batch()

    def unregister(self, broker: int) -> None:
        """ReplicationControlManager.handleBrokerUnregistered."""
        if broker in self.brokers:
            self.change(remove=broker)
            offset, batch, at_ms = self._place()
            data = {"brokerId": broker, "brokerEpoch": self.brokers.pop(broker).epoch}
            place = {"offset": offset, "batch_base_offset": batch, "timestamp_ms": at_ms}
            self.records.append({**place, "type": "UNREGISTER_BROKER_RECORD", "data": data})
            self.unregistered.add(broker)
            self.end_batch()

    def directory_failed(self, broker: int, directory: str) -> None:
        """ReplicationControlManager.handleDirectoriesOffline."""
        registered = self.brokers[broker]
        if directory in registered.directories:
            self.change(remove=broker)
            registered.directories = tuple(d for d in registered.directories if d != directory)
            data = {"fenced": 0, "inControlledShutdown": 0, "logDirs": list(registered.directories)}
            self._session(CHANGE, broker, **data)
            self.end_batch()

    def shut_down(self, broker: int) -> None:
        self._session(CHANGE, broker, fenced=0, inControlledShutdown=1)
        self.brokers[broker].shutting_down = True
        if self._has("isr", broker):
            self.change(remove=broker)
        self.end_batch()

    # Partition changes.

    @property
    def live(self) -> State | None:
        return self.state if self.state and not self.state.removed else None

    def _has(self, name: str, broker: int) -> bool:
        return self.live is not None and broker in getattr(self.live, name)

    def acceptable(self, broker: int, add: int | None) -> bool:
        """ReplicationControlManager.LeaderAcceptor: active, or made so, and the directory of its replica, if it has
        one, is there."""
        if not (self.active(broker) or broker == add) or self.live is None:
            return False
        if broker not in self.live.replicas:
            return True
        directory = self.live.directories[self.live.replicas.index(broker)]
        return directory == UNASSIGNED or directory in self.brokers[broker].directories

    def change(
        self,
        remove: int | None = None,
        add: int | None = None,
        unclean_shutdown: int | None = None,
        isr: Iterable[int] | None = None,
        election: int | None = None,
        recovery: int | None = None,
        replicas: list[int] | None = None,
        adding: list[int] | None = None,
        removing: list[int] | None = None,
        directories: dict[int, str] | None = None,
    ) -> bool:
        """Write the partition's change, if there is any; the batch stays open."""
        state = self.live
        if state is None:
            return False
        gone = [b for b in (remove, unclean_shutdown) if b is not None]
        wanted = state.replicas if replicas is None else replicas
        may_lead = [b for b in wanted if self.acceptable(b, add) and b not in gone]
        case = Case(
            replicas=state.replicas,
            isr=state.isr,
            elr=state.elr,
            last_known_elr=state.lke,
            removing=state.removing,
            adding=state.adding,
            directories=[0] * len(state.replicas),
            leader=state.leader,
            recovery=state.recovery,
            election=(ELECT_UNCLEAN if self.unclean else ELECT_ONLINE) if election is None else election,
            acceptable=may_lead,
            target_isr=without(state.isr if isr is None else list(isr), gone),
            target_replicas=wanted,
            target_removing=state.removing if removing is None else removing,
            target_adding=state.adding if adding is None else adding,
            target_recovery=state.recovery if recovery is None else recovery,
            unclean_shutdown=[] if unclean_shutdown is None else [unclean_shutdown],
            min_isr=min(self.min_isr, len(state.replicas)),
            elr_enabled=self.elr,
            marks_recovery=True,
            bumps_leader_epoch_on_shrink=False,
            has_directories=False,
        )
        record = build(case, PROFILES[self.setup.profile])
        written = {name: getattr(record, name) for name in ("isr", "elr", "replicas", "removing", "adding")}
        written["lke"] = record.last_known_elr
        changes: dict[str, Any] = {name: value for name, value in written.items() if value is not None}
        if record.recovery != KEEP_RECOVERY:
            changes["recovery"] = record.recovery
        if record.leader != NO_CHANGE:
            changes |= {"leader": record.leader, "leader_epoch": state.leader_epoch + 1}
        own = dict(zip(state.replicas, state.directories, strict=True)) | (directories or {})
        if directories or record.replicas is not None:
            changes["directories"] = [own.get(b, UNASSIGNED) for b in changes.get("replicas", state.replicas)]
        if not changes:
            return False
        self._write(state, **changes, partition_epoch=state.partition_epoch + 1)
        return True

    def elect_uncleanly(self) -> None:
        """An administrator asks for it; skipped while there is a leader."""
        if self.live and self.live.leader == NO_LEADER:
            self.change(election=ELECT_UNCLEAN)
            self.end_batch()

    def alter_partition(self, leader: int, epochs: tuple[int, int, int], isr: list[int]) -> str:
        """A leader's request. epochs: the broker's, the leader's, the partition's, as the leader knows them. Returns
        ok, stale (wait for the metadata), or refused (try again later)."""
        state, registered = self.live, self.brokers.get(leader)
        if state is None or state.leader != leader or (state.leader_epoch, state.partition_epoch) != epochs[1:]:
            return "stale"
        if registered is None or registered.epoch != epochs[0]:
            return "refused"
        if any(b not in state.replicas or not self.active(b) for b in isr):
            return "refused"
        self.change(isr=isr, recovery=RECOVERED)
        self.end_batch()
        return "ok"
