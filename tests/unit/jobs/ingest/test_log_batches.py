"""Keys of batches as columns, compared with Python's own dicts and sorting."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.ingest.log_batches import Keys, in_order, places_of
from jobs.ingest.records import overlap
from replay.cluster.branches import Holders

Key = tuple[int, int, int]
# Few values, so that keys have parts in common; and the largest.
KEYS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 2**31 - 1]),
        st.sampled_from([0, 1, 5, 6, 2**63 - 1]),
        st.sampled_from([0, 7, 2**32 - 1]),
    )
)
NODES = st.lists(st.lists(st.sampled_from([1, 2, 3000]), max_size=3), max_size=12)


def columns(keys: list[Key]) -> Keys:
    types = (np.int32, np.int64, np.int64)
    epoch, base, crc = (np.array([key[n] for key in keys], dtype=of) for n, of in enumerate(types))
    return epoch, base, crc


@given(KEYS, KEYS.map(lambda keys: list(dict.fromkeys(keys))))
def test_places_of_keys(keys: list[Key], among: list[Key]) -> None:
    for own in (keys, among, among[: len(keys)]):  # some keys; all of them; the first ones
        assert places_of(columns(own), columns(among)).tolist() == [among.index(k) if k in among else -1 for k in own]


@given(KEYS)
def test_keys_in_order(keys: list[Key]) -> None:
    order = in_order(columns(keys))
    assert ([keys[n] for n in order] if order is not None else keys) == sorted(keys)


@given(NODES, st.integers(0, 3))
def test_holders_of_a_column_are_those_of_its_rows(nodes: list[list[int]], first: int) -> None:
    column = pa.chunked_array([pa.array(part, pa.list_(pa.int32())) for part in (nodes[:5], nodes[5:])]).slice(first)
    found, own = Holders.of_column(column), [tuple(each) for each in nodes[first:]]
    assert list(found.sets) == list(dict.fromkeys(own))
    assert [found.nodes(row) for row in range(len(found.of))] == own


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
