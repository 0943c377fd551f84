"""When rows of the log may have one key, so that they have to be looked for."""

from __future__ import annotations

import numpy as np
import pytest

from evidence.errors import Damage
from evidence.wire.batches import Batch, read_head
from jobs.ingest.records import overlap
from tests.support import writer

RECORDS = [writer.no_op()] * 3


def head(base_offset: int) -> Batch:
    """A batch of three records. Its CRC does not cover the offset, so that every such batch has the same one."""
    found = read_head(writer.batch(RECORDS, base_offset=base_offset), 0)
    assert not isinstance(found, Damage)
    return found


def overlapping(batches: list[tuple[int, int, int, int]]) -> bool:
    epoch, crc, first, last = np.array(batches).T
    return overlap(epoch, crc, first, last)


@pytest.mark.parametrize(("others", "expected"), [((13, 7), False), ((12,), True), ((8, 20), True), ((10,), True)])
def test_copies_whose_offset_was_altered_may_claim_an_offset_twice(others: tuple[int, ...], expected: bool) -> None:
    batches = [head(offset) for offset in (10, *others)]
    assert len({batch.crc for batch in batches}) == 1
    assert overlapping([(b.epoch, b.crc, b.base_offset, b.last_offset) for b in batches]) is expected


def test_batches_of_other_epochs_or_contents_have_other_keys() -> None:
    assert not overlapping([(1, 5, 10, 12), (2, 5, 10, 12), (1, 6, 10, 12)])
