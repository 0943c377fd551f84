"""Read the listing of a log directory, what `ls -lnRA` prints: how many bytes the segments of each replica take.

Sources: POSIX `ls` (a section for each folder: its path and a colon, then a line for each file; GNU, busybox and toybox
print it alike), Kafka's LogFileUtils (a segment's name is its base offset). Indexes do not count: `collect
--replica-logs` leaves them out.
"""

from __future__ import annotations

import re
import zlib
from pathlib import PurePosixPath
from typing import Any

from evidence import kinds
from evidence.errors import Damage
from evidence.text_files import text_lines

Row = dict[str, Any]
_GZIP, _GZIP_WINDOW = b"\x1f\x8b", 31
# Mode (with a mark of ACLs or SELinux), links, owner, group, size in bytes, time and name.
_ENTRY = re.compile(rb"[-a-z][-a-zA-Z]{9}[.+@]? +[0-9]+ +\S+ +\S+ +(?P<size>[0-9]{1,15}) +\S.*")
_FOLDER = re.compile(rb"(?P<path>.+):")
_SEGMENT = re.compile(rb" [0-9]{20}\.log$")
# A sum of blocks, a device with two numbers, a file that was deleted while `ls` ran.
_NO_FILE = re.compile(rb"total [0-9]+|[bc][-a-zA-Z]{9}.*|.\?{9} .*")


def read_listing(data: bytes, most_bytes: int) -> tuple[list[Row], list[Damage]]:
    """`size_bytes` of each replica, at the position of its folder's line in the unpacked text.

    A text that is cut off, or has a line of another form, is no listing: one Damage and no row. most_bytes: of a text
    that was packed with gzip.
    """
    text, wrong = _unpacked(data, most_bytes)
    found: dict[tuple[str, int], Row] = {}
    here = None
    for position, bare, ended in text_lines(text) if wrong is None else ():
        if not ended:
            wrong = "its last line is cut off"
        elif folder := _FOLDER.fullmatch(bare):
            place = kinds.partition_of(PurePosixPath(folder["path"].decode("utf-8", "replace")) / "0")
            here = None if place is None else found.setdefault(place, _row(place, position))
        elif entry := _ENTRY.fullmatch(bare):
            if here is not None and _SEGMENT.search(bare):
                here["size_bytes"] += int(entry["size"])
        elif bare and not _NO_FILE.fullmatch(bare):
            wrong = f"byte {position} of the text is no line of `ls -lnRA`"
            break
    if wrong is not None:
        return [], [Damage(0, len(data), None, "bad_listing", f"{wrong}: sizes of replicas are not read")]
    return list(found.values()), []


def _row(place: tuple[str, int], position: int) -> Row:
    return {"topic": place[0], "partition": place[1], "size_bytes": 0, "position": position}


def _unpacked(data: bytes, most_bytes: int) -> tuple[bytes, str | None]:
    """(The text, what is wrong with it)."""
    if not data.startswith(_GZIP):
        return data, None
    unpacking = zlib.decompressobj(_GZIP_WINDOW)
    try:
        text = unpacking.decompress(data, most_bytes)
    except zlib.error as error:
        return b"", f"gzip data is damaged: {error}"
    if unpacking.unconsumed_tail:
        return b"", f"more than {most_bytes} bytes unpacked (limits.text_file_bytes)"
    return text, None if unpacking.eof and not unpacking.unused_data else "gzip data is cut off, or more follows"
