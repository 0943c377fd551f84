"""What somebody sees who captures: rounds of small files and of the exporter's text, and copies of disks.

Every file of a round is read at a moment of its own. Rows are as evidence.tables.LOG_END_OFFSETS has them; those of
sources that know the topic only by name have no topic id yet.
"""

import random
from typing import Any

from evidence.offsets.replica_log import LAST_BATCHES
from evidence.tables import LOG_END_OFFSETS
from tests.simulator.broker import Broker, Process
from tests.simulator.node_logs import Reading
from tests.simulator.sessions import Sessions
from tests.simulator.setup import Setup

Row = dict[str, Any]

NO_ROW: Row = dict.fromkeys(LOG_END_OFFSETS.names)
DISK_COPY_MS = 1_500


class Captures(Sessions):
    """rows: everything that was read so far. logs_read: by path, (ms, the records of that broker's log, the offsets of
    what the cleaner removed from it) when it was. readings: of boot ids."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.rows: list[Row] = []
        self.logs_read: dict[str, tuple[int, list[int], frozenset[int]]] = {}
        self.readings: list[Reading] = []
        self._rounds = 0
        self._chance = random.Random(setup.seed)  # a life that is kept goes as it went before clients asked

    def capture(self, takes_ms: int, timed: bool = True) -> None:
        """A round: of every broker that was ever there."""
        self._rounds += 1
        read = common = self._common(self._rounds, takes_ms)
        if not timed:
            common = {**read, "captured_at_ms": None, "uncertainty_ms": None}
        for broker in self.brokers.values():
            at = [self.random(0, takes_ms) for _ in range(5)]
            after = self.events.after
            after(int(self.own_rng.random() * takes_ms), self._read_boot_id, broker, read, broker.boots)
            after(at[0], self._read_marks, broker, common)
            after(at[1], self._read_epochs, broker, common)
            after(at[2], self._read_recovery_point, broker, common, at[3] - at[2])
            after(at[4], self._scrape, broker, read, min(self.random(0, 80), takes_ms - at[4]))
        self.events.after(int(self._chance.random() * takes_ms), self._ask, read)

    def copy_disk(self, broker: Broker, timed: bool) -> None:
        """One broker's directory, running or not: its last segment, its epochs, and the marker of a clean stop."""
        self._rounds += 1
        common = self._common(self._rounds, DISK_COPY_MS)
        if not timed:
            common |= {"captured_at_ms": None, "uncertainty_ms": None}
        at = [self.random(0, DISK_COPY_MS) for _ in range(2)]
        self.events.after(at[0], self._read_segment, broker, common, self.random(0, DISK_COPY_MS) - at[0])
        self.events.after(at[1], self._read_epochs, broker, common)

    def _common(self, number: int, takes_ms: int) -> Row:
        return {
            **NO_ROW,
            "topic": self.setup.topic,
            "partition": self.setup.partition,
            "captured_at_ms": self.events.now + self.setup.skew_ms(1),
            "uncertainty_ms": takes_ms,
            "capture": "c",
            "path": str(number),
            "sha256": "00",
            "position": 0,
        }

    def _row(self, broker: Broker, common: Row, source: str, directory: str | None = None, **values: Any) -> Row:
        row = {**common, **values, "broker_id": broker.id, "source": source}
        folder = broker.disk.directory if directory is None else directory
        folder += "/t-0" if source in ("leader_epoch", "replica_segment") else ""
        row["path"] = f"{common['path']}/b{broker.id}/{folder}/{source}"
        self.rows.append(row)
        self.logs_read[row["path"]] = self.events.now, broker.log.records, broker.log.compacted
        return row

    def _read_boot_id(self, broker: Broker, common: Row, boots: int) -> None:
        """The machine may run without the process, or be off until somebody starts both. boots: as the round began."""
        if broker.process is not None or self.own_rng.random() < 0.5:
            boot_id, at_ms, takes_ms = f"{broker.id}-{broker.boots}", common["captured_at_ms"], common["uncertainty_ms"]
            uptime_ms = (self.events.now - broker.booted_ms) // 1_000 * 1_000
            booted_by_ms = at_ms + takes_ms - uptime_ms if self.setup.seed % 3 else None
            reading = Reading(broker.id, boot_id, at_ms, takes_ms, booted_by_ms)
            ended_ms = at_ms - self.setup.skew_ms(1) + takes_ms
            self.events.after(ended_ms - self.events.now, self._end_round, broker, boots, reading)

    def _end_round(self, broker: Broker, boots: int, reading: Reading) -> None:
        """A round is one process on the node, which ends with its machine (jobs/collect/node.sh)."""
        if broker.boots == boots:
            self.readings.append(reading)

    def _read_marks(self, broker: Broker, common: Row) -> None:
        marks = broker.disk.marks
        if marks is not None and marks >= 0:
            self._row(broker, common, "replication_offset", high_watermark=marks)
            if self.setup.seed % 2 == 0:  # the file says when it was written, in whole seconds of the broker's clock
                skew_ms = self.setup.skew_ms(2 + broker.place)
                at_ms = (broker.disk.marks_ms + skew_ms) // 1_000 * 1_000 - skew_ms + self.setup.skew_ms(1)
                written = {"captured_at_ms": at_ms, "uncertainty_ms": 1_000}
                self._row(broker, common | written, "replication_offset", high_watermark=marks)

        if broker.disk.starts:
            self._row(broker, common, "log_start_offset", log_start_offset=broker.disk.starts)

    def _read_epochs(self, broker: Broker, common: Row) -> None:
        disk = broker.disk
        if not disk.topic_id:
            return
        position = len(f"0\n{len(disk.log.entries)}\n")
        for epoch, start in disk.log.entries:
            values = {"leader_epoch": epoch, "epoch_start_offset": start, "position": position}
            self._row(broker, common, "leader_epoch", topic_id=disk.topic_id, **values)
            position += len(f"{epoch} {start}\n")

    def _read_recovery_point(self, broker: Broker, common: Row, marker_after_ms: int) -> None:
        point = broker.disk.recovery_point
        if point >= 0:
            self._with_marker(broker, common, marker_after_ms, "recovery_point", {"recovery_point_offset": point})
        if broker.disk.future is not None and broker.disk.marker is not None:
            # The file of the other directory has the log that was being moved there (LogManager.logsByDir).
            other, log = broker.disk.future
            values = {"recovery_point_offset": log.end, "directory": other}
            self._with_marker(broker, common, marker_after_ms, "recovery_point", values)

    def _read_segment(self, broker: Broker, common: Row, marker_after_ms: int) -> None:
        disk = broker.disk
        if disk.topic_id and disk.log.end > disk.log.start:
            batches = [b for b in disk.log.batches if b >= disk.log.start][-LAST_BATCHES:]
            values = {"log_end_offset": disk.log.end, "last_written_leader_epoch": disk.log.epochs[-1]}
            values["last_batch_offsets"] = batches or None
            self._with_marker(broker, common, marker_after_ms, "replica_segment", {**values, "topic_id": disk.topic_id})

    def _with_marker(self, broker: Broker, common: Row, after_ms: int, source: str, values: Row) -> None:
        """The marker is read at another moment; before it: as it was just now."""
        row = self._row(broker, common, source, **values)

        def read() -> None:
            epoch = broker.disk.marker
            row["broker_epoch"] = None if epoch == -1 or broker.disk.failed else epoch

        if after_ms > 0:
            self.events.after(after_ms, read)
        else:
            read()

    def _ask(self, common: Row) -> None:
        """A client asks whom it takes for the leader for the latest offset (Partition.fetchOffsetForTimestamp: none
        before the high watermark has reached the leader's epoch)."""
        running = (broker.process for broker in self.brokers.values() if broker.running)
        leaders = [process for process in running if process and process.leading and process.leading.reign]
        if leaders:
            process = self._chance.choice(leaders)
            log = process.leading.reign.log
            if process.high_watermark >= log.entries[-1][1]:
                told = {"source": "get_offsets", "high_watermark": process.high_watermark}
                self.rows.append({**common, **told, "path": f"{common['path']}/get_offsets"})

    def _scrape(self, broker: Broker, common: Row, apart_ms: int) -> None:
        """The exporter asks a process for one value after the other."""
        process = broker.process
        if process is None or process.frozen:
            return
        values: Row = {"process_start_ms": process.started_ms + self.setup.skew_ms(2 + broker.place)}
        parts = [self._scrape_log_end, self._scrape_isr]
        if self.rng.random() < 0.5:
            parts.reverse()
        parts[0](broker, process, values)
        self.events.after(apart_ms, self._finish_scrape, broker, common, process, parts[1], values)

    def _finish_scrape(self, broker: Broker, common: Row, process: Process, part: Any, values: Row) -> None:
        if broker.process is process and not process.frozen:
            part(broker, process, values)
            if "log_end_offset" in values:
                self._row(broker, common, "jmx_exporter", **values)

    def _scrape_log_end(self, broker: Broker, process: Process, values: Row) -> None:
        if broker.disk.failed:
            return  # LogManager.removeLogAndMetrics
        if not process.loaded:
            values["log_end_offset"] = 0
        elif broker.disk.topic_id:
            values |= {"log_end_offset": broker.log.end, "log_start_offset": broker.log.start}

    def _scrape_isr(self, broker: Broker, process: Process, values: Row) -> None:
        leading = process.leading
        isr = len(leading.isr) if leading else 0
        below = leading is not None and isr < min(process.min_isr, len(leading.replicas))
        values |= {"in_sync_replicas_count": isr, "under_min_isr": below}
