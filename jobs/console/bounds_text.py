"""Bounds of a number as short text, e.g. of lost offsets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Style:
    """Format strings with `low` and `high`, for a lower bound only, an upper bound only, and both."""

    at_least: str
    at_most: str
    between: str


WORDS = Style("{low} or more", "{high} or less", "{low} to {high}")
SYMBOLS = Style("≥ {low}", "≤ {high}", "{low}–{high}")


def range_text(low: int | None, high: int | None, style: Style = WORDS, unknown: str = "?") -> str:
    """Format bounds: "70" if both are equal, else by style, e.g. "70 to 75". A null bound is not known; `unknown`: the
    text if neither is."""
    if low is None:
        return unknown if high is None else style.at_most.format(high=high)
    if high is None:
        return style.at_least.format(low=low)
    return str(low) if low == high else style.between.format(low=low, high=high)
