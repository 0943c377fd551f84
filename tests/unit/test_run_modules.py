"""Modules that are run (`python -m ...`)."""

from __future__ import annotations

import ast

from tests.support.paths import ROOT

ROOMS = ("airflow_dags", "bench", "docs_site", "drill", "evidence", "jobs", "quality", "replay", "tests")


def test_what_a_module_runs_stands_after_all_that_it_defines() -> None:
    """`python -m tests.bench` once called its main before the functions that it needs were there."""
    early = [
        str(path)
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "__name__" in (text := path.read_text(encoding="utf-8"))
        for statement in ast.parse(text).body[:-1]
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test)
    ]
    assert early == []
