"""Ways to damage a file, as disks, networks, editors and attackers do."""

import re
from collections.abc import Callable, Iterator
from random import Random

import google_crc32c

from evidence.wire.batches import HEAD_BYTES, MAGIC_AT

_EXTREMES = (b"\x00", b"\xff", b"\x7f", b"\x80")
_NUMBERS = (b"-1", b"0", b"2147483648", b"9223372036854775807", b"9223372036854775808", b"1e400", b"NaN", b"9" * 400)
_NUMBER = re.compile(rb"\d+")
_INSERTS = (b"[" * 3000, b"{" * 3000, b'"', b"\\", b"\n", b"\r\n", b"\x00" * 64, b"\xff" * 64, b"\xe2\x80\xae", b"../")
_MAX_GROWTH = 4096


def damage(data: bytes, other: bytes, random: Random) -> bytes:
    """One to four mutations of `data`; `other` is another file that may be spliced in."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        data = random.choice(_MUTATIONS)(data, other, random)
    return data


def ends(data: bytes) -> Iterator[int]:
    """Where each batch of a log ends, from the first one on, as far as its lengths lead."""
    at = 0
    while len(data) - at >= HEAD_BYTES and data[at + MAGIC_AT] == 2:
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        if not at + HEAD_BYTES <= end <= len(data):
            return
        yield (at := end)


def with_good_crcs(data: bytes) -> bytes:
    """The same bytes, but the CRC of each batch that `ends` finds is right; any other file as it is."""
    mended, at = bytearray(data), 0
    for end in ends(data):
        mended[at + 17 : at + 21] = google_crc32c.value(data[at + 21 : end]).to_bytes(4, "big")
        at = end
    return bytes(mended)


def _span(data: bytes, random: Random) -> tuple[int, int]:
    begin = random.randrange(len(data) + 1)
    return begin, min(len(data), begin + int(random.expovariate(1 / 40)) + 1)


def _flip_bit(data: bytes, _: bytes, random: Random) -> bytes:
    if not data:
        return b"\x01"
    at = random.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]


def _cut_off(data: bytes, _: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _cut_out(data: bytes, _: bytes, random: Random) -> bytes:
    begin, end = _span(data, random)
    return data[:begin] + data[end:]


def _repeat(data: bytes, _: bytes, random: Random) -> bytes:
    begin, end = _span(data, random)
    return data[:end] + data[begin:end] * random.randrange(1, 4) + data[end:]


def _overwrite(data: bytes, _: bytes, random: Random) -> bytes:
    at, size = random.randrange(len(data) + 1), random.choice((1, 2, 4, 8))
    return data[:at] + random.choice(_EXTREMES) * size + data[at + size :]


def _randomise(data: bytes, _: bytes, random: Random) -> bytes:
    begin, end = _span(data, random)
    return data[:begin] + random.randbytes(end - begin) + data[end:]


def _insert(data: bytes, _: bytes, random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.choice(_INSERTS) + data[at:]


def _splice(data: bytes, other: bytes, random: Random) -> bytes:
    begin, end = _span(other, random)
    at = random.randrange(len(data) + 1)
    return data[:at] + other[begin : max(end, begin + random.randrange(_MAX_GROWTH))] + data[at:]


def _swap(data: bytes, _: bytes, random: Random) -> bytes:
    (a, b), (c, d) = sorted((_span(data, random), _span(data, random)))
    return data if b > c else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _renumber(data: bytes, _: bytes, random: Random) -> bytes:
    found = list(_NUMBER.finditer(data, 0, min(len(data), 4096)))
    if not found:
        return data
    match = random.choice(found)
    return data[: match.start()] + random.choice(_NUMBERS) + data[match.end() :]


_MUTATIONS: tuple[Callable[[bytes, bytes, Random], bytes], ...] = (
    *(_flip_bit, _flip_bit, _cut_off, _cut_out, _repeat, _overwrite, _overwrite, _randomise, _insert, _splice, _swap),
    _renumber,
)
