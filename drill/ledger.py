"""What was acknowledged to the client, and what could be read afterwards."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Place = tuple[str, int]  # topic id, partition


@dataclass
class SentRecord:
    """offset: None if the client does not know what became of the record. at_ms: when it was acknowledged, or given up.
    lost: acknowledged, and a later reader got something else at its offset, or nothing."""

    value: str
    acks: str
    sent_ms: int
    at_ms: int
    offset: int | None = None
    lost: bool = False


@dataclass
class Ledger:
    """records: by topic id and partition. markers_ms: when transactions of a partition ended, each with a record that
    no producer sees. ids: the topic id that a name means now; names: by topic id."""

    records: dict[Place, list[SentRecord]] = field(default_factory=lambda: defaultdict(list))
    markers_ms: dict[Place, list[int]] = field(default_factory=lambda: defaultdict(list))
    ids: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def created(self, topic: str, topic_id: str) -> None:
        self.ids[topic], self.names[topic_id] = topic_id, topic

    def add(self, row: Mapping[str, Any]) -> None:
        """A line of the client: of an acknowledged record, a failed one, or a marker."""
        kind, told = next(iter(row.items()))
        place = (self.ids[told["topic"]], told["partition"])
        if kind == "marker":
            self.markers_ms[place].append(told["sent_ms"])
            return
        offset = None if told.get("offset") == -1 else told.get("offset")
        known = {name: told[name] for name in ("value", "acks", "sent_ms", "at_ms")}
        self.records[place].append(SentRecord(**known, offset=offset))

    def missed(self, topic: str, partition: int, found: Iterable[tuple[int, str]]) -> list[SentRecord]:
        """The acknowledged records that a reader lacks who got these, and no others, up to the high watermark."""
        held, of = dict(found), self.records[self.ids[topic], partition]
        return [r for r in of if r.offset is not None and held.get(r.offset) != r.value]

    def acknowledged(self) -> dict[str, int]:
        """Number of records by acks, and of those whose fate is not known."""
        every = (record for records in self.records.values() for record in records)
        return Counter("unknown" if record.offset is None else record.acks for record in every)

    def lost(self) -> dict[Place, list[SentRecord]]:
        """Acknowledged with acks=all, and lost."""
        chosen = {p: [r for r in rs if r.lost and r.acks == "all"] for p, rs in self.records.items()}
        return {place: records for place, records in chosen.items() if records}

    def name(self, place: Place) -> str:
        return f"{self.names[place[0]]}-{place[1]}"

    def as_json(self) -> list[dict[str, Any]]:
        """A row for each partition: topic, topic id, number, its records, and when its transactions ended."""
        return [
            {
                "topic": self.names[topic_id],
                "topic_id": topic_id,
                "partition": partition,
                "records": [asdict(record) for record in self.records[topic_id, partition]],
                "markers_ms": list(self.markers_ms.get((topic_id, partition), ())),
            }
            for topic_id, partition in list(self.records)
        ]

    @staticmethod
    def from_json(rows: Iterable[Mapping[str, Any]]) -> Ledger:
        """What `as_json` made."""
        ledger = Ledger()
        for row in rows:
            ledger.created(row["topic"], row["topic_id"])
            place = row["topic_id"], row["partition"]
            ledger.records[place] = [SentRecord(**record) for record in row["records"]]
            ledger.markers_ms[place] = list(row["markers_ms"])
        return ledger
