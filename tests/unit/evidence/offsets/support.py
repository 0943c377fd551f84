"""Offsets read from files of a capture that a test makes."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from evidence import tables
from evidence.capture.accounts import quarantine_rows
from evidence.capture.files import open_capture
from evidence.metadata_log.scan import file_row
from evidence.offsets.columns import ENCODED
from evidence.offsets.read import OffsetTables, read_offsets
from evidence.redaction import may_hold_secrets
from tests.support.golden import FOLDER
from tests.support.metric_names import NAMES
from tests.support.small_captures import write_files

NOW = "1795221569450"
BROKER = f"snapshots/{NOW}/broker-4"
# KIP-966's GetReplicaLogInfoResponse; no release has shipped it.
LOG_INFO = json.loads((FOLDER / "replica_log_info.json").read_text())


def read(root: Path, files: dict[str, bytes]) -> tuple[OffsetTables, dict[str, str]]:
    """The tables and each file's kind. Every byte is accounted for; damage lies inside its file and apart, and its
    rows have its bytes, unless they may hold a secret."""
    with open_capture(write_files(root, files)) as capture:
        found = read_offsets(capture.name, capture.files, NAMES, 5000)
        positions = defaultdict(list)
        for table in (found.log_end_offsets, found.described_partitions, found.quorum_reports):
            for place in table.select(["path", "position"]).to_pylist():
                positions[place["path"]].append(place["position"])
        for file in capture.files:
            account = found.accounts.get(file.path)
            row = file_row(capture.name, file, account, [])
            accounted = (row["parsed_bytes"], row["quarantined_bytes"], row["trailing_bytes"])
            assert min(accounted) >= 0
            assert sum(accounted) == file.size_bytes
            bad = account.damage if account else []
            spans = sorted((d.position, d.position + d.length_bytes) for d in bad)
            assert all(0 <= begin <= end <= file.size_bytes for begin, end in spans)
            assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
            for entry, item in zip(quarantine_rows(capture.name, file, bad), bad, strict=True):
                raw = files[file.path][item.position : item.position + item.length_bytes]
                assert entry["raw"] == (None if may_hold_secrets(raw) else raw)
                assert str(entry["message"]).startswith(f"{file.path}: byte {item.position}")
            in_damage = [row for row in positions[file.path] for begin, end in spans if begin <= row < end]
            assert in_damage == []
        assert found.log_end_offsets.schema == ENCODED
        assert found.described_partitions.schema == tables.DESCRIBED_PARTITIONS
        assert found.quorum_reports.schema == tables.QUORUM_REPORTS
        return found, {f.path: f.kind for f in capture.files}
