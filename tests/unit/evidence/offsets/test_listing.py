"""Sizes of replicas from `ls -lnRA`: of this machine's `ls`, of busybox's form, and of damaged listings."""

from __future__ import annotations

import gzip

import pytest

from evidence.offsets.tool_output import read_listing

MOST = 1 << 20
BUSYBOX = b"""/data/kafka logs:
total 8
drwxr-xr-x    2 1000     1000          4096 Nov 26 22:21 ledger-0
-rw-r--r--    1 1000     1000            30 Nov 26 22:21 .kafka_cleanshutdown
crw-rw-rw-    1 0        0           1,   3 Nov 26 22:21 null

/data/kafka logs/ledger-0:
total 12
-rw-r--r--    1 1000     1000          1272 Nov 26 22:21 00000000000000000000.log
-rw-r--r--    1 1000     1000      10485760 Nov 26 22:21 00000000000000000000.index
-rw-r--r--    1 1000     1000             8 Nov 26 22:21 00000000000000000090.log
-rw-r--r--    1 1000     1000           500 Nov 26 22:21 00000000000000000050.log.deleted
-?????????    ? ?        ?                ?            ? 00000000000000000040.log

/data/kafka logs/mail-1.0123456789abcdef-future:
total 4
-rw-r--r--    1 1000     1000             9 Nov 26 22:21 00000000000000000000.log
"""


def sizes(data: bytes, most: int = MOST) -> dict[tuple[str, int], int]:
    rows, damage = read_listing(data, most)
    assert not damage
    return {(row["topic"], row["partition"]): row["size_bytes"] for row in rows}


def test_the_sizes_of_segments_by_replica() -> None:
    assert sizes(BUSYBOX) == sizes(gzip.compress(BUSYBOX)) == {("ledger", 0): 1280}
    (row,), _ = read_listing(BUSYBOX, MOST)
    assert BUSYBOX[row["position"] :].startswith(b"/data/kafka logs/ledger-0:\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(BUSYBOX)[:-9], "cut off"),
        (gzip.compress(BUSYBOX)[:-8] + bytes(8), "gzip data is damaged"),
        (gzip.compress(BUSYBOX) + b"more", "more follows"),
        (BUSYBOX[:-3], "last line is cut off"),
        (BUSYBOX.replace(b"1272 ", b"12x2 "), "byte 269 of the text is no line"),
        (BUSYBOX.replace(b"1272 ", b"1" * 16 + b" "), "byte 269 of the text is no line"),
        (gzip.compress(BUSYBOX + b"\n" * MOST), "limits.text_file_bytes"),
    ],
)
def test_a_damaged_listing_says_nothing(data: bytes, message: str) -> None:
    rows, (damage,) = read_listing(data, MOST)
    assert (rows, damage.position, damage.length_bytes, damage.reason) == ([], 0, len(data), "bad_listing")
    assert message in damage.message
