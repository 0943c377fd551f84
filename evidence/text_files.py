"""Small text files next to Kafka's logs: properties, offset checkpoints, leader epochs, partition.metadata.

Sources: Kafka's CheckpointFile (a version line, a count line, then one entry per line), OffsetCheckpointFile ("topic
partition offset"), LeaderEpochCheckpointFile ("epoch startOffset"), PartitionMetadataFile.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from evidence.errors import Damage
from evidence.limits import MAX_INT32, MAX_INT64
from evidence.redaction import excerpt

# How a text in UTF-16 begins, and what is said of it.
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
IN_UTF_16 = "UTF-16 text, as PowerShell's '>' writes it: convert it to UTF-8"
_BOM = b"\xef\xbb\xbf"  # of UTF-8, as PowerShell's Out-File writes it
# A control sequence of a terminal (ECMA-48): colours.
COLOUR = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_BLANKS = " \t\f"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_PROPERTY = re.compile(r"((?:[^\\ \t\f=:]|\\.)+)(?:[ \t\f]*[=:]|[ \t\f])[ \t\f]*(.*)")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_INT = re.compile(rb"\d{1,19}")
_TOPIC = re.compile(rb"[a-zA-Z0-9._-]{1,249}")  # Topic.validate
# 16 bytes in base64url without padding (Kafka's Uuid).
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class CheckpointLine:
    """An entry of a checkpoint file. position: byte position in the file; length_bytes: without the line end."""

    position: int
    length_bytes: int
    words: list[bytes]


def without_colours(text: bytes) -> bytes:
    """The text without a terminal's colours. Each line has spaces at its end instead, so that none begins elsewhere."""
    if b"\x1b" not in text:
        return text
    return b"\n".join(COLOUR.sub(b"", line).ljust(len(line)) for line in text.split(b"\n"))


def whole_lines(data: bytes) -> bytes:
    """A text up to its last line end: Kafka ends every line, and what was cut off may lack digits."""
    return data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1]


def read_properties(data: bytes) -> dict[str, str]:
    """A Java properties file, as java.util.Properties reads it: `key=value`, `key: value` or `key value`, escapes, and
    lines that go on in the next. Lines with a key alone are skipped. Nothing of a text with zero bytes: a stretch of it
    was not written."""
    found: dict[str, str] = {}
    if b"\0" in data:
        return found
    lines = iter(_LINE_ENDS.split(data.decode("utf-8", "replace").removeprefix("\ufeff")))
    for line in lines:
        text = line.lstrip(_BLANKS)
        if text.startswith(("#", "!")):
            continue
        while (len(text) - len(text.rstrip("\\"))) % 2:
            text = text[:-1] + next(lines, "").lstrip(_BLANKS)
        pair = _PROPERTY.fullmatch(text)
        if pair is not None:
            found[_plain(pair[1])] = _plain(pair[2]).strip()
    return found


def _plain(text: str) -> str:
    """The text without Java's escapes. Two of them may be one character; half of one, which is no text, is replaced."""
    text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _ESCAPED.get(found[2], found[2]), text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def partition_topic_id(data: bytes) -> str | None:
    """The topic id in a partition.metadata file, or None, also if it is cut off."""
    for line in data.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "topic_id" and _TOPIC_ID.fullmatch(value.strip()):
            return value.strip()
    return None


def text_lines(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """(byte position, line without its end, whether it is whole) of each line after a byte order mark.

    Kafka and exporters end every line. A line without an end was cut off, and its last number may lack digits. Zero
    bytes are of a stretch that was not written: a file system's hole.
    """
    position = len(_BOM) if data.startswith(_BOM) else 0
    for raw in data[position:].split(b"\n"):
        ended = position + len(raw) < len(data)
        if raw or ended:
            yield position, raw.rstrip(b"\r"), ended and b"\0" not in raw
        position += len(raw) + 1


def _is_number(word: bytes, largest: int) -> bool:
    return _INT.fullmatch(word) is not None and int(word) <= largest


def _is_entry(found: list[bytes], words: int) -> bool:
    numbers = len(found) == words and _is_number(found[-2], MAX_INT32) and _is_number(found[-1], MAX_INT64)
    return numbers and (words == 2 or _TOPIC.fullmatch(found[0]) is not None)


def read_checkpoint(data: bytes, words: int) -> tuple[list[CheckpointLine], list[Damage]]:
    """Entries of a checkpoint file, of so many words, and damage for each bad line. The last two words are numbers: of
    a partition or a leader epoch, and an offset.

    An empty file is legal: Kafka creates it before it writes the first entry. A last line without a line end is damage
    even if it parses: a torn copy of `orders 0 1234` may hold `orders 0 12`. So are all entries of a partition, or an
    epoch, that has several: Kafka writes one, so the name of another was damaged.
    """
    entries: list[CheckpointLine] = []
    damage: list[Damage] = []
    lines = list(text_lines(data))
    if not lines:
        return entries, damage
    if lines[0][1] != b"0":
        return _refused(data, f"version line {excerpt(lines[0][1], 20)}, only 0 is known")
    count = lines[1][1] if len(lines) > 1 else b""
    if not _is_number(count, MAX_INT64) or not lines[1][2]:
        return _refused(data, f"the second line {excerpt(count, 20)} is not a count")
    for position, text, ended in lines[2:]:
        found = text.split()
        if not ended:
            damage.append(Damage(position, len(text), None, "cut_line", f"a line that is not whole: {excerpt(text)}"))
        elif _is_entry(found, words):
            entries.append(CheckpointLine(position, len(text), found))
        elif text:
            damage.append(Damage(position, len(text), None, "bad_checkpoint", f"not an entry: {excerpt(text)}"))
    times = Counter(_key(entry) for entry in entries)
    for entry in (e for e in entries if times[_key(e)] > 1):
        message = f"{times[_key(entry)]} entries of {excerpt(b' '.join(entry.words[:-1]))}: one of them is another's"
        damage.append(Damage(entry.position, entry.length_bytes, None, "bad_checkpoint", message))
    entries = [entry for entry in entries if times[_key(entry)] == 1]
    if (lines_found := len(entries) + len(damage)) != int(count):
        message = f"{lines_found} entries, the file's head gives {int(count)}"
        damage.append(Damage(0, 0, None, "checkpoint_count", message))
    return entries, damage


def _key(entry: CheckpointLine) -> tuple[bytes, int]:
    return b" ".join(entry.words[:-2]), int(entry.words[-2])


def _refused(data: bytes, message: str) -> tuple[list[CheckpointLine], list[Damage]]:
    return [], [Damage(0, len(data), None, "bad_checkpoint", message)]
