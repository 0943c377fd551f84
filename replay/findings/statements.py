"""The reason of a finding as data: statements with a code and figures, and the prose made from them.

Every statement has one nature and never mixes two: sentences.toml has nature and sentence of each code.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any


def _sentences() -> dict[str, dict[str, tuple[str, str]]]:
    """By kind of finding and code, (nature, sentence)."""
    tables = tomllib.loads(files("replay.findings").joinpath("sentences.toml").read_text("utf-8"))
    return {kind: {code: said for code, of in codes.items() for said in of.items()} for kind, codes in tables.items()}


_BY_KIND = _sentences()
WINDOW_SENTENCES = _BY_KIND["window"]
SENTENCES = {code: said for codes in _BY_KIND.values() for code, said in codes.items()}


def statement(
    code: str,
    brokers: Sequence[int] | None = None,
    offset: int | None = None,
    leader_epoch: int | None = None,
    value: int | None = None,
    text: str | None = None,
) -> dict[str, Any]:
    """A schemas.STATEMENT dict. Errors: KeyError for a code that has no sentence."""
    return {
        "code": code,
        "nature": SENTENCES[code][0],
        "brokers": None if brokers is None else list(brokers),
        "offset": offset,
        "leader_epoch": leader_epoch,
        "value": value,
        "text": text,
    }


def prose(reason: Iterable[Mapping[str, Any]]) -> str:
    """The sentences of the statements, in the same order."""
    return " ".join(map(_sentence, reason))


def _sentence(row: Mapping[str, Any]) -> str:
    brokers = row["brokers"]
    figures = {name: row[name] for name in ("offset", "leader_epoch", "value", "text")}
    listed = "none" if not brokers else ", ".join(map(str, brokers))
    return SENTENCES[row["code"]][1].format(brokers=listed, **figures)
