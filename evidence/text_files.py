"""The small text files beside Kafka's logs: properties, offset checkpoints, leader epochs, partition.metadata.

Facts: Kafka's CheckpointFile (a version line, a count line, then one entry a line), OffsetCheckpointFile
("topic partition offset"), LeaderEpochCheckpointFile ("epoch startOffset"), PartitionMetadataFile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evidence.errors import Damage

_INT = re.compile(rb"-?\d{1,19}")


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of a checkpoint file: its byte position in the file and its words."""

    position: int
    words: list[bytes]


def read_properties(data: bytes) -> dict[str, str]:
    """A Java properties file as Kafka writes it (no escapes, no continuation lines). Lines without '=' are skipped."""
    lines = (line.strip() for line in data.decode("utf-8", "replace").splitlines())
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "!")))
    return {key.strip(): value.strip() for key, value in pairs}


def partition_topic_id(data: bytes) -> str | None:
    """The topic id in a partition.metadata file, or None."""
    for line in data.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "topic_id" and value.strip():
            return value.strip()
    return None


def _lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    for raw in data.splitlines(keepends=True):
        yield position, raw.rstrip(b"\r\n")
        position += len(raw)


def read_checkpoint(data: bytes, numbers: int) -> tuple[list[Line], list[Damage]]:
    """Entries of a checkpoint file whose last `numbers` words are integers; damage for every line that is not one.

    An empty file is legal: Kafka creates it before it writes the first entry.
    """
    entries: list[Line] = []
    damage: list[Damage] = []
    lines = list(_lines(data))
    if not lines:
        return entries, damage
    if lines[0][1] != b"0":
        return [], [Damage(0, len(data), None, "bad_checkpoint", f"version line {lines[0][1][:20]!r}, only 0 is known")]
    count = lines[1][1] if len(lines) > 1 else b""
    if not _INT.fullmatch(count):
        return [], [Damage(0, len(data), None, "bad_checkpoint", f"the second line {count[:20]!r} is not a count")]
    for position, text in lines[2:]:
        words = text.split()
        if len(words) >= numbers and all(_INT.fullmatch(w) for w in words[-numbers:]):
            entries.append(Line(position, words))
        elif text:
            damage.append(Damage(position, len(text), None, "bad_checkpoint", f"not an entry: {text[:60]!r}"))
    if len(entries) + len(damage) != int(count):
        message = f"{len(entries)} entries, the file's head promises {int(count)}"
        damage.append(Damage(0, 0, None, "checkpoint_count", message))
    return entries, damage
