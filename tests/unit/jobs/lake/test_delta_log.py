"""Delta tables begun and read as files, without Spark (tests/spark/test_delta_log.py compares with Delta's own)."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.lake.delta_log import commits, is_table, make_table, version


def test_a_table_is_made_once(tmp_path: Path) -> None:
    assert not is_table(tmp_path / "t")
    make_table(tmp_path / "t", "first", "{}", {})
    made = (tmp_path / "t/_delta_log/00000000000000000000.json").read_bytes()
    make_table(tmp_path / "t", "second", "{}", {})
    assert is_table(tmp_path / "t")
    (file,) = (tmp_path / "t/_delta_log").iterdir()
    assert file.read_bytes() == made
    assert b"first" in made


@pytest.mark.parametrize(("properties", "writer"), [({}, 2), ({"delta.constraints.c": "a > 0"}, 3)])
def test_what_a_table_needs_of_its_writers(tmp_path: Path, properties: dict[str, str], writer: int) -> None:
    make_table(tmp_path, "", "{}", properties)
    text = (tmp_path / "_delta_log/00000000000000000000.json").read_text()
    assert text.endswith(f'{{"protocol": {{"minReaderVersion": 1, "minWriterVersion": {writer}}}}}\n')


def test_the_newest_commit_is_told_first_and_no_other_file_counts(tmp_path: Path) -> None:
    make_table(tmp_path, "", "{}", {})
    log = tmp_path / "_delta_log"
    (log / f"{1:020d}.json").write_text('{"add":{}}\n{"commitInfo":{"operation":"WRITE"}}\n')
    (log / f"{2:020d}.json").write_text('{"add":{}}\n')
    (log / "_last_checkpoint.json").write_text("{}")
    assert version(tmp_path) == 2
    assert [c.get("operation") for c in commits(tmp_path)] == [None, "WRITE", "CREATE TABLE"]
