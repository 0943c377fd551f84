"""Many findings at once, as columns: statements, prose and evidence. Nothing loops over findings.

For each finding the columns hold what `statements.statement` and `statements.prose` would return.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from replay.arrow.ragged import Array, as_lists, grouped
from replay.arrow.schemas import EVIDENCE_ROW, FINDINGS, PROVENANCE_NAMES, STATEMENT
from replay.findings.kinds import finding_id
from replay.findings.statements import SENTENCES


@dataclass(frozen=True, slots=True)
class StatementColumn:
    """A statement about some of the findings.

    at: numbers of those findings. The figures have one element for each; None means null. brokers: a list<int32> array,
    a matrix (`to_matrix`), or a NumPy array with one broker each.
    """

    code: str
    at: Array
    brokers: Any = None
    offset: Any = None
    leader_epoch: Any = None
    value: Any = None
    text: Any = None


def stated(code: str, where: Array, **figures: Any) -> StatementColumn:
    """A statement about the findings where `where` (bool) is true. figures: one element for each finding."""
    at = np.flatnonzero(where)
    chosen = {n: v[at] if isinstance(v, np.ndarray) else v.take(pa.array(at)) for n, v in figures.items()}
    return StatementColumn(code, at, **chosen)


def row_evidence(role: str, source: str, at: Array, rows: pa.Table, **names: str) -> tuple[Array, pa.Array]:
    """(at, schemas.EVIDENCE_ROW of each row of a table). at: number of the finding that each is evidence of. names:
    columns of `rows` by the field that they fill, beside those of the provenance; other fields are null."""
    columns = {**names, **dict(zip(PROVENANCE_NAMES, PROVENANCE_NAMES, strict=True))}
    filled = {name: rows[column] for name, column in columns.items()}
    return at, _structs(EVIDENCE_ROW, len(at), {"role": role, "source": source, **filled})


def finding_ids(cluster_id: str, kind: str, *columns: Iterable[Any]) -> pa.Array:
    """The ids of findings. columns: what identifies them, Python's values."""
    return pa.array([finding_id(cluster_id, kind, *key) for key in zip(*columns, strict=True)], pa.string())


def finding_table(
    columns: Mapping[str, Any],
    statements: Sequence[StatementColumn],
    evidence: Sequence[tuple[Array, pa.Array]],
    count: int,
) -> pa.Table:
    """schemas.FINDINGS with `count` rows.

    columns: arrays of `count` elements, or one value for all rows; columns left out are null. evidence: of
    `row_evidence`. The statements and the evidence of a finding keep the order in which they are passed.
    """
    of_statements = (
        _structs(STATEMENT, len(s.at), {"code": s.code, "nature": SENTENCES[s.code][0], **_figures(s)})
        for s in statements
    )
    reason = pa.concat_arrays([pa.nulls(0, STATEMENT), *of_statements])
    prose = pa.concat_arrays([pa.nulls(0, pa.string()), *map(_sentences, statements)])
    rows = pa.concat_arrays([pa.nulls(0, EVIDENCE_ROW), *(cited for _, cited in evidence)])
    none = np.empty(0, dtype=np.int64)
    said, cited = (
        np.concatenate([none, *(s.at for s in statements)]),
        np.concatenate([none, *(at for at, _ in evidence)]),
    )
    filled = {
        **columns,
        "reason": grouped(said, reason, count),
        "explanation": pc.binary_join(grouped(said, prose, count), " "),
        "evidence": grouped(cited, rows, count),
    }
    return pa.table({f.name: _column(filled.get(f.name), f.type, count) for f in FINDINGS}, schema=FINDINGS)


def _column(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    """A column of that type with `count` rows: None or a single value fills all rows."""
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, str | int):
        return pa.array([values], type=kind).take(pa.array(np.zeros(count, dtype=np.int64)))
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, type=kind)


def _structs(kind: pa.StructType, count: int, values: Mapping[str, Any]) -> pa.Array:
    """`count` structs. values: by field, as `_column` takes them; fields left out are null."""
    columns = [_column(values.get(field.name), field.type, count) for field in kind]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _figures(column: StatementColumn) -> dict[str, Any]:
    brokers = column.brokers
    if isinstance(brokers, np.ndarray):
        brokers = as_lists(brokers.astype(np.int64) if brokers.ndim > 1 else brokers.astype(np.int64)[:, None])
    figures = {name: getattr(column, name) for name in ("offset", "leader_epoch", "value", "text")}
    return {"brokers": brokers, **figures}


def _sentences(column: StatementColumn) -> pa.Array:
    """`statements.prose` of each statement."""
    count, figures = len(column.at), _figures(column)
    pieces = [_column("", pa.string(), count)]
    for literal, name, _, _ in Formatter().parse(SENTENCES[column.code][1]):
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
