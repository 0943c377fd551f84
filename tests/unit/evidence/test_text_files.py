"""Checkpoint and properties files, whole and damaged in every way a copy can be."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.text_files import partition_topic_id, read_checkpoint, read_properties
from tests.support.golden import cases
from tests.unit.evidence.accounting import FUZZ

WHOLE = b"0\n3\norders 0 12\norders 1 1234567890123\npay-ments 0 0\n"


@FUZZ
@given(st.integers(0, len(WHOLE)), st.binary(max_size=12))
def test_any_copy_that_was_cut_yields_whole_entries_or_damage(at: int, junk: bytes) -> None:
    whole = {tuple(line.split()) for line in WHOLE.splitlines()[2:]}
    lines, damage = read_checkpoint(WHOLE[:at], 3)
    assert {tuple(e.words) for e in lines} <= whole
    assert len(lines) == 3 or damage or not at
    for found, bad in (read_checkpoint(WHOLE[:at] + junk, 3), read_checkpoint(junk, 3)):
        spans = sorted((s.position, s.length_bytes) for s in [*found, *bad] if s.length_bytes)
        assert all(a + size <= b for (a, size), (b, _) in pairwise(spans))


@pytest.mark.parametrize("case", cases("properties"), ids=lambda case: case["what"])
def test_properties(case: dict[str, Any]) -> None:
    assert read_properties(case["text"].encode("utf-8", "surrogateescape")) == case["properties"]


@pytest.mark.parametrize("case", cases("topic_ids"))
def test_the_topic_id_of_a_folder_comes_from_its_metadata(case: dict[str, Any]) -> None:
    assert partition_topic_id(case["text"].encode("utf-8", "surrogateescape")) == case["topic_id"]
