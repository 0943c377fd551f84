"""Damaged segments of topics' data: every byte is accounted for once, what is whole is read, and nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.errors import Damage
from evidence.wire.data_batches import DataBatch, Framing, Torn
from evidence.wire.data_records import DataRecord, read_data
from tests.support.paths import ROOT
from tests.unit.evidence.accounting import FUZZ

REAL = {path.parent.name: path.read_bytes() for path in sorted((ROOT / "tests/samples/node").glob("*/*.log"))}


def frame(data: bytes) -> tuple[list[DataBatch], list[Damage | Torn]]:
    good, rest, position = list[DataBatch](), list[Damage | Torn](), 0
    for found in Framing(data, 0, least_magic=0).all_batches():
        if isinstance(found, DataBatch):
            assert found.position == position
            position = found.end
            good.append(found)
        else:
            rest.append(found)
            position += found.length_bytes if isinstance(found, Damage) else found.size_bytes
    assert position == len(data)
    return good, rest


def records(data: bytes, batches: list[DataBatch]) -> list[DataRecord | Damage]:
    return [record for batch in batches for record in read_data(data, batch)]


@pytest.mark.parametrize("replica", sorted(REAL))
def test_real_segments_are_whole(replica: str) -> None:
    good, rest = frame(REAL[replica])
    assert rest == []
    read = records(REAL[replica], good)
    assert all(isinstance(record, DataRecord) for record in read)
    assert len(read) == sum(batch.record_count for batch in good) > 0


@FUZZ
@given(replica=st.sampled_from(sorted(REAL)), data=st.data())
def test_flipped_and_cut_bytes(replica: str, data: st.DataObject) -> None:
    damaged = bytearray(REAL[replica])
    for at in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)):
        damaged[at] ^= data.draw(st.integers(1, 255))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    good, _ = frame(cut)
    records(cut, good)
    whole = {batch.key for batch in frame(REAL[replica])[0]}
    # What the CRC does not cover is the base offset, the length and the leader epoch.
    assert {batch.crc for batch in good} <= {crc for _, _, crc, _ in whole}


@FUZZ
@given(data=st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    good, _ = frame(data)
    records(data, good)
