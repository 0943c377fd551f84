"""Bounds of a loss as text."""

from __future__ import annotations


def bounds_text(low: int | None, high: int | None) -> str:
    """Bounds on a number of lost offsets: "70", "70 or more", "at most 70", "70 to 75" or "unknown".

    low: at least this many are lost; None is the same as 0. high: at most this many; None: no upper bound is known.
    """
    if high is None:
        return f"{low} or more" if low else "unknown"
    if (low or 0) == high:
        return str(high)
    return f"{low} to {high}" if low else f"at most {high}"
