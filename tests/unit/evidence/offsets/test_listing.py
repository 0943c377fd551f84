"""Packed sizes of replicas from `ls -lnRA`; others: test_texts.py."""

import gzip

import pytest

from evidence.offsets.tool_output import read_listing
from tests.support.golden import cases

MOST = 1 << 20
BUSYBOX = next(case["text"] for case in cases("texts") if case["reader"] == "listing").encode()


def test_a_packed_listing_is_the_listing() -> None:
    assert read_listing(gzip.compress(BUSYBOX), MOST) == read_listing(BUSYBOX, MOST)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(BUSYBOX)[:-9], "cut off"),
        (gzip.compress(BUSYBOX)[:-8] + bytes(8), "gzip data cannot be decompressed"),
        (gzip.compress(BUSYBOX) + b"more", "after its end"),
        (gzip.compress(BUSYBOX + b"\n" * MOST), "limits.text_file_bytes"),
    ],
)
def test_a_damaged_listing_says_nothing(data: bytes, message: str) -> None:
    rows, (damage,) = read_listing(data, MOST)
    assert (rows, damage.position, damage.length_bytes, damage.reason) == ([], 0, len(data), "bad_listing")
    assert message in damage.message
