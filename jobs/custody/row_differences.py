"""Compare the rows of two tables, whatever their order and the files that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from pyarrow.dataset import Dataset

Row = dict[str, Any]
MOST_ROWS = 10  # of each kind that are named


class Rows(NamedTuple):
    """first: the first MOST_ROWS of some rows. count: how many there are."""

    first: list[Row]
    count: int


def only_in(one: pa.Table | Dataset, other: pa.Table | Dataset, columns: Sequence[str]) -> Rows:
    """The rows that a table has more often than another one. Null equals null."""
    names = ", ".join(f'"{name}"' for name in columns)
    query = f"select {names} from one except all select {names} from other"
    with TemporaryDirectory(prefix="kraft-forensics-") as folder, duckdb.connect() as connection:
        connection.execute(f"set temp_directory = '{folder}'")
        connection.register("one", one)
        connection.register("other", other)
        first = f"select *, count(*) over () as rows_in_all from ({query}) order by all limit {MOST_ROWS}"
        found: list[Row] = connection.sql(first).to_arrow_table().to_pylist()
    return Rows([{name: row[name] for name in columns} for row in found], found[0]["rows_in_all"] if found else 0)
