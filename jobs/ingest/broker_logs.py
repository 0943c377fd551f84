"""Nodes' own logs as tasks: a task reads a file."""

from functools import partial
from typing import Any

import pyarrow as pa

from evidence import kinds, tables
from evidence.broker_logs.read import BrokerLogTables, read_broker_logs, without_contradicted
from evidence.capture.files import Capture, EvidenceFile
from evidence.redaction import digests_by
from jobs.config.settings import Settings
from jobs.lake.runs import Size
from jobs.spark.tasks import run_tasks

# The driver has read a smaller file before a task would have begun.
_LARGE_BYTES = 8 << 20
_LINE_BYTES = 200  # of a usual line, with its share of stack traces


def read_logs(capture: Capture, settings: Settings) -> BrokerLogTables:
    """What read_broker_logs finds in a capture's files; the large ones are read by tasks. Errors: as there."""
    files = [file for file in capture.files if file.kind in kinds.BROKER_LOGS]
    large = [file for file in files if file.size_bytes >= _LARGE_BYTES]
    of = {"patterns": settings.evidence.log_patterns, "limits": capture.limits, "is_collected": capture.is_collected}
    read = partial(_read, capture.name, settings.secrets.key_file, of)
    lines = sum(file.size_bytes for file in large) // _LINE_BYTES
    name = f"ingest: nodes' logs of {capture.name}"
    by_tasks = run_tasks(read, large, lines, settings, name, lambda file: Size(None, file.size_bytes))
    by_path = dict(zip((file.path for file in large), by_tasks, strict=True))
    parts = [by_path[file.path] if file.path in by_path else read(file) for file in files]
    found = BrokerLogTables(
        pa.concat_tables([tables.BROKER_LOG_EVENTS.empty_table(), *(part.events for part in parts)]),
        pa.concat_tables([tables.NODE_BOOTS.empty_table(), *(part.boots for part in parts)]),
        {path: account for part in parts for path, account in part.accounts.items()},
        {path: count for part in parts for path, count in part.counts.items()},
        {path: speakers for part in parts for path, speakers in part.speakers.items()},
    )
    return without_contradicted(found, files)


def _read(capture: str, key_file: str, of: dict[str, Any], file: EvidenceFile) -> BrokerLogTables:
    """The function of a task. of: arguments of read_broker_logs."""
    with digests_by(key_file):
        return read_broker_logs(capture, [file], **of)
