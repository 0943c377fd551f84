"""Files of heads, byte by byte: what does not follow from the lines before it gives no log end."""

from dataclasses import asdict
from typing import Any

from evidence.offsets.replica_log import read_heads
from tests.support.golden import cases, filled

WHOLE = cases("heads")[0]["text"].encode()


@filled("heads")
def test_what_the_lines_say(case: dict[str, Any]) -> dict[str, Any]:
    """At bytes that are no batch a broker would cut, or go on. A batch begins at the index entry: where none is whole,
    the log's end is not known."""
    data = case["text"].encode()
    tail = read_heads(data, case["base_offset"])
    assert all(d.position + d.length_bytes == len(data) for d in tail.damage)
    return {**{name: case[name] for name in ("what", "base_offset", "text")}, "tail": asdict(tail)}


def test_a_file_that_was_cut_gives_no_end() -> None:
    assert {read_heads(WHOLE[:n], 0).log_end_offset for n in range(len(WHOLE))} == {None}
