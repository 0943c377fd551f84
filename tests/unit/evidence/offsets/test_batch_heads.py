"""Files of heads, byte by byte: what does not follow from the lines before it gives no log end."""

from __future__ import annotations

from typing import Any

import pytest

from evidence.offsets.batch_heads import read_heads
from evidence.wire.batches import HEAD
from tests.support.golden import cases


def head(base: int = 50, **changed: int) -> str:
    """A head in hex: 100 bytes, offsets base to base + 4, epoch 3."""
    values = {"length": 88, "epoch": 3, "magic": 2, "delta": 4, "producer": -1, "sequence": -1, **changed}
    producer = values["producer"], 0, values["sequence"]
    fields = (base, values["length"], values["epoch"], values["magic"], 7, 0, values["delta"], 1, 2, *producer, 5)
    return HEAD.pack(*fields).hex()


def text(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


WHOLE = ("size 400", f"200 {head()}", f"300 {head(55)}", "end 400 whole")


def test_the_end_is_that_of_the_last_head() -> None:
    data = text(*WHOLE)
    tail = read_heads(data, 0)
    assert (tail.log_end_offset, tail.last_written_leader_epoch, tail.damage, tail.note) == (60, 3, [], None)
    assert data[tail.position :].startswith(b"300 ")


def test_the_last_batches_are_those_that_follow_one_another() -> None:
    assert read_heads(text(*WHOLE), 0).batch_offsets == (50, 55)
    skipped = text("size 1000", f"200 {head()}", "skipped 3", f"800 {head(90)}", f"900 {head(95)}", "end 1000 whole")
    assert read_heads(skipped, 0).batch_offsets == (90, 95)
    many = [f"{n * 100} {head(n * 5)}" for n in range(40)]
    assert read_heads(text("size 4000", *many, "end 4000 whole"), 0).batch_offsets == tuple(range(40, 200, 5))
    assert read_heads(text("size 400", f"200 {head()}", "end 300 bad"), 0).batch_offsets == ()


def test_sequence_numbers_show_no_answer_to_a_producer() -> None:
    """One that gives up a batch in flight goes on in the same epoch, and once the connection is closed on a new one
    (Sender.failExpiredBatches, 3.9.1 to 4.3.1): the leader reads the next batch before it has answered."""
    follows = [f"200 {head(producer=7, sequence=3)}", f"300 {head(55, producer=7, sequence=8)}"]
    assert read_heads(text(WHOLE[0], *follows, WHOLE[-1]), 0) == read_heads(text(*WHOLE), 0)


@pytest.mark.parametrize("case", cases("heads"))
def test_what_the_lines_say(case: dict[str, Any]) -> None:
    """At bytes that are no batch a broker would cut, or go on. A batch begins at the index entry: where none is whole,
    the log's end is not known."""
    data = case["text"].encode()
    tail = read_heads(data, 7)
    assert (tail.log_end_offset, bool(tail.damage)) == (case["log_end_offset"], case["is_damaged"])
    assert all(d.position + d.length_bytes == len(data) for d in tail.damage)


def test_a_file_that_was_cut_gives_no_end() -> None:
    data = text(*WHOLE)
    assert {read_heads(data[:n], 0).log_end_offset for n in range(len(data))} == {None}
