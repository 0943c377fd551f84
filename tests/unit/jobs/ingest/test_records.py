"""When rows of the log may have one key, so that they have to be looked for."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.ingest.records import overlap


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([(1, 5, 10), (1, 5, 13), (1, 5, 7)], False),
        ([(1, 5, 10), (1, 5, 12)], True),
        ([(1, 5, 10), (1, 5, 8), (1, 5, 20)], True),
        ([(1, 5, 10), (1, 5, 10)], True),
        ([(1, 5, 10), (2, 5, 10), (1, 6, 10)], False),
    ],
)
def test_copies_whose_offset_was_altered_may_claim_an_offset_twice(
    batches: list[tuple[int, int, int]], expected: bool
) -> None:
    """batches: epoch, CRC, which does not cover the offset, and first offset, of three records each."""
    epoch, crc, first = np.array(batches).T
    assert overlap(epoch, crc, first, first + 2) is expected
