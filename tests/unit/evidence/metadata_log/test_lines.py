"""`inspect` of large files: the compiled loops print the same lines, in the order of the file."""

from __future__ import annotations

import json

from evidence.limits import MAX_TIME_MS
from tests.support import writer
from tests.support.printed_lines import printed_both_ways
from tests.support.writer import batch, flip


def test_lines_are_in_the_order_of_the_file() -> None:
    """Rows of the compiled loops, records and batches that they leave, and damage alternate."""
    change, topic = writer.partition_change(), writer.topic("orders")
    parts = [
        writer.control_batch(writer.LEADER_CHANGE, writer.leader_change()),
        batch([change, topic, change, topic, topic], 1),
        batch([change], 6, codec="gzip"),
        batch([change, change], 7),
        flip(batch([change], 9), 70),
        batch([topic, change], 10),
        b"garbage" * 20,
        batch([change], 12),
    ]
    lines = [json.loads(line) for line in printed_both_ways(b"".join(parts))]
    offsets = [line["offset"] for line in lines]
    # A remark on the compressed batch and two damages have an offset, too.
    assert offsets == [0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10, 11, 12, 12]
    assert [line["reason"] for line in lines if "error" in line] == ["unexpected_codec", "crc_mismatch", "bad_magic"]


def test_numbers_of_a_line_may_have_any_length() -> None:
    """Offsets of 64 bits; the last time that is accepted; negative times."""
    for base, time in ((0, 0), (9, -1), (10, 10), (99_999, -(10**14)), ((1 << 63) - 3, MAX_TIME_MS)):
        (line,) = printed_both_ways(batch([writer.no_op()], base, timestamp_ms=time))
        assert (json.loads(line)["offset"], json.loads(line)["timestamp"]) == (base, time)
