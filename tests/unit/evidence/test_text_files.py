"""Checkpoint and properties files, whole and damaged in every way a copy can be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.text_files import partition_topic_id, read_checkpoint, read_properties
from tests.unit.evidence.accounting import FUZZ

WHOLE = b"0\n3\norders 0 12\norders 1 1234567890123\npay-ments 0 0\n"


def test_entries_point_at_the_bytes_of_their_lines() -> None:
    lines, damage = read_checkpoint(WHOLE, 3)
    assert damage == []
    assert [WHOLE[e.position : e.position + e.length_bytes] for e in lines] == WHOLE.splitlines()[2:]
    assert [e.words for e in lines] == [line.split() for line in WHOLE.splitlines()[2:]]


def test_line_ends_of_windows_are_read_too() -> None:
    data = WHOLE.replace(b"\n", b"\r\n")
    lines, damage = read_checkpoint(data, 3)
    assert damage == []
    assert data[lines[1].position :].startswith(b"orders 1 ")


@pytest.mark.parametrize("data", [b"", b"0\n0\n"])
def test_an_empty_file_and_one_without_entries_are_legal(data: bytes) -> None:
    assert read_checkpoint(data, 3) == ([], [])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\n1\norders 0 12\n", "version line b'1', only 0 is known"),
        (b"\n", "version line b'', only 0 is known"),
        (b"\x00\x00\x00\x00", "only 0 is known"),
        (b"0\n", "the second line b'' is not a count"),
        (b"0", "the second line b'' is not a count"),
        (b"0\nx\norders 0 12\n", "the second line b'x' is not a count"),
        (b"0\n-1\n", "is not a count"),
        (b"0\n1", "is not a count"),
        (b"0\n99999999999999999999\n", "is not a count"),
        (b"0\n9999999999999999999\n", "is not a count"),
    ],
)
def test_a_file_without_a_head_is_damage_as_a_whole(data: bytes, message: str) -> None:
    lines, (damage,) = read_checkpoint(data, 3)
    assert lines == []
    assert (damage.position, damage.length_bytes, damage.reason) == (0, len(data), "bad_checkpoint")
    assert message in damage.message


@pytest.mark.parametrize(
    "line",
    [b"orders 0 x", b"orders 0 1.5", b"orders 0", b"12", b"orders 0 +12", b"orders 0 9223372036854775808", b"\xff\xfe"],
)
def test_a_line_that_is_no_entry_is_damage_and_the_others_are_kept(line: bytes) -> None:
    data = b"0\n3\norders 0 12\n" + line + b"\norders 2 7\n"
    lines, (damage,) = read_checkpoint(data, 3)
    assert [e.words[1] for e in lines] == [b"0", b"2"]
    assert damage.reason == "bad_checkpoint"
    assert data[damage.position : damage.position + damage.length_bytes] == line


def test_a_line_that_does_not_end_is_damage_even_if_it_reads_well() -> None:
    # Cut from `orders 1 1234`: the shorter number would be believed.
    data = b"0\n2\norders 0 12\norders 1 12"
    lines, (damage,) = read_checkpoint(data, 3)
    assert [e.words for e in lines] == [[b"orders", b"0", b"12"]]
    assert (damage.reason, data[damage.position :]) == ("cut_line", b"orders 1 12")


@pytest.mark.parametrize(("count", "entries"), [(0, 1), (2, 1), (7, 3)])
def test_a_count_that_does_not_hold_is_damage_and_the_entries_are_kept(count: int, entries: int) -> None:
    data = f"0\n{count}\n".encode() + b"".join(b"orders %d 5\n" % i for i in range(entries))
    lines, (damage,) = read_checkpoint(data, 3)
    assert len(lines) == entries
    assert (damage.reason, damage.length_bytes) == ("checkpoint_count", 0)
    assert damage.message == f"{entries} entries, the file's head gives {count}"


def test_a_partition_with_two_entries_has_none() -> None:
    """A flipped bit made another partition's entry its own: Kafka writes one for each."""
    data = b"0\n4\norders 0 12\norders 1 7\norders 00 9\nor 0 5\n"
    lines, damage = read_checkpoint(data, 3)
    assert [line.words for line in lines] == [[b"orders", b"1", b"7"], [b"or", b"0", b"5"]]
    assert [data[d.position : d.position + d.length_bytes] for d in damage] == [b"orders 0 12", b"orders 00 9"]
    assert {d.reason for d in damage} == {"bad_checkpoint"}


def test_blank_lines_count_as_nothing() -> None:
    lines, damage = read_checkpoint(b"0\n1\n\norders 0 1\n\n", 3)
    assert (len(lines), damage) == (1, [])


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
