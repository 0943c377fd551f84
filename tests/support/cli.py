"""What Kafka's own tools printed while a real capture was made."""

import tarfile
from functools import cache

from tests.support.paths import capture


@cache
def _files(name: str) -> dict[str, bytes]:
    with tarfile.open(capture(name)) as tar:
        found = ((member.name, tar.extractfile(member)) for member in tar if "/cli/" in member.name)
        return {path: stream.read() for path, stream in found if stream is not None}


def printed(name: str, tool: str) -> list[bytes]:
    """The outputs of the tools whose file name holds `tool`, in order of time."""
    return [text for path, text in sorted(_files(name).items()) if tool in path]
