"""Copies of /proc/sys/kernel/random/boot_id: which machine, which id, read when; when the machine started.

tests/unit/golden/boot_ids.jsonl has a capture a line: what it shows, its files, and the rows without nulls and damage.
By an uptime of 100 s, read between t and t' by a clock that is off by up to 7 ms, the machine started from
t - 7 - 101,050 - 1 to t' + 7 - 99,950: the uptime was below 101 s, by a clock that runs up to 0.05 % too fast or slow.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from evidence.broker_logs.boot_ids import read_boot_ids
from evidence.capture.files import open_capture
from tests.support.golden import filled
from tests.support.small_captures import write_files


@filled("boot_ids")
def test_what_is_read_of_boot_ids(case: dict[str, Any]) -> dict[str, Any]:
    with TemporaryDirectory() as folder, open_capture(write_files(Path(folder, "case"), case["files"])) as opened:
        read = read_boot_ids(opened, 5_000)
    rows = sorted(read.rows.drop_columns(["capture", "sha256"]).to_pylist(), key=lambda row: row["captured_at_ms"])
    damage = [[path, d.length_bytes, d.reason, d.message] for path, a in read.accounts.items() for d in a.damage]
    sizes = {path: len(text) for path, text in case["files"].items()}
    assert all(a.parsed_bytes + a.quarantined_bytes == sizes[path] for path, a in read.accounts.items())
    shown = [{name: value for name, value in row.items() if value is not None} for row in rows]
    return {"what": case["what"], "files": case["files"], "rows": shown, "damage": damage}
