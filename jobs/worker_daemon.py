"""The process that forks Spark's Python workers: it imports what tasks need before the first fork, so that no worker
does. Importing starts no thread that a fork would lose: Arrow, NumPy and delta-rs start theirs when they are used."""

from __future__ import annotations

from pyspark import daemon, worker  # noqa: F401

import jobs.detect.task
import jobs.ingest.records
import jobs.quality.source
import jobs.replay.task  # noqa: F401

if __name__ == "__main__":
    daemon.manager()
