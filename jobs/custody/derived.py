"""Compare a lake with rows that are derived again: from the bytes of a capture, whose files are compared by SHA-256,
and by a replay of the lake's evidence, all of it or a sample."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset
from pyarrow.fs import copy_files

from evidence import kinds
from evidence.capture.files import Capture, open_capture
from evidence.capture.remote import Location
from jobs.config.settings import Settings
from jobs.custody.tables import MOST_ROWS, Difference, key_of, only_in
from jobs.detect.stage import run_detect
from jobs.ingest.captures import files_digest
from jobs.ingest.records import RECORDS, SNAPSHOTS
from jobs.ingest.stage import ingest_opened
from jobs.lake.integrity import receipts
from jobs.lake.lake import Lake, Row
from jobs.lake.tables import CLUSTER_ID, DETECTED, INGESTED, REPLAYED, TABLES
from jobs.replay.buckets import HISTORY, BucketFiles, buckets, read_changes, read_table
from jobs.replay.cluster_state import LogConflictError, load_cluster_state, replayed_from
from jobs.replay.stage import replay
from jobs.replay.task import reduced
from jobs.views.in_duckdb import rows_of

_LOGS = (kinds.METADATA_SEGMENT, kinds.METADATA_CHECKPOINT, kinds.DUMP_LOG)
# Of a record or batch that several files hold, the lake names the first that was read. Its commit state, and the nodes
# that hold a batch, follow from all captures.
_OF_ALL = ("capture", "path", "sha256", "position", "nodes", "commit_state")
_SHARED = ("metadata_records", "log_batches")
# What a row of these says of when the file was copied is that of the capture that brought it first.
_COPIED = {"node_boots": ("whole_until_ms",)}
# Of a capture's row only what its manifest says is compared: `_check_files` compares its files. Releases may be of
# earlier manifests.
_CAPTURES = "captures"
_TEXTS = {
    "row_not_in_bytes": "no bytes give this row",
    "row_differs": "the bytes give another row",
    "row_missing": "the bytes give a row that the table lacks",
}
_OF_MANIFEST = ("clock_error_ms", "snapshot_duration_ms", "sha256", "position")


def check_capture(
    lake: Lake, cluster: str, location: Location, settings: Settings, sample: int | None
) -> Iterator[Difference]:
    """What differs between a capture and the lake. sample: how many files of the metadata log to decode, at random;
    None: all."""
    with open_capture(location, settings.limits) as capture:
        of_capture = pc.field("capture") == capture.name
        known = lake.rows("evidence_files", cluster, ("path", "sha256", "size_bytes"), of_capture)
        yield from _check_files(lake, cluster, capture, known)
        ingested = {(row["path"], row["sha256"]) for row in known}
        unchanged = [file for file in capture.files if (file.path, file.sha256) in ingested]
        changed = {path for path, _ in ingested} - {file.path for file in unchanged}
        logs = [file for file in unchanged if file.kind in _LOGS]
        left_out = set() if sample is None else set(logs) - set(random.sample(logs, min(sample, len(logs))))
        chosen = [file for file in unchanged if file not in left_out]
        if not chosen:
            return
        with TemporaryDirectory(prefix="kraft-forensics-") as folder:
            again = Lake(Path(folder) / "lake")
            ingest_opened(again, replace(capture, cluster_id=cluster, files=chosen), settings, lambda _: None)
            of_files = {file.sha256 for file in chosen}
            for name in INGESTED[:-1]:
                yield from _compare(lake, again, cluster, name, capture.name, of_files, changed)


def _check_files(lake: Lake, cluster: str, capture: Capture, known: Sequence[Row]) -> Iterator[Difference]:
    if not known:
        yield Difference(None, "capture_unknown", f"no capture {capture.name} was ingested into this lake")
    recorded = {row["path"]: row["sha256"] for row in known}
    found = {file.path: file.sha256 for file in capture.files}
    for path, sha256 in recorded.items():
        if path not in found:
            yield Difference(None, "evidence_missing", f"{capture.name}: the file is missing", path)
        elif found[path] != sha256:
            text = f"{capture.name}: the file has SHA-256 {found[path]}, and {sha256} was ingested"
            yield Difference(None, "evidence_changed", text, path)
    for path in found.keys() - recorded.keys() if known else ():
        yield Difference(None, "evidence_added", f"{capture.name}: the file was not ingested", path)
    by_name = [receipt for receipt in receipts(lake, cluster) if receipt["capture"] == capture.name]
    ingested = files_digest((row["path"], row["sha256"], row["size_bytes"]) for row in known)
    if len(by_name) == 1 and by_name[0]["digest"] != ingested:
        text = f"{capture.name}: evidence_files lists other files than were ingested"
        yield Difference("evidence_files", "manifest_changed", text)


def _compare(
    lake: Lake, again: Lake, cluster: str, name: str, capture: str, of_files: set[str], changed: set[str]
) -> Iterator[Difference]:
    """Rows of one table that bytes and lake do not have in common: the first MOST_ROWS of each kind, and how many more
    there are. of_files: SHA-256 of the files that were read again. changed: paths of files whose bytes are no longer
    those that gave the lake's rows."""
    table = TABLES[name]
    ignored = _OF_ALL if name in _SHARED else ("capture", "path", *_COPIED.get(name, ()))
    columns = [column for column in table.schema.names if column not in (CLUSTER_ID, *ignored)]
    if name == _CAPTURES:
        columns = list(_OF_MANIFEST)
    stored = lake.dataset(name).filter(pc.field(CLUSTER_ID) == cluster)
    if name not in _SHARED:
        stored = stored.filter(pc.field("sha256").isin(pa.array(sorted(of_files), pa.string())))
    text = files(__package__).joinpath("derived.sql").read_text("utf-8")
    key = "{" + ", ".join(f"'{column}': \"{column}\"" for column in table.key) + "}"
    has_offset = "offset" in table.key
    place = """if("offset" is null, sha256 || '@' || position, null)""" if has_offset else "null::text"
    query = text.format(key=key, place=place, columns=", ".join(f'"{column}"' for column in columns))
    values = {"capture": capture, "files": [*of_files], "changed": [*changed, ""], "most": MOST_ROWS}
    for row in rows_of(query, values, {"stored": stored, "derived": again.dataset(name)}):
        if row["number"] <= MOST_ROWS:
            yield Difference(name, row["what"], _TEXTS[row["what"]], row["path"], key_of(name, row["key"]))
        else:
            yield Difference(name, row["what"], f"{row['count'] - MOST_ROWS} more rows")


def check_histories(lake: Lake, cluster: str, settings: Settings) -> Iterator[Difference]:
    """Rows of the derived tables that a replay and detection of the lake's evidence, in a temporary folder, do not
    give. Of two different rows both are named."""
    with TemporaryDirectory(prefix="kraft-forensics-") as folder:
        again = Lake(Path(folder) / "lake")
        for name in INGESTED:
            copy_files(lake.storage.path(name), again.storage.path(name), lake.storage.system, again.storage.system)
        try:
            replay(again, cluster, settings, lambda _: None, replayed_from(lake, cluster))
        except LogConflictError:
            return  # a finding is all that the lake has
        run_detect(again, cluster, settings, lambda _: None)
        of_cluster = pc.field(CLUSTER_ID) == cluster
        for name in (*REPLAYED, *DETECTED):
            yield from _differences(name, *(each.dataset(name).filter(of_cluster) for each in (lake, again)))


def check_sample(lake: Lake, cluster: str, settings: Settings, sample: int) -> Iterator[Difference]:
    """Rows of partition_history that a replay of some buckets, at random, does not give. sample: how many of them.
    Reads the evidence where it is."""
    try:
        state = load_cluster_state(lake, cluster, replayed_from(lake, cluster))
    except LogConflictError:
        return
    files = BucketFiles(lake, cluster, (RECORDS, SNAPSHOTS, HISTORY))
    found = buckets(lake, cluster, settings, state, files.rows(RECORDS, HISTORY))
    for bucket in random.sample(found, min(sample, len(found))):
        parts = files.parts(bucket)
        stored = read_table(lake.storage, HISTORY, parts[HISTORY], bucket)
        yield from _differences(HISTORY, stored, reduced(read_changes(lake.storage, parts, bucket, state), state))


def _differences(name: str, stored: pa.Table | Dataset, derived: pa.Table | Dataset) -> Iterator[Difference]:
    columns = TABLES[name].file_schema.names
    for row in only_in(stored, derived, columns)[0]:
        yield Difference(name, "row_not_replayed", "the evidence does not give this row", key=key_of(name, row))
    for row in only_in(derived, stored, columns)[0]:
        yield Difference(name, "row_missing", "the evidence gives a row that the table lacks", key=key_of(name, row))
