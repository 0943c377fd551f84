"""Shapes of SVG as `Markup`. Texts are escaped."""

from __future__ import annotations

from markupsafe import Markup

NOTHING = Markup("")


def rect(kind: str, x: float, y: float, width: float, height: float, extra: Markup = NOTHING) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"{}/>').format(
        kind, _number(x), _number(y), _number(width), _number(height), extra
    )


def line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
        kind, _number(x1), _number(y1), _number(x2), _number(y2)
    )


def words(kind: str, x: float, y: float, text: str, anchor: str = "start", extra: Markup = NOTHING) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}"{}>{}</text>').format(
        kind, _number(x), _number(y), anchor, extra, text
    )


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
