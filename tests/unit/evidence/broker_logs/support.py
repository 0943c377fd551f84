"""A log file made of bytes, and what is read from it."""

import hashlib
from pathlib import Path
from typing import Any

from evidence import kinds
from evidence.broker_logs.read import BrokerLogTables, read_broker_logs
from evidence.capture.files import EvidenceFile
from tests.support.paths import ROOT

SAMPLES = ROOT / "tests" / "samples" / "broker_logs"
RELEASES = ("3.9.1", "4.0.2", "4.1.1", "4.2.0", "4.3.1", "4.4.0")

Row = dict[str, Any]


def log_file(
    folder: Path, data: bytes, name: str = "server.log", kind: str = kinds.SERVER_LOG, node_id: int | None = None
) -> EvidenceFile:
    local = folder / name
    local.write_bytes(data)
    return EvidenceFile(local, f"logs/{name}", kind, len(data), hashlib.sha256(data).hexdigest(), node_id, None)


def read(folder: Path, data: bytes, node_id: int | None = None, **options: Any) -> BrokerLogTables:
    """One server.log of a capture `c`; its bytes are accounted for."""
    kind = options.pop("kind", kinds.SERVER_LOG)
    name = options.pop("name", "server.log")
    found = read_broker_logs("c", [log_file(folder, data, name, kind, node_id)], **options)
    account = found.accounts[f"logs/{name}"]
    assert account.parsed_bytes + account.quarantined_bytes + account.trailing_bytes == len(data)
    assert min(account.parsed_bytes, account.quarantined_bytes, account.trailing_bytes) >= 0
    assert sum(d.length_bytes for d in account.damage) == account.quarantined_bytes
    return found


def said(row: Row) -> Row:
    """A row without nulls and without what every row has."""
    place = (
        *("file_is_whole", "capture", "path", "sha256", "position", "length_bytes", "message", "level", "logger"),
        "logged_at_ms",
    )
    return {k: v for k, v in row.items() if v is not None and k not in place}
