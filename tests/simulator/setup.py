"""What a simulated life is made of: its cluster, and the steps that happen to it."""

from dataclasses import dataclass
from typing import NamedTuple

# Every life begins at this time (ms), which no life's evidence is before.
BEGIN_MS = 1_000_000


class Step(NamedTuple):
    """One thing that happens, after_ms after the step before it. broker: picks a broker by its place among
    Setup.brokers (modulo). amount: how much of it; what that means is up to the step (see `steps`)."""

    name: str
    broker: int = 0
    amount: int = 0
    after_ms: int = 1_000


@dataclass(frozen=True)
class Setup:
    """A cluster with one partition, or with one topic after the other of one name that has it.

    brokers: ids; the first `replicas` of them hold the partition. profile: of replay.controller.profiles, whose
    decisions the controller takes. hwm_stands_below_min_isr: brokers of 3.7 or later. removes_at_registration:
    KAFKA-18106. fail_overs: (last ms of the old controller, first ms of the new one). skews_ms: how far each clock is
    ahead of true time: the controllers', the capturer's, then the brokers'. base_offset: where the metadata log begins,
    so that many lives can share one cluster. hidden_first_topic: the log before the first deletion was not captured.
    appends_by_itself: the topic is a coordinator's, to which a broker writes before anybody reaches it.
    compacted: its cleanup.policy is compact. request_threads: num.io.threads of every broker. min_isr_layer: the config
    that sets min ISR, the topic's or the cluster's default; brokers' files do not set it. reads_in_pieces: what was
    written while a broker was down, its next process publishes piece by piece. hushed: a process that gets a signal
    logs nothing more (the shutdown hook of Log4j 2). late_heartbeats: one of a killed process may arrive after that.
    late_requests: so may a leader's request for an ISR, to which it gets no answer. metadata_apart: the metadata log is
    on a disk of its own, which alone is replaced where otherwise the power fails.
    """

    brokers: tuple[int, ...] = (1, 2, 3)
    replicas: int = 3
    min_isr: int = 2
    elr: bool = True
    unclean: bool = False
    profile: str = "4.1.1"
    hwm_stands_below_min_isr: bool = True
    removes_at_registration: bool = True
    session_timeout_ms: int = 9_000
    checkpoint_interval_ms: int = 5_000
    replica_lag_time_max_ms: int = 30_000
    fail_overs: tuple[tuple[int, int], ...] = ()
    skews_ms: tuple[int, ...] = ()
    hidden_first_topic: bool = False
    appends_by_itself: bool = False
    compacted: bool = False
    request_threads: int = 8
    min_isr_layer: str = "topic"
    reads_in_pieces: bool = False
    hushed: bool = False
    late_heartbeats: bool = False
    late_requests: bool = False
    metadata_apart: bool = False
    cut_ms: int | None = None
    seed: int = 0
    topic: str = "t"
    partition: int = 0
    topic_ids: str = "T" * 18
    base_offset: int = 0

    @property
    def clock_error_ms(self) -> int:
        return max(0, *self.skews_ms, 0) - min(0, *self.skews_ms, 0)

    def skew_ms(self, place: int) -> int:
        """Of the controller (0), the capturer (1), or a broker by its place (from 2)."""
        return self.skews_ms[place % len(self.skews_ms)] if self.skews_ms else 0


def incarnation_id(broker: int, number: int) -> str:
    """Of a broker's process, as long as Kafka's are."""
    return f"i{broker}-{number}".ljust(22, "-")
