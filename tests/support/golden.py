"""Cases and results in tests/unit/golden, a line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.support.paths import ROOT

FOLDER = ROOT / "tests" / "unit" / "golden"


def cases(name: str) -> list[dict[str, Any]]:
    text = (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def write(name: str, found: Iterable[dict[str, Any]]) -> None:
    lines = [json.dumps(case) + "\n" for case in found]
    (FOLDER / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
