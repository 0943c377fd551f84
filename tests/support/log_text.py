"""A log's bytes in a line of text, for tables of them: `log 3; 1=batch topic:a/key=6b base_offset=1; flip 2:70; cut 9`.

Parts, of which each but the edits is a piece of the log:

    log 3               a LeaderChange and two batches of two topics (tests/support/writer.py:log; options are its own)
    batch topic:a ...   a batch of these values (no_op, topic:NAME, topic:x*99, change:PARTITION, config:NAME:VALUE,
                        frame:TYPE:VERSION:HEX, hex:HEX, null), options those of writer.batch. A value's own options are
                        those of writer.record, `more` is put after the value; a record in hex: body:HEX with its length
                        in front, bytes:HEX as it is
    data ...            a batch whose records nobody reads; text: of each
    control 2 HEX       a control batch of this kind; HEX may be `leader_change`
    snapshot topic:a    header, a batch, footer
    sample orders-1     the batches of tests/samples/node/orders-1
    hex HEX, zeros 9, junk 9 (bytes at random)
    2=batch, 3+junk     in place of piece 2, before piece 3
    flip 2:70 0x80      a bit of piece 2 (-1 is the last) at byte 70
    set 2:8 >i 13       a number there
    cut 9               the last bytes are gone
"""

import random
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from tests.support import writer
from tests.support.paths import ROOT


def log_of(text: str) -> bytes:
    pieces: list[bytes] = []
    for part in filter(None, text.split("; ")):
        first, *rest = part.split(" ")
        place = re.fullmatch(r"(\d+)([=+])(\w+)", first)
        word = place[3] if place else first
        if word in EDITS:
            EDITS[word](pieces, *rest)
            continue
        options = {name: _number(name, value) for name, value in re.findall(r"(?:^| )(\w+)=(\S*)", " ".join(rest))}
        made = MAKERS[word]([w for w in rest if w.partition("=")[0] not in options], **options)
        at = int(place[1]) if place else len(pieces)
        pieces[at : at + (place is not None and place[2] == "=")] = made
    return b"".join(pieces)


def _number(name: str, text: str) -> Any:
    if name == "producer":
        return tuple(map(int, text.split(",")))
    return text if name in ("codec", "key", "text") else int(text, 0)


def _value(text: str) -> bytes | None:
    kind, _, rest = text.partition(":")
    name = re.sub(r"(.)\*(\d+)", lambda found: found[1] * int(found[2]), rest)
    if kind == "frame":
        key, version, body = rest.split(":")
        return writer.frame(int(key), int(version), bytes.fromhex(body))
    makers: dict[str, Callable[[], bytes | None]] = {
        "no_op": writer.no_op,
        "null": lambda: None,
        "topic": lambda: writer.topic(name),
        "change": lambda: writer.partition_change(int(rest or 0)),
        "config": lambda: writer.config(*rest.split(":")),
        "hex": lambda: bytes.fromhex(rest),
    }
    return makers[kind]()


def record_of(text: str, number: int = 0) -> bytes:
    """A record as it stands in a batch."""
    value, *options = text.split("/")
    kind, _, body = value.partition(":")
    if kind in ("body", "bytes"):
        data = bytes.fromhex(body)
        return data if kind == "bytes" else writer.varint(len(data)) + data
    own: dict[str, Any] = {"offset_delta": number, "more": ""}
    own |= {name: text for name, _, text in (option.partition("=") for option in options)}
    own = {name: bytes.fromhex(v) if name in ("key", "tail", "more") else int(v) for name, v in own.items()}
    more, content = own.pop("more"), _value(value)
    return writer.record(content if content is None else content + more, **own)


def _batch(words: Sequence[str], **options: Any) -> list[bytes]:
    records = b"".join(record_of(word, number) for number, word in enumerate(words))
    return [writer.batch(**{"records": records, "count": len(words), **options})]


def _data(
    _: Sequence[str], last_offset_delta: int = 0, count: int | None = None, text: str = "recordbytes", **options: Any
) -> list[bytes]:
    count = last_offset_delta + 1 if count is None else count
    records = text.encode() * max(count, 0)
    options = {"epoch": 3, **options}
    return [writer.batch(records=records, count=count, last_offset_delta=last_offset_delta, **options)]


def _control(words: Sequence[str], **options: Any) -> list[bytes]:
    kind, value = words if len(words) > 1 else (*words, "")
    options = {name: bytes.fromhex(given) if name == "key" else given for name, given in options.items()}
    content = writer.leader_change() if value == "leader_change" else bytes.fromhex(value)
    return [writer.control_batch(int(kind), content, **options)]


def _sample(words: Sequence[str]) -> list[bytes]:
    (path,) = (ROOT / "tests" / "samples" / "node" / words[0]).glob("*.log")
    data, found = path.read_bytes(), list[bytes]()
    while data:
        size = struct.unpack_from(">i", data, 8)[0] + 12
        found.append(data[:size])
        data = data[size:]
    return found


MAKERS: dict[str, Callable[..., list[bytes]]] = {
    "log": lambda words, **options: writer.log(int(words[0]), **options),
    "batch": _batch,
    "data": _data,
    "control": _control,
    "snapshot": lambda words, **options: [writer.snapshot([_value(word) or b"" for word in words], **options)],
    "sample": _sample,
    "hex": lambda words: [bytes.fromhex("".join(words))],
    "zeros": lambda words: [bytes(int(words[0]))],
    "junk": lambda words: [random.Random(int(words[0])).randbytes(int(words[0]))],
}


def _place(pieces: list[bytes], place: str) -> tuple[int, int]:
    piece, at = map(int, place.split(":"))
    return piece, at if at >= 0 else len(pieces[piece]) + at


def _flip(pieces: list[bytes], place: str, mask: str = "0x01") -> None:
    piece, at = _place(pieces, place)
    pieces[piece] = writer.flip(pieces[piece], at, int(mask, 0))


def _set(pieces: list[bytes], place: str, form: str, value: str) -> None:
    piece, at = _place(pieces, place)
    number = struct.pack(form, int(value, 0))
    pieces[piece] = pieces[piece][:at] + number + pieces[piece][at + len(number) :]


def _cut(pieces: list[bytes], count: str) -> None:
    pieces[:] = [b"".join(pieces)[: -int(count)]]


EDITS: dict[str, Callable[..., None]] = {"flip": _flip, "set": _set, "cut": _cut}
