"""Checkpoint and properties files, whole and damaged in every way a copy can be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.text_files import partition_topic_id, read_checkpoint, read_properties
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


def test_properties_are_read_as_kafka_writes_them() -> None:
    data = b"#\n#Tue Nov 20\n! note\nnode.id=3\n cluster.id = a=b \nnothing\nempty=\n\xff=x\n"
    assert read_properties(data) == {"node.id": "3", "cluster.id": "a=b", "empty": "", "\N{REPLACEMENT CHARACTER}": "x"}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a.ms: 30000\nb.ms 30000\nc.ms\t=\t3\n", {"a.ms": "30000", "b.ms": "30000", "c.ms": "3"}),
        (b"listeners=A\\://x,\\\n    B\\://y\nnext=1\n", {"listeners": "A://x,B://y", "next": "1"}),
        (b"a\\=b=\\u0041\\\\\r\nc=\\t\r\n", {"a=b": "A\\", "c": ""}),
        (b"\xef\xbb\xbfa=1\n#b=2\\\nc=3\nd=4\\", {"a": "1", "c": "3", "d": "4"}),
        # native2ascii writes two escapes for what is beyond 16 bits; half of them is no text, and no table can hold it.
        (b"a=\\ud83d\\ude00\nb=x\\ud83d\n", {"a": "\U0001f600", "b": "x\N{REPLACEMENT CHARACTER}"}),
    ],
)
def test_properties_are_read_as_java_reads_them(data: bytes, expected: dict[str, str]) -> None:
    """What is not seen would count as Kafka's default."""
    assert read_properties(data) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "AAECAwQFBgcICQoLDA0ODw"),
        (b"topic_id:  AAECAwQFBgcICQoLDA0ODw \n", "AAECAwQFBgcICQoLDA0ODw"),
        (b"topic_id: AAECAwQFBgcICQoLDA0OD", None),
        (b"version: 0\ntopic_id:\n", None),
        (b"", None),
        (b"\xff\xfe", None),
    ],
)
def test_the_topic_id_of_a_folder_comes_from_its_metadata(data: bytes, expected: str | None) -> None:
    assert partition_topic_id(data) == expected
