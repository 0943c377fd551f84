"""Many findings at once, as columns: statements, prose and evidence. Nothing loops over findings.

For each finding the columns hold what `statements.statement` and `statements.prose` would return.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array, as_lists, grouped
from replay.arrow.schemas import EVIDENCE_ROW, FINDINGS, PROVENANCE_NAMES, STATEMENT
from replay.findings.sentences import SENTENCES


@dataclass(frozen=True, slots=True)
class StatementColumn:
    """A statement about some of the findings.

    at: numbers of those findings. The figures have one element for each; None means null. brokers: a list<int32> array
    (`as_lists`), or a NumPy array with one broker each.
    """

    code: str
    at: Array
    brokers: Any = None
    offset: Any = None
    leader_epoch: Any = None
    value: Any = None
    text: Any = None


@dataclass(frozen=True, slots=True)
class EvidenceColumn:
    """A piece of evidence of some of the findings.

    at: numbers of those findings. columns: fields of schemas.EVIDENCE_ROW other than role and source, one element for
    each finding; fields left out are null.
    """

    role: str
    source: str
    at: Array
    columns: Mapping[str, Any]


def state_evidence(role: str, at: Array, states: pa.Table) -> EvidenceColumn:
    """Recorded states as evidence. states: schemas.PARTITION_HISTORY rows, one for each of `at`."""
    columns = {"broker_id": "leader", "leader_epoch": "leader_epoch", "offset": "offset"}
    columns |= {"captured_at_ms": "timestamp_ms", **{name: name for name in PROVENANCE_NAMES}}
    return EvidenceColumn(role, "partition_history", at, {name: states[source] for name, source in columns.items()})


def finding_table(
    columns: Mapping[str, Any],
    statements: Sequence[StatementColumn],
    evidence: Sequence[EvidenceColumn],
    count: int,
) -> pa.Table:
    """schemas.FINDINGS with `count` rows.

    columns: arrays of `count` elements, or one value for all rows; columns left out are null. The statements and the
    evidence of a finding keep the order in which they are passed.
    """
    reason = pa.concat_arrays([pa.nulls(0, STATEMENT), *map(_statement_structs, statements)])
    prose = pa.concat_arrays([pa.nulls(0, pa.string()), *map(_sentences, statements)])
    rows = pa.concat_arrays([pa.nulls(0, EVIDENCE_ROW), *map(_evidence_structs, evidence)])
    stated, cited = _finding_numbers(statements), _finding_numbers(evidence)
    filled = {
        **columns,
        "reason": grouped(stated, reason, count),
        "explanation": pc.binary_join(grouped(stated, prose, count), " "),
        "evidence": grouped(cited, rows, count),
    }
    return pa.table({f.name: _column(filled.get(f.name), f.type, count) for f in FINDINGS}, schema=FINDINGS)


def _finding_numbers(columns: Sequence[StatementColumn] | Sequence[EvidenceColumn]) -> Array:
    return np.concatenate([np.empty(0, dtype=np.int64), *(column.at for column in columns)])


def _column(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    """A column of that type with `count` rows: None or a single value fills all rows."""
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, str | int):
        return pa.array([values], type=kind).take(pa.array(np.zeros(count, dtype=np.int64)))
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, type=kind)


def _statement_structs(column: StatementColumn) -> pa.Array:
    count, figures = len(column.at), _figures(column)
    values = {"code": column.code, "nature": SENTENCES[column.code][0], **figures}
    columns = [_column(values[f.name], f.type, count) for f in STATEMENT]
    return pa.StructArray.from_arrays(columns, fields=list(STATEMENT))


def _figures(column: StatementColumn) -> dict[str, Any]:
    brokers = column.brokers
    if isinstance(brokers, np.ndarray):
        brokers = as_lists(brokers.astype(np.int64)[:, None])
    figures = {name: getattr(column, name) for name in ("offset", "leader_epoch", "value", "text")}
    return {"brokers": brokers, **figures}


def _sentences(column: StatementColumn) -> pa.Array:
    """`statements.prose` of each statement."""
    count, figures = len(column.at), _figures(column)
    pieces = [_column("", pa.string(), count)]
    for literal, name in _parsed(SENTENCES[column.code][1]):
        pieces.append(pa.scalar(literal))
        if name is not None:
            pieces.append(_text(_column(figures[name], STATEMENT.field(name).type, count)))
    return pc.binary_join_element_wise(*pieces, "")


def _text(figures: pa.Array) -> pa.Array:
    """The figures formatted as in `statements.prose`."""
    if not pa.types.is_list(figures.type):
        return pc.fill_null(figures.cast(pa.string()), "None")
    joined = pc.fill_null(pc.binary_join(figures.cast(pa.list_(pa.string())), ", "), "")
    return pc.if_else(pc.equal(joined, ""), "none", joined)


def _parsed(sentence: str) -> Iterator[tuple[str, str | None]]:
    """Each piece of a sentence as (text, name of the figure that follows it or None)."""
    for literal, name, _, _ in Formatter().parse(sentence):
        yield literal, name


def _evidence_structs(column: EvidenceColumn) -> pa.Array:
    values = {"role": column.role, "source": column.source, **column.columns}
    columns = [_column(values.get(f.name), f.type, len(column.at)) for f in EVIDENCE_ROW]
    return pa.StructArray.from_arrays(columns, fields=list(EVIDENCE_ROW))
