"""What Kafka's own tools printed while a real capture was made."""

from __future__ import annotations

import tarfile
from functools import cache

from tests.support.paths import capture


@cache
def printed(name: str, tool: str) -> list[bytes]:
    """The outputs of the tools whose file name holds `tool`, in order of time."""
    with tarfile.open(capture(name)) as tar:
        found = sorted((m for m in tar if "/cli/" in m.name and tool in m.name), key=lambda m: m.name)
        return [stream.read() for m in found if (stream := tar.extractfile(m)) is not None]
