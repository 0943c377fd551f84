"""Decode the records in kafka-dump-log's text: of batches that evidence/dump_log/scan.py framed, and bare payload
lines."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from evidence.dump_log import lines
from evidence.errors import Damage, DecodeError
from evidence.redaction import redact
from evidence.wire.batches import Batch, longest_rising
from evidence.wire.records import Record


def batches_in(data: bytes, start: int, end: int) -> list[Batch]:
    """The batches in data[start:end), a range of good batches that scan_dump found. data: the whole text. Errors:
    DecodeError for a batch line that is no longer valid."""
    found = [
        lines.parse_batch(data[at:stop], at)[0]
        for at, stop, _ in lines.spans(data, start, end)
        if lines.kind_of(data, at, stop) == lines.BATCH
    ]
    ends = [batch.position for batch in found[1:]] + [end]
    return [replace(batch, extent_bytes=stop - batch.position) for batch, stop in zip(found, ends, strict=True)]


def _entries(data: bytes, batch: Batch) -> tuple[list[tuple[int, int]], int]:
    """[start, end) of each line that represents a record of `batch`, and the number of unknown lines."""
    printed: list[tuple[int, int]] = []
    blank: list[tuple[int, int]] = []
    unknown = 0
    own_lines = lines.spans(data, batch.position, batch.end)
    next(own_lines, None)
    for start, stop, _ in own_lines:
        kind = lines.kind_of(data, start, stop)
        if kind == lines.RECORD:
            printed.append((start, stop))
        elif kind == lines.BLANK and batch.is_control and start == stop:
            blank.append((start, stop))
        elif kind == lines.UNKNOWN:
            unknown += 1
    return printed or blank[: batch.record_count], unknown


def _offsets_of(data: bytes, batch: Batch, entries: list[tuple[int, int]], unknown: int) -> list[int | None]:
    """The offset of each entry; None if it is in doubt."""
    claimed = [lines.claimed_offset(data[start : min(stop, start + 40)]) for start, stop in entries]
    dense: list[int | None] = list(range(batch.base_offset, batch.base_offset + len(entries)))
    if len(entries) == batch.record_count:
        return [o if c is None or c == o else None for o, c in zip(dense, claimed, strict=True)]
    if any(c is not None for c in claimed):
        times = Counter(claimed)
        in_batch = range(batch.base_offset, batch.last_offset + 1)
        good = [(i, c) for i, c in enumerate(claimed) if c is not None and times[c] == 1 and c in in_batch]
        placed = dict(good[index] for index in longest_rising([c for _, c in good], strictly=True))
        return [placed.get(index) for index in range(len(entries))]
    if len(entries) < batch.record_count and batch.end == len(data) and not unknown:  # the text ends early
        return dense
    return [None] * len(entries)


def read_dumped(data: bytes, batch: Batch, show_secrets: bool = False) -> Iterator[Record | Damage]:
    """The records of one batch of scan_dump, in order, as evidence.wire.records.read_records gives them from the bytes.

    `position` is that of the record's line. A control record that is not in the text yields nothing. Each other offset
    without a record yields a Damage; a run of missing offsets yields one Damage.
    """
    entries, unknown = _entries(data, batch)
    offsets = _offsets_of(data, batch, entries, unknown)
    limits = _limits(offsets, batch.last_offset + 1)
    expected = batch.base_offset
    for (start, stop), offset, limit in zip(entries, offsets, limits, strict=True):
        if offset is None:
            named = expected if expected < limit else None
            expected += named is not None
            message = (
                f"a record line whose offset is in doubt: the batch has {batch.base_offset} to {batch.last_offset}"
            )
            yield Damage(start, stop - start, named, "unplaced_record", message)
            continue
        if expected < offset:
            yield _gap(start, expected, offset - 1)
        expected = offset + 1
        line = data[start:stop]
        if batch.is_control and lines.is_control_without_record(line):
            continue
        try:
            timestamp, name, version, found = lines.parse_record(line, batch)
        except DecodeError as error:
            is_cut = stop == len(data) and error.reason != "unknown_record"
            problem = ("cut_line", "the text is cut off in this line") if is_cut else (error.reason, str(error))
            yield Damage(start, stop - start, offset, *problem)
            continue
        found = found if show_secrets else redact(name, found)
        yield Record(offset, timestamp, batch.epoch, name, version, found, start, batch.is_control, True)
    if expected <= batch.last_offset:
        yield _gap(batch.end, expected, batch.last_offset)


def _limits(offsets: list[int | None], end: int) -> list[int]:
    """For each entry, the next known offset after it."""
    limits = [end] * len(offsets)
    for index in range(len(offsets) - 2, -1, -1):
        following = offsets[index + 1]
        limits[index] = limits[index + 1] if following is None else following
    return limits


def _gap(position: int, first: int, last: int) -> Damage:
    return Damage(position, 0, first, "missing_record", f"the records at offsets {first} to {last} are not in the text")


def read_unplaced(
    data: bytes, start: int, end: int, show_secrets: bool = False
) -> Iterator[tuple[int, str, int, dict[str, Any]] | Damage]:
    """(byte position, type, version, data) of each payload line in data[start:end), or a Damage for a bad one."""
    for at, stop, _ in lines.spans(data, start, end):
        if lines.kind_of(data, at, stop) not in (lines.RECORD, lines.BARE):
            continue
        try:
            name, version, found = lines.parse_payload(lines.payload_of(data[at:stop]))
        except DecodeError as error:
            yield Damage(at, stop - at, None, error.reason, str(error))
        else:
            yield at, name, version, found if show_secrets else redact(name, found)
