"""Nodes' own logs as tasks: a task reads a file."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from evidence import kinds, tables
from evidence.broker_logs.read import BrokerLogTables, read_broker_logs
from evidence.capture.files import Capture, EvidenceFile
from evidence.limits import Limits
from evidence.redaction import digests_by
from jobs.config.settings import Settings
from jobs.provenance.task_figures import Size
from jobs.spark.tasks import run_tasks

# The driver has read a smaller file before a task would have begun.
_LARGE_BYTES = 8 << 20
_LINE_BYTES = 200  # of a usual line, with its share of stack traces


@dataclass(frozen=True)
class _Reading:
    """The function of a task."""

    capture: str
    patterns: tuple[str, ...]
    limits: Limits
    is_collected: bool
    key_file: str

    def __call__(self, file: EvidenceFile) -> BrokerLogTables:
        with digests_by(self.key_file):
            return read_broker_logs(
                self.capture, [file], self.patterns, limits=self.limits, is_collected=self.is_collected
            )


def read_logs(capture: Capture, settings: Settings) -> BrokerLogTables:
    """What read_broker_logs finds in a capture's files; the large ones are read by tasks. Errors: as there."""
    files = [file for file in capture.files if file.kind in kinds.BROKER_LOGS]
    large = [file for file in files if file.size_bytes >= _LARGE_BYTES]
    patterns = tuple(settings.evidence.log_patterns)
    read = _Reading(capture.name, patterns, capture.limits, capture.is_collected, settings.secrets.key_file)
    lines = sum(file.size_bytes for file in large) // _LINE_BYTES
    by_tasks = run_tasks(read, large, lines, settings, f"ingest: nodes' logs of {capture.name}", _size_of)
    of = dict(zip((file.path for file in large), by_tasks, strict=True))
    return _joined([of[file.path] if file.path in of else read(file) for file in files])


def _size_of(file: EvidenceFile) -> Size:
    return Size(None, file.size_bytes)


def _joined(parts: list[BrokerLogTables]) -> BrokerLogTables:
    return BrokerLogTables(
        pa.concat_tables([tables.BROKER_LOG_EVENTS.empty_table(), *(part.events for part in parts)]),
        pa.concat_tables([tables.NODE_BOOTS.empty_table(), *(part.boots for part in parts)]),
        {path: account for part in parts for path, account in part.accounts.items()},
        {path: count for part in parts for path, count in part.counts.items()},
    )
