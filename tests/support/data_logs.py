"""Copies of replicas' folders, written for tests. Shares no code with the reader (tests/support/writer.py)."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.writer import batch, record, varint

TIME_MS = 1_795_000_000_000
Payload = bytes | None


def _sized(data: Payload) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


@dataclass(frozen=True)
class Written:
    """A batch v2. records: (key, value) each; control: 0 (abort) or 1 (commit) of a control batch instead."""

    base: int
    epoch: int
    records: Sequence[tuple[Payload, Payload]] = ((None, b"v"),)
    producer: tuple[int, int, int] = (-1, -1, -1)
    transactional: bool = False
    control: int | None = None
    time_ms: int = TIME_MS
    headers: Sequence[tuple[str, Payload]] = ()

    @property
    def bytes(self) -> bytes:
        records, attributes = list(self.records), 0x10 * self.transactional
        if self.control is not None:
            records, attributes = [(struct.pack(">hh", 0, self.control), struct.pack(">hi", 0, 5))], 0x30
        headers = b"".join(_sized(name.encode()) + _sized(content) for name, content in self.headers)
        body = (
            record(value, delta, key, timestamp_delta=delta, headers=len(self.headers), tail=headers)
            for delta, (key, value) in enumerate(records)
        )
        return batch(
            base_offset=self.base,
            epoch=self.epoch,
            attributes=attributes,
            timestamp_ms=self.time_ms,
            max_timestamp_ms=self.time_ms + len(records) - 1,
            producer=self.producer,
            records=b"".join(body),
            count=len(records),
        )


def write_copy(
    folder: Path, batches: Iterable[Written], epochs: Iterable[tuple[int, int]] = (), topic_id: str = ""
) -> Path:
    """One segment, and the two small files if they are given. Returns the segment."""
    folder.mkdir(parents=True)
    written = list(batches)
    segment = folder / f"{written[0].base if written else 0:020}.log"
    segment.write_bytes(b"".join(batch.bytes for batch in written))
    lines = [f"{epoch} {start}" for epoch, start in epochs]
    if lines:
        (folder / "leader-epoch-checkpoint").write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    if topic_id:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    return segment
