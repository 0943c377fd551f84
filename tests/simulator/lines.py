"""When a broker's process logs which line: Kafka's Partition (makeLeader, makeFollower), UnifiedLog.truncateTo,
ReplicaFetcherThread and LogManager.
"""

from tests.simulator.broker import Broker, Leading, Process
from tests.simulator.controller import State
from tests.simulator.network import Network


class Lines(Network):
    """What the brokers log as they replicate."""

    def log_start(self, broker: Broker) -> None:
        if broker.disk.topic_id:
            kind = "unclean_start" if broker.disk.marker is None else "clean_start"
            self.log(broker, kind, directory=self._folder(broker), count=1)

    def log_load(self, broker: Broker, lost: bool) -> None:
        disk = broker.disk
        if not disk.topic_id:
            return
        folder = self._folder(broker)
        if lost:
            self.log(broker, "corruption_found", directory=folder, truncated_to=disk.log.end)
        values = {"log_start_offset": disk.log.start, "log_end_offset": disk.log.end, "duration_ms": 5}
        self.log(broker, "log_load_completed", directory=folder, **values)

    def log_partition(self, broker: Broker, process: Process) -> None:
        """The process learns that it is a replica."""
        self.log(broker, "partition_created")
        self.log(broker, "log_loaded", high_watermark=process.high_watermark)

    def log_epoch(self, broker: Broker, process: Process, state: State) -> None:
        """The process begins to lead or to follow in a leader epoch."""
        leader, epoch = process.known or (None, -1)
        process.known = state.leader, state.leader_epoch
        values = {
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
            "log_end_offset": broker.log.end,
            "high_watermark": process.high_watermark,
        }
        if state.leader == broker.id:
            values |= {"isr": list(state.isr), "under_min_isr": self.is_under_min_isr(process, state)}
            self.log(broker, "leader_started", **values, previous_leader=leader, previous_leader_epoch=epoch)
            return
        if not self.prints_as_4_2(broker):
            leader, epoch = process.known
        values |= {"leader": state.leader}
        self.log(broker, "follower_started", **values, previous_leader=leader, previous_leader_epoch=epoch)

    def log_state(self, broker: Broker, process: Process, state: State) -> None:
        """The process learns a state of a leader epoch that it knows."""
        values = {"leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch}
        if state.leader != broker.id:
            self.log(broker, "follower_unchanged", **values)
        elif process.leading:
            isr = list(state.isr)
            self.log(broker, "leader_unchanged", **values, high_watermark=process.high_watermark, isr=isr)

    def log_truncation(self, broker: Broker, leader: Broker, told: tuple[int, int], before: tuple[int, int]) -> None:
        """told: the leader's answer to a fetch. before: the log end and the high watermark before it."""
        end, mark = before
        to, folder = broker.log.end, self._folder(broker)
        if told[0] < 0:
            self.log(broker, "fetch_offset_reset", leader=leader.id, log_end_offset=end, truncated_to=to)
        else:
            values = {"truncated_to": to, "leader_epoch": told[0], "leader_end_offset": told[1]}
            self.log(broker, "truncating_to_leaders_epoch", leader=leader.id, **values)
        if to == end:
            self.log(broker, "truncation_without_effect", directory=folder, truncated_to=to, log_end_offset=end)
            return
        if self.prints_as_4_2(broker) and to < mark:
            self.log(broker, "truncated_below_high_watermark", directory=folder, truncated_to=to, high_watermark=mark)
        self.log(broker, "truncated", directory=folder, truncated_to=to)
        self.log_set_back(broker, mark, min(mark, to))

    def log_set_back(self, broker: Broker, before: int, after: int) -> None:
        if after < before:
            values = {"previous_high_watermark": before, "high_watermark": after}
            self.log(broker, "high_watermark_set_back", directory=self._folder(broker), **values)

    def log_shrinking(self, broker: Broker, process: Process, leading: Leading, isr: list[int]) -> None:
        late = [b for b in leading.isr if b not in isr]
        values = {
            "previous_isr": list(leading.isr),
            "isr": list(isr),
            "high_watermark": process.high_watermark,
            "log_end_offset": broker.log.end,
            "out_of_sync": [self._out_of_sync(leading, follower) for follower in late],
        }
        self.log(broker, "isr_shrinking", **values)

    @staticmethod
    def _out_of_sync(leading: Leading, follower: int) -> dict[str, int]:
        end, caught_up_ms = leading.log_ends.get(follower, -1), leading.caught_up_ms.get(follower, 0)
        return {"broker_id": follower, "log_end_offset": end, "last_caught_up_ms": caught_up_ms}

    def log_isr(self, broker: Broker, process: Process, state: State) -> None:
        """The controller accepted an ISR."""
        under = self.is_under_min_isr(process, state)
        values = {"isr": list(state.isr), "partition_epoch": state.partition_epoch, "under_min_isr": under}
        self.log(broker, "isr_updated", **values)

    @staticmethod
    def is_under_min_isr(process: Process, state: State) -> bool:
        return len(state.isr) < min(process.min_isr, len(state.replicas))

    @staticmethod
    def _folder(broker: Broker) -> str:
        return f"/var/lib/kafka/{broker.disk.directory}"
