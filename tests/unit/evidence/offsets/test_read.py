"""Small captures, a line each in tests/unit/golden/small_captures.jsonl: what it shows, its files, the rows without
nulls and, by file, damage (position, length, reason, message).
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.support.golden import filled
from tests.unit.evidence.offsets import support


@filled("small_captures")
def test_what_is_read_of_a_small_capture(case: dict[str, Any]) -> dict[str, Any]:
    files = {path: text.encode("utf-8", "surrogateescape") for path, text in case["files"].items()}
    with TemporaryDirectory() as folder:
        found, _ = support.read(Path(folder, "capture"), files)
    tables = (found.log_end_offsets, found.described_partitions, found.quorum_reports)
    rows = [row for table in tables for row in table.drop_columns(["capture", "sha256"]).to_pylist()]
    damage = {
        path: [[d.position, d.length_bytes, d.reason, d.message] for d in account.damage]
        for path, account in found.accounts.items()
        if account.damage
    }
    assert {path: found.accounts[path].note for path in damage} == {path: first[0][3] for path, first in damage.items()}
    return {**case, "rows": [{k: v for k, v in row.items() if v is not None} for row in rows], "damage": damage}
