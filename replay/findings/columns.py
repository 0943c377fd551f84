"""Many findings at once, as columns: their statements, the prose of these, their evidence. Nothing loops over findings.

What a column says of one finding is what `statements.statement` and `statements.prose` would say of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array, as_lists
from replay.arrow.schemas import EVIDENCE_ROW, FINDINGS, PROVENANCE_NAMES, STATEMENT
from replay.findings.sentences import SENTENCES


@dataclass(frozen=True, slots=True)
class StatementColumn:
    """A statement about some findings. at: their numbers; the figures have one element for each of them, None: null.
    brokers: a list<int32> array (`as_lists`), or a NumPy array with one broker each."""

    code: str
    at: Array
    brokers: Any = None
    offset: Any = None
    leader_epoch: Any = None
    value: Any = None
    text: Any = None


@dataclass(frozen=True, slots=True)
class EvidenceColumn:
    """A piece of evidence of some findings. at: their numbers; columns: fields of EVIDENCE_ROW beside role and source,
    one element for each of them; those that are left out are null."""

    role: str
    source: str
    at: Array
    columns: Mapping[str, Any]


def states_shown(role: str, at: Array, states: pa.Table) -> EvidenceColumn:
    """Recorded states as evidence. states: tables.PARTITION_HISTORY rows, one for each of `at`."""
    columns = {"broker_id": "leader", "leader_epoch": "leader_epoch", "offset": "offset"}
    columns |= {"captured_at_ms": "timestamp_ms", **{name: name for name in PROVENANCE_NAMES}}
    return EvidenceColumn(role, "partition_history", at, {name: states[source] for name, source in columns.items()})


def finding_table(
    columns: Mapping[str, Any], said: Sequence[StatementColumn], shown: Sequence[EvidenceColumn], count: int
) -> pa.Table:
    """tables.FINDINGS. columns: of `count` elements, or one value for all; those that are left out are null. said,
    shown: of each finding in this order."""
    reason = pa.concat_arrays([pa.nulls(0, STATEMENT), *(_structs(s) for s in said)])
    prose = pa.concat_arrays([pa.nulls(0, pa.string()), *(_sentences(s) for s in said)])
    rows = pa.concat_arrays([pa.nulls(0, EVIDENCE_ROW), *(_evidence(s) for s in shown)])
    told, seen = _numbers(said), _numbers(shown)
    filled = {
        **columns,
        "reason": _listed(told, reason, count),
        "explanation": pc.binary_join(_listed(told, prose, count), " "),
        "evidence": _listed(seen, rows, count),
    }
    return pa.table({f.name: _column(filled.get(f.name), f.type, count) for f in FINDINGS}, schema=FINDINGS)


def _numbers(parts: Sequence[StatementColumn] | Sequence[EvidenceColumn]) -> Array:
    return np.concatenate([np.empty(0, dtype=np.int64), *(p.at for p in parts)])


def _listed(number: Array, values: pa.Array, count: int) -> pa.Array:
    """`count` lists of the values. number: which list each is for; within a list the order stays."""
    order = np.argsort(number, kind="stable")
    begins = np.searchsorted(number[order], np.arange(count + 1)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(begins), values.take(pa.array(order)))


def _column(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    """The values as a column of that type: None and single values stand for all rows."""
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, str | int):
        return pa.array([values], type=kind).take(pa.array(np.zeros(count, dtype=np.int64)))
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, type=kind)


def _structs(said: StatementColumn) -> pa.Array:
    count, figures = len(said.at), _figures(said)
    values = {"code": said.code, "nature": SENTENCES[said.code][0], **figures}
    columns = [_column(values[f.name], f.type, count) for f in STATEMENT]
    return pa.StructArray.from_arrays(columns, fields=list(STATEMENT))


def _figures(said: StatementColumn) -> dict[str, Any]:
    brokers = said.brokers
    if isinstance(brokers, np.ndarray):
        brokers = as_lists(brokers.astype(np.int64)[:, None])
    figures = {name: getattr(said, name) for name in ("offset", "leader_epoch", "value", "text")}
    return {"brokers": brokers, **figures}


def _sentences(said: StatementColumn) -> pa.Array:
    """`statements.prose` of each statement."""
    count, figures = len(said.at), _figures(said)
    parts = [_column("", pa.string(), count)]
    for literal, name in _parsed(SENTENCES[said.code][1]):
        parts.append(pa.scalar(literal))
        if name is not None:
            parts.append(_text(_column(figures[name], STATEMENT.field(name).type, count)))
    return pc.binary_join_element_wise(*parts, "")


def _text(figures: pa.Array) -> pa.Array:
    """The figures as `statements.prose` writes them."""
    if not pa.types.is_list(figures.type):
        return pc.fill_null(figures.cast(pa.string()), "None")
    joined = pc.fill_null(pc.binary_join(figures.cast(pa.list_(pa.string())), ", "), "")
    return pc.if_else(pc.equal(joined, ""), "none", joined)


def _parsed(sentence: str) -> Iterator[tuple[str, str | None]]:
    """(text, name of the figure behind it or None) of each part of a sentence."""
    for literal, name, _, _ in Formatter().parse(sentence):
        yield literal, name


def _evidence(shown: EvidenceColumn) -> pa.Array:
    values = {"role": shown.role, "source": shown.source, **shown.columns}
    columns = [_column(values.get(f.name), f.type, len(shown.at)) for f in EVIDENCE_ROW]
    return pa.StructArray.from_arrays(columns, fields=list(EVIDENCE_ROW))
