"""Tables read without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from jobs.lake_files import LakeFiles
from tests.support.paths import ROOT

PROGRAM = ROOT / "tests" / "cases" / "reads_a_table_and_ends" / "program.py"
PROCESSES = 5


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """With an evidence_files of 20 files, each a commit of its own."""
    for number in range(20):
        rows = {"cluster_id": ["c"] * 1000, "capture": [f"capture-{number}"] * 1000, "size_bytes": [number] * 1000}
        write_deltalake(tmp_path / "evidence_files", pa.table(rows), mode="append")
    return tmp_path


def test_reads_a_table(lake: Path) -> None:
    files = LakeFiles(lake)
    assert files.clusters() == ["c"]
    assert files.captures("c") == {f"capture-{number}": 1000 for number in range(20)}
    assert files.count("evidence_files", "c") == 20_000
    assert files.rows("evidence_files", "another") == []


def test_a_process_that_has_read_ends_in_peace(lake: Path) -> None:
    """tests/cases/reads_a_table_and_ends: most of these processes were aborted."""
    for _ in range(PROCESSES):
        done = subprocess.run([sys.executable, PROGRAM, lake], capture_output=True, text=True, cwd=ROOT)
        assert (done.returncode, done.stderr) == (0, "")
