"""The byte account of each captured file, and the provenance columns of the rows read from it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from evidence.capture.files import EvidenceFile
from evidence.errors import Damage
from evidence.redaction import may_hold_secrets
from evidence.wire.batches import Bytes

MAX_RAW_BYTES = 1 << 20
UNKNOWN_NODE = "unknown node: put its meta.properties next to the file, or name the folder broker-<id>"
# Words of a secret that is kept may come after it: so many more bytes are searched.
_SEARCHED_BYTES = MAX_RAW_BYTES + (1 << 16)


@dataclass(frozen=True, slots=True)
class Account:
    """How a file's bytes were used: parsed + quarantined + trailing = the file's length."""

    parsed_bytes: int
    quarantined_bytes: int = 0
    trailing_bytes: int = 0
    note: str | None = None
    damage: Sequence[Damage] = ()
    is_read: bool = True


def with_undecoded(
    files: Iterable[EvidenceFile], accounts: Mapping[str, Account], rows: Iterable[Mapping[str, Any]]
) -> dict[str, Account]:
    """The accounts, by path, with the records that could not be decoded: those of `rows` (tables.QUARANTINE) that are
    no damage in an account. A file's copies have them, too."""
    of_file: dict[str, dict[int, int]] = defaultdict(dict)
    for row in rows:
        found = of_file[row["sha256"]]
        found[row["position"]] = max(row["length_bytes"], found.get(row["position"], 0))
    result = dict(accounts)
    for file in (f for f in files if f.path in accounts):
        account = accounts[file.path]
        known = {damage.position for damage in account.damage if damage.length_bytes}
        end = file.size_bytes - account.trailing_bytes
        count = sum(n for at, n in of_file[file.sha256].items() if at not in known and at < end)
        note = account.note or (f"{count} bytes of records that cannot be decoded" if count else None)
        parsed, quarantined = account.parsed_bytes - count, account.quarantined_bytes + count
        result[file.path] = replace(account, parsed_bytes=parsed, quarantined_bytes=quarantined, note=note)
    return result


def last_of_each_folder(files: Iterable[EvidenceFile], kind: str) -> set[str]:
    """The paths of the last segment (of one kind) in each folder: it holds the log's end. All others were closed."""
    last: dict[PurePosixPath, str] = {}
    for path in sorted(f.path for f in files if f.kind == kind):
        last[PurePosixPath(path).parent] = path
    return set(last.values())


def provenance(capture: str, file: EvidenceFile, position: int) -> dict[str, object]:
    """The columns of tables.PROVENANCE."""
    return {"capture": capture, "path": file.path, "sha256": file.sha256, "position": position}


def read_when(at_ms: int | None, within_ms: int | None, error_ms: int, older_ms: int = 0) -> dict[str, int | None]:
    """The columns that say when a value was read: the earliest time, and within how many ms after it. at_ms, within_ms:
    the same, by the capturer's clock, which is off by at most error_ms. older_ms: by how much a monitor may have read
    it before that."""
    if at_ms is None or within_ms is None:
        return {"captured_at_ms": None, "uncertainty_ms": None}
    before_ms = older_ms + error_ms
    return {"captured_at_ms": at_ms - before_ms, "uncertainty_ms": before_ms + within_ms + error_ms}


def quarantine_rows(capture: str, file: EvidenceFile, damage: Sequence[Damage]) -> list[dict[str, object]]:
    """tables.QUARANTINE rows for a file's damage."""
    if not damage:
        return []
    place = {"capture": capture, "path": file.path, "sha256": file.sha256, "node_id": file.node_id}
    with file.slices() as data:
        return [{**place, **damage_columns(data, file.path, d)} for d in damage]


def damage_columns(data: Bytes, path: str, damage: Damage) -> dict[str, object]:
    """The tables.QUARANTINE columns of one damaged range. raw: the first of its bytes, at most MAX_RAW_BYTES, or
    None if these may hold a secret. Nothing else of a long range is read."""
    raw = data[damage.position : damage.position + min(damage.length_bytes, _SEARCHED_BYTES)]
    return {
        "position": damage.position,
        "length_bytes": damage.length_bytes,
        "offset": damage.offset,
        "reason": damage.reason,
        "message": damage.describe(path),
        "raw": None if may_hold_secrets(raw) else raw[:MAX_RAW_BYTES],
    }
