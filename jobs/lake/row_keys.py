"""DuckDB, as all of this process use it. With it the rows of two tables are compared by a key of several columns: null
equals null, and text its code in a dictionary."""

import atexit
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
from pyarrow.dataset import Dataset

from replay.arrow.ragged import Array

_NEW = "select min(place) as place from given where not exists (from known where {same}) group by {key} order by all"
_MATCHES = """
select coalesce(min(known.place), -1) as place from given left join known on {same} group by given.place
order by given.place
"""


def new_rows(rows: pa.Table, known: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows whose key is not in `known`; of rows with the same key, the first."""
    return rows.take(_places(_NEW, rows, known, key))


def matches(rows: pa.Table, known: pa.Table, key: Sequence[str]) -> Array:
    """int64: for each row the number of a row of `known` with the same key, -1 if there is none."""
    return _places(_MATCHES, rows, known, key).to_numpy()


def _places(query: str, rows: pa.Table, known: pa.Table, key: Sequence[str]) -> pa.ChunkedArray:
    same = " and ".join(f'given."{name}" is not distinct from known."{name}"' for name in key)
    given, others = (t.select(key).append_column("place", pa.array(np.arange(len(t)))) for t in (rows, known))
    with registered(given=given, known=others) as connection:
        return connection.sql(query.format(same=same, key=", ".join(f'"{k}"' for k in key))).to_arrow_table()["place"]


@contextmanager
def registered(**given: pa.Table | Dataset) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection in which these rows have their names."""
    with database().cursor() as connection:
        for name, rows in given.items():
            connection.register(name, rows)
        yield connection


@cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all queries of the process: to open one takes longer than most of them. What needs more memory than there
    is goes to the temporary folder, not to the one that the command was called in."""
    atexit.register(database.cache_clear)  # DuckDB complains of what is left when the interpreter has ended
    return duckdb.connect(config={"temp_directory": tempfile.gettempdir()})
