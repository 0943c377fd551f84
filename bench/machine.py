"""Describe the machine and the versions: times of different machines are not comparable."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = ("numpy", "pyarrow", "numba", "pyspark", "delta-spark")


def facts(kafka: Path | None) -> dict[str, Any]:
    """The time, the machine and the versions in use, as JSON. kafka: the folder of Kafka's jars."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "python": platform.python_version(),
        **{package: version(package) for package in _PACKAGES},
        "java": _java(),
        "kafka": kafka_version(kafka),
    }


def _java() -> str:
    output = subprocess.run(["java", "-version"], check=True, stderr=subprocess.PIPE, text=True).stderr
    return output.splitlines()[0]


def kafka_version(kafka: Path | None) -> str | None:
    """Kafka's version, from the name of the jar; None without jars."""
    names = [] if kafka is None else sorted(jar.name for jar in kafka.glob("kafka-clients-*.jar"))
    match = re.fullmatch(r"kafka-clients-(.+)\.jar", names[0]) if names else None
    return match[1] if match else None
