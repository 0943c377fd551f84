"""Kafka's own programs for the same file: the tool that prints a log, and Kafka's classes replaying one."""

from __future__ import annotations

import subprocess
import time
from typing import Any

from tests.bench.inputs import Input, Maker

DUMP_LOG, CLASSES = "kafka-dump-log", "kafka-classes"
PEERS = (DUMP_LOG, CLASSES)


def peer(name: str, made: Input, maker: Maker, runs: int) -> dict[str, Any]:
    """Time a peer that writes its output to a file, JVM start included.

    DUMP_LOG prints each record. CLASSES prints, as JSON lines, a partition's state after each record that changes one
    (PartitionRegistration).
    """
    log = str(made.path)
    tool = ("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", log)
    command = maker.java(*tool) if name == DUMP_LOG else maker.java("Oracle", "replay", log)
    output = maker.work / f"{name}.txt"
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        with output.open("w") as out:
            subprocess.run(command, check=True, stdout=out, stderr=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begin)
    start = b"| offset" if name == DUMP_LOG else b"{"
    with output.open("rb") as lines:
        rows = sum(line.startswith(start) for line in lines)
    output.unlink()
    return {"stage": name, "seconds": seconds, "rows": rows, "peak_mib": None}
