"""The reason of a finding as data: statements with a code and figures, and the prose made from them.

Every statement has one nature (replay/findings/sentences.toml) and never mixes two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from replay.findings.sentences import SENTENCES


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
