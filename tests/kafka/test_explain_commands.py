"""The commands that `explain` prints, run with Kafka's own kafka-dump-log on a real capture."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evidence import kinds
from jobs.queries.explain import commands
from tests.kafka.conftest import KAFKA, java
from tests.support.paths import unpacked
from tests.support.pure import decode

Row = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked capture, with kafka-dump-log.sh beside it in bin/."""
    root = tmp_path_factory.mktemp("explained")
    tool = root / "bin" / "kafka-dump-log.sh"
    tool.parent.mkdir()
    words = shlex.join(java(KAFKA, "org.apache.kafka.tools.DumpLogSegments"))
    tool.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    tool.chmod(0o755)
    return unpacked("unclean", root)


def run(command: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def evidence(row: Row, kind: str, table: str, record: Row | None = None) -> Row:
    return {**row, "file_kind": kind, "table": table, "record": record}


def sampled(rows: list[Row]) -> list[Row]:
    """A control record, and another one."""
    return [next(row for row in rows if row["is_control"] == is_control) for is_control in (True, False)]


def test_records_of_the_log_and_of_snapshots(folder: Path) -> None:
    decoded = decode(folder)
    rows = [evidence(r, kinds.METADATA_SEGMENT, "partition_history", r) for r in sampled(decoded.records)]
    rows += [evidence(r, kinds.METADATA_CHECKPOINT, "partition_history", r) for r in sampled(decoded.snapshots)]
    for row in rows:
        (line,) = run(commands(row)[0], folder).splitlines()
        assert line.startswith(f"| offset: {row['offset']} CreateTime: {row['timestamp_ms']} ")
        data = json.loads(line[line.index("{") :])
        if not row["is_control"]:
            assert (data["type"], data["version"]) == (row["type"], row["version"])
            data = data["data"]
        assert data == row["data"]


def test_a_batch(folder: Path) -> None:
    batch = decode(folder).batches[-1]
    row = evidence({**batch, "offset": batch["base_offset"]}, kinds.METADATA_SEGMENT, "log_batches")
    (line,) = run(commands(row)[0], folder).splitlines()
    assert f" position: {batch['position']} " in line
    assert f" crc: {batch['crc']} isvalid: true" in line


def test_the_end_of_a_replicas_log(folder: Path) -> None:
    ends = [r for r in decode(folder).offsets.to_pylist() if r["source"] == kinds.REPLICA_SEGMENT]
    end = next(row for row in ends if row["log_end_offset"])
    row = evidence({**end, "offset": None}, kinds.REPLICA_SEGMENT, "log_end_offsets")
    (line,) = run(commands(row)[0], folder).splitlines()
    assert f" lastOffset: {end['log_end_offset'] - 1} " in line
