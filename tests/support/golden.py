"""Cases and results in tests/unit/golden, a line of JSON each.

`python -m tests.support.golden MODULE` fills in what is read now, of the files whose lines MODULE reads (`filled`).
"""

import importlib
import json
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

from tests.support.paths import ROOT

FOLDER = ROOT / "tests" / "unit" / "golden"
Case = dict[str, Any]
READERS: dict[str, Callable[[Case], Case]] = {}


def cases(name: str) -> list[Case]:
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write(name: str, found: Iterable[Case]) -> None:
    lines = [_text(case) + "\n" for case in found]
    (FOLDER / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def _text(case: Case) -> str:
    return json.dumps(case, default=bytes.decode)


def filled(name: str) -> Callable[[Callable[[Case], Case]], Callable[[Case], None]]:
    """Make a test of a function that gives a line of the file anew, with what is read of its input: it is the line."""

    def test_of(read: Callable[[Case], Case]) -> Callable[[Case], None]:
        READERS[name] = read

        @pytest.mark.parametrize("case", cases(name), ids=lambda case: str(case.get("what", case)))
        @wraps(read)
        def test(case: Case) -> None:
            assert json.loads(_text(read(case))) == case

        return test

    return test_of


if __name__ == "__main__":
    from tests.support import golden

    importlib.import_module(sys.argv[1])
    for name, read in golden.READERS.items():
        write(name, map(read, cases(name)))
