"""The sentence and the nature of each statement code, from sentences.toml: `statements` makes prose of it."""

from __future__ import annotations

import tomllib
from importlib.resources import files


def _read() -> dict[str, dict[str, tuple[str, str]]]:
    """By kind of finding and code, (nature, sentence)."""
    tables = tomllib.loads(files("replay.findings").joinpath("sentences.toml").read_text("utf-8"))
    return {kind: {code: said for code, of in codes.items() for said in of.items()} for kind, codes in tables.items()}


_BY_KIND = _read()
WINDOW_SENTENCES: dict[str, tuple[str, str]] = _BY_KIND["window"]
SENTENCES: dict[str, tuple[str, str]] = {code: said for codes in _BY_KIND.values() for code, said in codes.items()}
