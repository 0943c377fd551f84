"""Bounds of a loss as text."""

from __future__ import annotations

import pytest

from replay.findings.bounds_text import bounds_text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (70, 70, "70"),
        (0, 0, "0"),
        (None, 0, "0"),
        (70, None, "70 or more"),
        (0, None, "unknown"),
        (None, None, "unknown"),
        (0, 75, "at most 75"),
        (None, 75, "at most 75"),
        (70, 75, "70 to 75"),
    ],
)
def test_bounds_of_a_loss(low: int | None, high: int | None, text: str) -> None:
    assert bounds_text(low, high) == text
