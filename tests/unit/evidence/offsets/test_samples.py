"""Every source, on real output of Kafka's own tools and node (tests/samples/README.md says how each file was made), and
on what tools printed while captures were made.

Golden: tests/unit/golden/sources.jsonl has every row without its nulls, and every remark, a line each;
`python -m tests.unit.evidence.offsets.test_samples` writes it.
"""

import json
import shutil
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evidence import kinds
from evidence.capture.files import open_capture
from evidence.offsets.read import OffsetTables, read_offsets
from tests.support.cli import printed
from tests.support.golden import cases, write
from tests.support.metric_names import NAMES
from tests.support.paths import ROOT
from tests.support.small_captures import write_files
from tests.unit.evidence.offsets.support import LOG_INFO

SAMPLES = ROOT / "tests" / "samples"
PLACE = "snapshots/1795240316000/broker-1"
PRINTED = {
    "unclean": ("get-offsets", "topics-all-down", "log-dirs"),
    "diverge": ("quorum-replication", "quorum-status", "log-dirs"),
}


@cache
def read() -> tuple[OffsetTables, dict[str, str]]:
    """All samples as the capture of one broker; and the kind of each file."""
    texts = {
        f"printed/{name}-{tool}-{number}.txt": text
        for name, tools in PRINTED.items()
        for tool in tools
        for number, text in enumerate(printed(name, tool)[:2])
    }
    with TemporaryDirectory() as folder:
        root = Path(folder) / "samples"
        for name in ("node", "tools", "responses", "exporters"):
            shutil.copytree(SAMPLES / name, root / PLACE / name)
        write_files(root / PLACE, {**texts, "info.json": json.dumps(LOG_INFO)})
        with open_capture(root) as capture:
            found = read_offsets(capture.name, capture.files, NAMES, 5000)
            return found, {f.path.removeprefix(f"{PLACE}/"): f.kind for f in capture.files}


def found() -> list[dict[str, Any]]:
    """Of the rows, without nulls and what is the same in all, and of what was remarked."""
    offsets, accounts = read()[0], read()[0].accounts
    tables = offsets.log_end_offsets, offsets.described_partitions, offsets.quorum_reports
    rows = [row for table in tables for row in table.drop_columns(["capture", "sha256"]).to_pylist()]
    told = [{name: value for name, value in row.items() if value is not None} for row in rows]
    lines = [{"file": row.pop("path").removeprefix(f"{PLACE}/"), **row} for row in told]
    for path, account in accounts.items():
        lines += [{"file": path.removeprefix(f"{PLACE}/"), **asdict(damage)} for damage in account.damage]
    return lines


def test_every_row_of_every_sample() -> None:
    assert found() == cases("sources")


def test_every_byte_of_every_sample_is_understood() -> None:
    found, kinds_ = read()
    assert set(kinds_.values()) >= {
        *(kinds.JMX_TOOL, kinds.LOG_DIRS, kinds.GET_OFFSETS, kinds.TOPICS_DESCRIBE, kinds.QUORUM_STATUS),
        *(kinds.QUORUM_REPLICATION, kinds.QUORUM_STATE, kinds.CLEAN_SHUTDOWN, kinds.REPLICA_SEGMENT),
        *(kinds.DESCRIBE_QUORUM, kinds.DESCRIBE_TOPIC_PARTITIONS, kinds.DESCRIBE_LOG_DIRS, kinds.LEADER_EPOCH),
        *(kinds.REPLICA_LOG_INFO, kinds.JMX_EXPORTER, kinds.LISTING, kinds.CONSUMER_GROUPS, kinds.PROMETHEUS),
    }
    assert {p: a.damage for p, a in found.accounts.items() if a.quarantined_bytes or a.trailing_bytes} == {}


if __name__ == "__main__":
    write("sources", found())
