"""What must hold for a file, however damaged: no error but those that name what is wrong, every byte accounted for, and
the same rows from the compiled decoder as from the reader that is the reference."""

from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from evidence import kinds
from evidence.broker_logs.boot_ids import read_boot_ids
from evidence.broker_logs.read import read_broker_logs
from evidence.capture import archive
from evidence.capture.accounts import Account, quarantine_rows
from evidence.capture.files import Capture, EvidenceFile, open_capture
from evidence.capture.static_configs import static_configs
from evidence.errors import CaptureError
from evidence.metadata_log.columns import DECODED, decode_arrow
from evidence.metadata_log.rows import PAYLOADS, ByteRange, work_of
from evidence.metadata_log.scan import file_row, scan_files
from evidence.offsets.read import read_offsets
from tests.fuzz.corpus import Seed
from tests.support.metric_names import NAMES
from tests.support.small_captures import write_files

_COMPILED, _REFERENCE = 0, 1 << 60  # of how many bytes on the compiled loops are used
_ROUND_MS = 5000


def read(given: Seed, folder: Path) -> tuple[str, str]:
    """Everything that ingest does with a file, without a lake; returns (kind, outcome).

    Errors: what must not happen.
    """
    place = write_files(folder, {given.name: given.data}) / given.name
    try:
        with open_capture(place if archive.is_archive(place) else folder) as capture:
            return _read_capture(capture, given)
    except CaptureError as error:
        if "the file changed" in str(error):
            raise
        return PurePosixPath(given.name).name, "refused"
    finally:
        place.unlink()


def _read_capture(capture: Capture, given: Seed) -> tuple[str, str]:
    scanned = scan_files(capture.files)
    offsets = read_offsets(capture.name, capture.files, NAMES, _ROUND_MS)
    logs = read_broker_logs(capture.name, capture.files)
    boot_ids = read_boot_ids(capture, _ROUND_MS)
    static_configs(capture)
    for item in work_of(scanned):
        _decode(item.source.read_bytes(), item)
    accounts = scanned.accounts | offsets.accounts | logs.accounts | boot_ids.accounts
    status = "registered"
    for file in capture.files:
        account = accounts.get(file.path)
        if account is not None:
            status = str(file_row(capture.name, file, account, scanned.logs)["status"])
            _check(file, account)
            quarantine_rows(capture.name, file, account.damage)
    name = PurePosixPath(given.name).name
    kind = capture.files[0].kind if len(capture.files) == 1 else name
    return kind, status


def _decode(data: bytes, work: ByteRange) -> None:
    """The rows and the damage of a range, by the reference and by the compiled loops where these read such a file."""
    expected = _rows(data, work, _REFERENCE)
    if work.kind != kinds.DUMP_LOG and work.holds != PAYLOADS and _rows(data, work, _COMPILED) != expected:
        raise AssertionError(f"the compiled decoder gives other rows: bytes {work.start} to {work.end} of {work.path}")


def _rows(data: bytes, work: ByteRange, compiled_from: int) -> list[dict[str, Any]]:
    found = pa.Table.from_batches(decode_arrow(data, work, "fuzz", compiled_from), schema=DECODED).to_pylist()
    return sorted(found, key=lambda row: (row["position"] is None, row["position"] or 0, str(row["damage"])))


def _check(file: EvidenceFile, account: Account) -> None:
    """Every byte of the file is accounted for, and for once only."""
    spans = sorted((d.position, d.position + d.length_bytes) for d in account.damage)
    if any(begin < 0 or end > file.size_bytes for begin, end in spans):
        raise AssertionError(f"damage outside of the file: {spans}")
    if any(end > begin for (_, end), (begin, _) in pairwise(spans)):
        raise AssertionError(f"stretches overlap: {spans}")
    used = (account.parsed_bytes, account.quarantined_bytes, account.trailing_bytes)
    if sum(used) != file.size_bytes or min(used) < 0:
        raise AssertionError(f"{used} of {file.size_bytes} bytes are accounted for: {account}")
