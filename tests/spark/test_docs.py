"""The examples of the README and of docs/api.md run as tests; docs/tables.md matches the code."""

import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from docs_site.tables_page import document
from tests.spark.conftest import Job
from tests.support.invoked import invoke
from tests.support.page_examples import commands, examples, failures
from tests.support.paths import ROOT, controllers

EXAMPLES = commands("README.md")


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[c[:30] for c, _ in EXAMPLES])
def test_readme_example(job: Job, command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "lake").symlink_to(job.pipeline.root)
    monkeypatch.chdir(tmp_path)
    result = invoke(shlex.split(command))
    assert result.exit_code == 0, result.output
    assert result.stdout == output


def test_the_examples_of_the_data_source_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controllers("unclean", tmp_path)
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in examples("docs/api.md") if "spark" in block]
    assert failures([block], {"spark": spark}) == ""


def test_readme_has_examples() -> None:
    assert len(EXAMPLES) >= 2


def test_the_page_of_tables_is_up_to_date() -> None:
    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == document()
