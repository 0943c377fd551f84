"""What a check sees of the row before or after each row of a table that is in order: in SQL, to compare keys of strings
with those of a neighbour takes longer than all else that most checks do."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_NULL = -(2**63)


def with_steps(rows: pa.Table, key: Sequence[str]) -> pa.Table | None:
    """The rows with two more columns, bool; None if they are not in order: the rows of a subject (the key without its
    last column) together, in the order of the last column.

    follows: the row before is of the same subject. twice: the row before or after has the same key.
    """
    codes = np.stack([_codes(rows[name]) for name in key])
    subjects, last = codes[:-1], codes[-1]
    follows, repeats = np.zeros((2, len(rows) + 1), dtype=bool)
    follows[1:-1] = (subjects[:, 1:] == subjects[:, :-1]).all(axis=0)
    repeats[1:-1] = follows[1:-1] & (last[1:] == last[:-1])
    begins = codes[:, ~follows[:-1]]
    begun = begins[:-1, np.lexsort(begins[::-1])]
    is_together = (begun[:, 1:] != begun[:, :-1]).any(axis=0).all()
    if not is_together or (follows[1:-1] & (last[1:] < last[:-1])).any():
        return None
    twice = repeats[:-1] | repeats[1:]
    return rows.append_column("follows", pa.array(follows[:-1])).append_column("twice", pa.array(twice))


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """The same number for the same values alone; integers stand for themselves."""
    if pa.types.is_string(column.type):
        column = column.dictionary_encode()
    values = column.combine_chunks()
    numbers = values.indices if pa.types.is_dictionary(column.type) else values
    return numbers.cast(pa.int64()).fill_null(_NULL).to_numpy()
