"""Boot ids of brokers' machines: between two readings of the same id the machine ran without a break, so that a process
that was killed lost nothing of what it had written. And when the machines started, by their uptime.

Source: Linux, /proc/sys/kernel/random/boot_id (a new random id at every start of the machine), /proc/uptime.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from operator import itemgetter
from typing import Any

from replay.arrow.runs import groups
from replay.cluster.brokers import BrokerState


@dataclass(frozen=True, slots=True)
class BootReading:
    """One reading of a machine's boot id, begun at captured_at_ms and done by read_by_ms, by the capturer's clock.

    booted_by_ms: when the machine had started at the latest, by the same clock. local_disks: whether all directories of
    logs are on disks of that machine. machine_id: the same for its runs. None: unknown, also the boot id.
    """

    boot_id: str | None
    captured_at_ms: int
    read_by_ms: int
    booted_by_ms: int | None = None
    local_disks: bool | None = None
    machine_id: str | None = None


# How far a boot time may be off beside the clock's error: uptimes are whole seconds, and clocks drift since the boot.
_UPTIME_MS = 2_000
# What `boots_of` reads of a row.
_MACHINE = ("booted_by_ms", "local_disks", "machine_id")
BOOT_COLUMNS = ("node_id", "boot_id", "captured_at_ms", "uncertainty_ms", *_MACHINE)
Boots = Mapping[int, Sequence[BootReading]]


def boots_of(rows: Iterable[Mapping[str, Any]]) -> dict[int, list[BootReading]]:
    """By broker, its readings in order of time. rows: BOOT_COLUMNS, of which those of the machine may be missing; rows
    without node_id or captured_at_ms, or with neither boot_id nor booted_by_ms, are left out."""
    result: dict[int, set[BootReading]] = defaultdict(set)
    for row in rows:
        node, boot_id, at = row["node_id"], row["boot_id"], row["captured_at_ms"]
        machine = [row.get(name) for name in _MACHINE]
        if node is not None and at is not None and (boot_id is not None or machine[0] is not None):
            result[node].add(BootReading(boot_id, at, at + (row["uncertainty_ms"] or 0), *machine))
    return {node: sorted(own, key=lambda r: (r.captured_at_ms, r.read_by_ms)) for node, own in result.items()}


@dataclass(frozen=True, slots=True)
class LoggedProcess:
    """A registered process by its server.log, in ms of UTC by its own clock: its last line, and the first and last one
    of the process after it in the same file (None: the file does not show it). next_epoch: that one's broker epoch
    (None: it did not register). quiet_until_ms: no process had begun after it by then, by the capturer's clock.
    signalled: it was, or may have been, asked to stop, so it may have logged nothing more while it ran on: Log4j 2
    stops in a shutdown hook of its own, beside Kafka's (seen on 4.0 to 4.4 with Kafka's own settings). A log without
    `Kafka version` may lack what else org.apache.kafka.common.utils prints (AppInfoParser, LoggingSignalHandler)."""

    last_ms: int
    next_ms: tuple[int, int] | None = None
    quiet_until_ms: int | None = None
    next_epoch: int | None = None
    signalled: bool = False

    @property
    def alone_until_ms(self) -> list[int]:
        """Times until which no other process of the broker had logged a line, if all lines are there."""
        return [at for at in (self.quiet_until_ms, self.next_ms and self.next_ms[0]) if at is not None]

    def was_last_until(self, timestamp_ms: int) -> bool:
        """Whether all lines that the node had logged by then were read, and its own are the last ones."""
        return self.quiet_until_ms is not None and timestamp_ms <= self.quiet_until_ms

    def is_of_the_next(self, timestamp_ms: int) -> bool:
        """Whether the process after it, and no later one, wrote a line of that time."""
        return self.next_ms is not None and self.next_ms[0] <= timestamp_ms <= self.next_ms[1]

    def unless_registered(self, broker_epoch: int, timestamp_ms: int, error_ms: int) -> "LoggedProcess":
        """What is left of it if the broker's next registration is that one: its process logged elsewhere, if the file
        does not have it and a later process, or the file's end, is later."""
        if broker_epoch == self.next_epoch:
            return self
        is_next = self.next_ms is not None and timestamp_ms >= self.next_ms[0] + error_ms
        is_quiet = self.quiet_until_ms is not None and timestamp_ms >= self.quiet_until_ms + error_ms
        return replace(
            self,
            next_ms=self.next_ms if is_next else None,
            quiet_until_ms=self.quiet_until_ms if is_quiet else None,
            next_epoch=self.next_epoch if is_next else None,
        )


# By (broker, broker epoch).
Processes = Mapping[tuple[int, int], LoggedProcess]


def processes_of(
    rows: Iterable[Mapping[str, Any]],
    incarnations: Mapping[tuple[int, int], str | None],
    registered: Iterable[BrokerState] = (),
    error_ms: int = 0,
) -> dict[tuple[int, int], LoggedProcess]:
    """The processes that nodes' logs name with their broker epoch. rows: NODE_BOOTS with its
    times in UTC (`evidence.broker_logs.anchors.boots_in_utc`; null where the zone or the clock is not known).

    One that has not logged that it loaded its logs is not known: a tool that writes to the same file, or a process that
    does not get the directories' lock (LogManager.lockLogDirs), logs a start, too, and the lines after are not its own.

    incarnations: the registered ones, by (broker, broker epoch). A file that names another one for that epoch is of
    another cluster: one that was set up anew goes on with the log files of the one before.

    registered: the first state of each; error_ms: of the clocks. A file does not show a process that logged elsewhere:
    one that was started by hand may have another LOG_DIR, or only a console (kafka-run-class.sh). One that did not
    register shows in how the next one finds the logs, unless both were killed.
    """
    files = groups((r for r in rows if r["node_id"] is not None), itemgetter("capture", "path", "node_id"))
    found: dict[tuple[int, int], LoggedProcess] = {}
    for own in files.values():
        ordered = sorted(own, key=lambda r: r["first_position"])
        for row, after in zip_longest(ordered, ordered[1:]):
            if None in (row["broker_epoch"], row["last_event_ms"], row["load_ms"]):
                continue
            key = row["node_id"], row["broker_epoch"]
            if row["incarnation_id"] is not None and incarnations.get(key) not in (None, row["incarnation_id"]):
                continue
            known = found.get(key, LoggedProcess(row["last_event_ms"]))
            # Of several copies the one counts that shows the earliest successor: a line may be missing in others.
            next_ms, next_epoch = known.next_ms, known.next_epoch
            span = None if after is not None and _ran_between(row, after) else _span(after)
            if after is not None and span is not None and (next_ms is None or span < next_ms):
                next_ms, next_epoch = span, after["broker_epoch"]
            quiet = [known.quiet_until_ms, row.get("whole_until_ms") if after is None else None]
            found[key] = LoggedProcess(
                max(known.last_ms, row["last_event_ms"]),
                next_ms,
                max((at for at in quiet if at is not None), default=None),
                next_epoch,
                known.signalled or row["stopped"] == "signal" or row["kafka_version"] is None,
            )
    later = sorted((state.broker_epoch, state.broker_id, state.timestamp_ms) for state in registered)
    for (broker, epoch), process in found.items():
        following_one = next(((e, at) for e, b, at in later if b == broker and e > epoch), None)
        if following_one is not None:
            found[broker, epoch] = process.unless_registered(*following_one, error_ms)
    return found


def _ran_between(row: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the next process of the file found the logs as the one before it did not leave them: another one, which
    logged elsewhere, stopped cleanly meanwhile, or deleted the file of a clean stop and was killed."""
    found = after.get("previous_shutdown")
    return found is not None and (row.get("stopped"), found) in ((None, "clean"), ("complete", "unclean"))


def _span(row: Mapping[str, Any] | None) -> tuple[int, int] | None:
    if row is None or not row["begins_in_file"] or None in (row["first_event_ms"], row["last_event_ms"]):
        return None
    return row["first_event_ms"], row["last_event_ms"]


def is_same_boot(readings: Sequence[BootReading], since_ms: int, until_ms: int, error_ms: int) -> bool:
    """Whether the machine certainly ran without a break from since_ms to until_ms.

    A reading from before and one from after have the same id, and so have all readings between them. Or one from after
    shows that it had started before, and that it is the machine on which the broker ran: its disks are its own.
    """
    later = (r for r in readings if r.captured_at_ms >= until_ms + error_ms)
    if any(_ran_since(readings, r, since_ms, error_ms) for r in later):
        return True
    readings = [r for r in readings if r.boot_id is not None]
    before = bisect_right(readings, since_ms - error_ms, key=lambda r: r.read_by_ms) - 1
    after = bisect_left(readings, until_ms + error_ms, key=lambda r: r.captured_at_ms)
    if before < 0 or after >= len(readings):
        return False
    between = readings[before : after + 1]
    # Disks that are not a machine's own may have been with another one, which started again, in between.
    return len({r.boot_id for r in between}) == 1 and not any(r.local_disks is False for r in between)


def ran_until_read(readings: Sequence[BootReading], since_ms: int, run: tuple[int, int], error_ms: int) -> bool:
    """Whether the machine certainly ran without a break from since_ms until files were read in one run with its uptime.

    run: when it began and was done. A run of `collect` is one process on the node, which ends with its machine.
    """
    read = (r for r in readings if (r.captured_at_ms, r.read_by_ms) == run)
    return any(_ran_since(readings, r, since_ms, error_ms) for r in read)


def _ran_since(readings: Sequence[BootReading], last: BootReading, since_ms: int, error_ms: int) -> bool:
    """Whether the machine of the last reading had started by since_ms, not again up to it, and had the broker's logs:
    no reading since then, nor the last one before, is of another machine, or of another run of it since that start.
    Disks, or what is on them, are moved to a machine that runs; or that ran, as its journal says later."""
    booted_by_ms = last.booted_by_ms
    if not last.local_disks or booted_by_ms is None or booted_by_ms + error_ms + _UPTIME_MS > since_ms:
        return False
    others = readings[max(bisect_right(readings, since_ms - error_ms, key=lambda r: r.read_by_ms) - 1, 0) :]
    since_its_start = {r.boot_id for r in others if booted_by_ms <= r.captured_at_ms <= last.captured_at_ms}
    named = {r.machine_id for r in others}, since_its_start | {last.boot_id}
    return all(len(each - {None}) < 2 for each in named)
