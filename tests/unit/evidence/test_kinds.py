"""What a file is, which node it is from and when it was taken, judged by its path: a line each in
tests/unit/golden/paths.jsonl.

Topics with a node's name, or a time's, name neither: folders and files of a replica's log; a folder of that form with
other files in it is no replica's. A day, or a time in seconds, is no node. Beyond 13 digits, or before 2001, a number
is no time in milliseconds.
"""

from pathlib import PurePosixPath
from typing import Any

import pytest

from evidence import kinds
from evidence.limits import int32_of
from tests.support.golden import cases


def judged(text: str) -> dict[str, Any]:
    path = PurePosixPath(text)
    return {"path": text, "kind": kinds.classify(path), "node": kinds.node_in_path(path), "at": kinds.captured_at(path)}


@pytest.mark.parametrize("case", cases("paths"), ids=lambda case: case["path"])
def test_what_a_path_says(case: dict[str, Any]) -> None:
    assert judged(case["path"]) == case


def test_a_snapshots_name_gives_its_end_offset_and_epoch() -> None:
    assert kinds.checkpoint_name("00000000000000000080-0000000003.checkpoint") == (80, 3)
    assert kinds.checkpoint_name("00000000000000000080-0000000003.checkpoint.part") is None


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("2147483647", 2147483647), *((t, None) for t in ("2147483648", "-1", "", "²", "٣", "1 ", "1_0"))],
)
def test_a_node_id_is_an_int32_in_plain_digits_that_is_not_negative(text: str, number: int | None) -> None:
    assert int32_of(text) == number
