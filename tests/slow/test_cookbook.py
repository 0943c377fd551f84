"""Every statement and block of the cookbook gives the result that its page has, in every engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duckdb import DuckDBPyConnection
from pyspark.sql import SparkSession

import kraft_forensics
from jobs.views.sql import ReadOnlySql
from tests.support.cookbook import (
    COOKBOOK,
    ENGINES,
    answer_of,
    as_text,
    engines,
    lake_of_the_example,
    names_of,
    questions,
)

ASKED = questions(COOKBOOK.read_text(encoding="utf-8"))
IN_ENGINES = engines(ENGINES.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake_of_the_example(tmp_path_factory.mktemp("cookbook"))


@pytest.fixture(scope="module")
def duckdb(lake: Path) -> Iterator[DuckDBPyConnection]:
    with kraft_forensics.duckdb(lake) as connection:
        yield connection


@pytest.fixture(scope="module")
def sql(spark: SparkSession, lake: Path) -> ReadOnlySql:
    return ReadOnlySql(lake)


@pytest.fixture(scope="module")
def names(spark: SparkSession, lake: Path) -> dict[str, Any]:
    return {**names_of(ENGINES.read_text(encoding="utf-8"), lake), "spark": spark}


def test_the_cookbook_has_its_questions() -> None:
    assert len(ASKED) >= 25
    assert all(result for _, result in ASKED)
    assert len(IN_ENGINES) == 1
    assert all(list(asked.code) == ["DuckDB", "Polars", "pandas", "PySpark"] for asked in IN_ENGINES)


@pytest.mark.parametrize(("statement", "result"), ASKED, ids=[str(n) for n in range(len(ASKED))])
def test_an_answer_in_duckdb(statement: str, result: str, duckdb: DuckDBPyConnection) -> None:
    found = duckdb.sql(statement)
    assert as_text(found.columns, found.fetchall()) == result


@pytest.mark.parametrize(("statement", "result"), ASKED, ids=[str(n) for n in range(len(ASKED))])
def test_an_answer_in_spark(statement: str, result: str, sql: ReadOnlySql) -> None:
    columns, rows = sql.run(statement)
    assert as_text(columns, [[row[name] for name in columns] for row in rows]) == result


@pytest.mark.parametrize(
    ("engine", "number"), [(engine, n) for n, asked in enumerate(IN_ENGINES) for engine in asked.code]
)
def test_an_answer_in_every_engine(engine: str, number: int, names: dict[str, Any]) -> None:
    asked = IN_ENGINES[number]
    assert answer_of(asked.code[engine], names) == asked.result
