"""What was acknowledged to the client, and what could be read afterwards."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from typing import Any

Place = tuple[str, int]  # topic id, partition


@dataclass
class SentRecord:
    """offset: None if the client does not know what became of the record. at_ms: when it was acknowledged, or given up.
    lost: acknowledged, and a later reader got something else at its offset, or nothing. key: None without one.
    unseen: as lost, or removed by retention or compaction: then nobody knows whether it had been lost before."""

    value: str
    acks: str
    sent_ms: int
    at_ms: int
    offset: int | None = None
    lost: bool = False
    key: str | None = None
    unseen: bool = False


@dataclass
class PartitionLedger:
    """markers_ms: when transactions ended, each with a record that no producer sees."""

    topic: str
    topic_id: str
    partition: int
    records: list[SentRecord] = field(default_factory=list)
    markers_ms: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def lost(self) -> list[SentRecord]:
        """The records acknowledged with acks=all that are lost."""
        return [record for record in self.records if record.lost and record.acks == "all"]

    def missed(self, found: Iterable[tuple[int, str]], begin: int = 0, is_compacted: bool = False) -> list[SentRecord]:
        """The acknowledged records that a reader lacks who got these, and no others, up to the high watermark.

        begin: where the log starts; what was before it was deleted. is_compacted: nor is one missed whose offset is
        empty, if a later record of its key was found.
        """
        held = dict(found)
        known = [(r.offset, r) for r in self.records if r.offset is not None]
        newest = {r.key: offset for offset, r in sorted(known, key=itemgetter(0)) if held.get(offset) == r.value}
        return [
            r
            for offset, r in known
            if offset >= begin
            and held.get(offset) != r.value
            and not (is_compacted and r.key and offset not in held and newest.get(r.key, -1) > offset)
        ]


@dataclass
class Ledger:
    """ids: the topic id that a name means now."""

    partitions: dict[Place, PartitionLedger] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def of(self, topic: str, partition: int) -> PartitionLedger:
        """A partition of the topic that has this name now."""
        place = self.ids[topic], partition
        return self.partitions.setdefault(place, PartitionLedger(topic, *place))

    def add(self, row: Mapping[str, Any]) -> None:
        """A line of the client: of an acknowledged record, a failed one, or a marker."""
        kind, told = next(iter(row.items()))
        of = self.of(told["topic"], told["partition"])
        if kind == "marker":
            of.markers_ms.append(told["sent_ms"])
            return
        offset = None if told.get("offset") == -1 else told.get("offset")
        known = {name: told[name] for name in ("value", "acks", "sent_ms", "at_ms")}
        of.records.append(SentRecord(**known, offset=offset, key=told.get("key")))

    def acknowledged(self) -> dict[str, int]:
        """Number of records by acks, and of those whose fate is not known."""
        every = (record for of in self.partitions.values() for record in of.records)
        return Counter("unknown" if record.offset is None else record.acks for record in every)

    def lost(self) -> dict[Place, PartitionLedger]:
        """The partitions that lost records that were acknowledged with acks=all."""
        return {place: of for place, of in self.partitions.items() if of.lost}

    def as_json(self) -> list[dict[str, Any]]:
        return [asdict(of) for of in self.partitions.values()]

    @staticmethod
    def from_json(rows: Iterable[Mapping[str, Any]]) -> "Ledger":
        """What `as_json` made, without ids."""
        every = (PartitionLedger(**{**r, "records": [SentRecord(**each) for each in r["records"]]}) for r in rows)
        return Ledger({(of.topic_id, of.partition): of for of in every})
