"""Logs that Kafka's own classes wrote, in every message format and codec: what `salvage` reads and gives back."""

import json
import re
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from evidence.offsets.replica_copy import find_copies
from evidence.wire.data_records import DataRecord, read_data
from jobs.salvage.stage import salvage
from tests.kafka.conftest import KAFKA, java
from tests.support.paths import ROOT

DUMP = "org.apache.kafka.tools.DumpLogSegments"
MADE = ROOT / "tests" / "kafka" / "DataLogs.java"


def written(folder: Path, seed: int) -> tuple[list[dict[str, Any]], int]:
    """(What Kafka's reader finds in FOLDER/old, where FOLDER/current parts from it)."""
    done = subprocess.run([*java(KAFKA), str(MADE), str(folder), str(seed)], capture_output=True)
    assert done.returncode == 0, done.stderr
    *rows, last = (json.loads(line) for line in done.stdout.splitlines())
    return rows, last["parting"]


def shown(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


@pytest.mark.parametrize("seed", [1, 2])
def test_what_kafka_wrote_is_read_and_given_back(tmp_path: Path, seed: int) -> None:
    rows, parting = written(tmp_path, seed)
    (old,) = find_copies(tmp_path / "old")
    read = []
    for _, data, batch in old.batches():
        for record in () if batch.is_control else read_data(data, batch):
            assert isinstance(record, DataRecord), record
            headers = [[name, shown(value)] for name, value in record.headers]
            names = ("offset", "timestamp", "sequence", "epoch", "producer", "key", "value", "headers")
            of = (*record[:3], batch.epoch, batch.producer_id, shown(record.key), shown(record.value), headers)
            read.append(dict(zip(names, of, strict=True)))
    assert read == rows
    out = tmp_path / "saved"
    summary = salvage(tmp_path / "old", tmp_path / "current", (), None, out, lambda line: None)
    (found,) = summary["partitions"]
    lost = [row for row in rows if row["offset"] >= parting]
    assert (found["parting_offset"], found["parted_by"], found["records"]) == (parting, "leader epochs", len(lost))
    assert found["missing_before_parting"] > 0  # the current log was compacted
    assert found["aborted"] == sum(row["producer"] == 8 for row in lost)
    assert not found["partial"]
    saved = [json.loads(line) for line in (out / "ledger-0" / "records.jsonl").read_text().splitlines()]
    assert [row["offset"] for row in saved] == [row["offset"] for row in lost]
    (segment,) = (out / "ledger-0").glob("*.log")
    words = [*java(KAFKA), DUMP, "--print-data-log", "--files", str(segment)]
    dump = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "isvalid: false" not in dump
    assert [int(at) for at in re.findall(r"^\| offset: (\d+)", dump, re.MULTILINE)] == [row["offset"] for row in lost]
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*") if path.is_file()} == {0o600}
