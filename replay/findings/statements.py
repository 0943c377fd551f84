"""Why a finding says what it says, as data: statements with a code and their figures, and the prose made of them.

Every statement is of one nature (replay/findings/sentences.py), and none mixes two.
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
    """A STATEMENT. Errors: KeyError for a code that has no sentence."""
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
    """The statements as sentences, in their order."""
    return " ".join(_sentence(said) for said in reason)


def _sentence(said: Mapping[str, Any]) -> str:
    brokers = said["brokers"]
    figures = {name: said[name] for name in ("offset", "leader_epoch", "value", "text")}
    listed = "none" if not brokers else ", ".join(map(str, brokers))
    return SENTENCES[said["code"]][1].format(brokers=listed, **figures)
