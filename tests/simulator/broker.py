"""A broker: its disk, its process, and what it believes about the partition."""

from dataclasses import dataclass, field

from tests.simulator.controller import State
from tests.simulator.logs import Log
from tests.simulator.truth import Reign


@dataclass(slots=True)
class Disk:
    """What outlives a process. marks: replication-offset-checkpoint, by topic name only (None: the file is lost; -1: it
    has no line of the topic), which was written at marks_ms. recovery_point: likewise. marker: the epoch in
    .kafka_cleanshutdown, None without one. log: of the topic that topic_id names. directory: the id of the log
    directory. starts: its log-start-offset-checkpoint, by topic name only (0: no line). future: the log that a move
    between directories has copied so far, in the directory of that id. torn: the machine crashed and took the log's end
    with it. failed: its directory went offline while the process ran. forgot: the metadata log's end is gone, too.
    read: offset of the last state that a process published."""

    directory: str
    directories: tuple[str, ...]
    topic_id: str = ""
    log: Log = field(default_factory=Log)
    marks: int | None = -1
    marks_ms: int = 0
    recovery_point: int = -1
    starts: int = 0
    marker: int | None = None
    torn: bool = False
    failed: bool = False
    forgot: bool = False
    read: int = -1
    future: tuple[str, Log] | None = None


@dataclass(slots=True)
class Leading:
    """A process that acts as leader. reign: None while nobody can reach it. isr: as committed; pending: as asked for.
    log_ends and caught_up_ms: of the followers, as their fetches told. waiting: how many request threads wait for the
    log, each with a batch of its own in it, to move the high watermark; None while no disk hangs. broker_epochs: with
    which the followers fetched, -1 before they had registered."""

    epoch: int
    reign: Reign | None
    isr: list[int]
    partition_epoch: int
    replicas: list[int]
    pending: list[int] | None = None
    log_ends: dict[int, int] = field(default_factory=dict)
    caught_up_ms: dict[int, int] = field(default_factory=dict)
    waiting: int | None = None
    broker_epochs: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Process:
    """incarnation: of the broker; broker_epoch: of its registration, None before that. view: the partition as it last
    heard of it. active: the brokers that were neither fenced nor shutting down then. read: the metadata offset up to
    which it has read; to_read: earlier states that it reads one by one before the last one. known: (leader, leader
    epoch) that it last led or followed. loaded: its log is. serving: its listener is open. quiet: it has all that its
    leader has, and keeps fetching. hushed: it logs nothing more."""

    incarnation: int
    started_ms: int
    previous_epoch: int
    broker_epoch: int | None = None
    loaded: bool = False
    serving: bool = False
    read: int = -1
    to_read: list[State] = field(default_factory=list)
    active: frozenset[int] = frozenset()
    frozen: bool = False
    stopping: bool = False
    view: State | None = None
    known: tuple[int, int] | None = None
    min_isr: int = 1
    high_watermark: int = 0
    leading: Leading | None = None
    quiet: bool = False
    fetching: bool = False
    delivering: bool = False
    checkpointing: bool = False
    hushed: bool = False


@dataclass(slots=True)
class Broker:
    """place: among Setup.brokers. reachable: by the controller. lags_until_ms: its metadata thread waits until then.
    boots: how often its machine was started; booted_ms: when it last was."""

    id: int
    place: int
    disk: Disk
    process: Process | None = None
    reachable: bool = True
    lags_until_ms: int = 0
    incarnations: int = 0
    boots: int = 0
    booted_ms: int = 0

    @property
    def running(self) -> bool:
        return self.process is not None and not self.process.frozen

    @property
    def log(self) -> Log:
        return self.disk.log
