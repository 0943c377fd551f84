"""The reason of a finding as data: statements with a code and figures, and the prose made from them; its evidence.

Every statement has one nature and never mixes two: sentences.toml has nature and sentence of each code.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from replay.arrow.ragged import Row
from replay.arrow.schemas import PROVENANCE_NAMES

# By kind of finding and code, {nature: sentence}; by code, (nature, sentence).
TEXTS = tomllib.loads(files("replay.findings").joinpath("sentences.toml").read_text("utf-8"))
SENTENCES = {code: said for codes in TEXTS.values() for code, of in codes.items() for said in of.items()}


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


def cited(role: str, source: str, row: Row, **more: object) -> dict[str, Any]:
    """A row with provenance as a schemas.EVIDENCE_ROW dict. more: its other columns."""
    return {"role": role, "source": source, **more, **{name: row[name] for name in PROVENANCE_NAMES}}


def state_row(role: str, state: Row) -> dict[str, Any]:
    """A recorded state. state: a schemas.PARTITION_HISTORY row."""
    shown = {"broker_id": state["leader"], "leader_epoch": state["leader_epoch"], "offset": state["offset"]}
    return cited(role, "partition_history", state, captured_at_ms=state["timestamp_ms"], **shown)


def source_columns(row: Row, role: str) -> dict[str, Any]:
    """The columns that say where a LOG_END_OFFSETS row was read."""
    return cited(role, row["source"], row, broker_id=row["broker_id"], captured_at_ms=row["captured_at_ms"])


def observation_row(role: str, row: Row, column: str = "log_end_offset") -> dict[str, Any]:
    """An observation of a replica (a LOG_END_OFFSETS row).

    column: the one whose value was used. If the row lacks it, another is taken: a leader's log end may also come from a
    sample of its log end.
    """
    names = (column, "log_end_offset", "high_watermark", "epoch_start_offset")
    value = next(row[name] for name in names if row[name] is not None)
    return {**source_columns(row, role), "value": value, "leader_epoch": row["leader_epoch"]}
