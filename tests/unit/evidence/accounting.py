"""What every test of damaged bytes has to show: no byte is lost, none is counted twice."""

import hashlib

from hypothesis import settings
from hypothesis import strategies as st

from evidence.capture.blocks import Blocks
from evidence.wire.batches import Scan, scan_batches

# `make fuzz` damages many thousands of files.
FUZZ = settings(database=None)
_MOST_BYTES_IN_BLOCKS = 1 << 20


@st.composite
def edited(draw: st.DrawFn, texts: st.SearchStrategy[bytes], most: int = 4, most_bytes: int = 6) -> bytes:
    """A text in which up to so many stretches of up to so many bytes are others."""
    text = bytearray(draw(texts))
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, len(text)))
        text[at : at + draw(st.integers(0, most_bytes))] = draw(st.binary(max_size=most_bytes))
    return bytes(text)


def accounted(data: bytes) -> Scan:
    """Scan `data` and check that its batches, damage and zero tail tile the file, in order and without overlap; a
    file that arrives in blocks gives the same."""
    scan = scan_batches(data)
    if len(data) < _MOST_BYTES_IN_BLOCKS:
        blocks = Blocks(lambda start, end: data[start:end], len(data), len(data) // 7 + 1)
        assert scan_batches(blocks) == scan
        assert blocks.sha256() == hashlib.sha256(data).hexdigest()
    assert scan.parsed_bytes + scan.quarantined_bytes + scan.trailing_bytes == len(data)
    assert min(scan.parsed_bytes, scan.quarantined_bytes, scan.trailing_bytes) >= 0
    assert scan.parsed_bytes == sum(b.size_bytes for b in scan.batches)
    spans = [(b.position, b.position + b.size_bytes) for b in scan.batches]
    spans += [(d.position, d.position + d.length_bytes) for d in scan.damage]
    reached = 0
    for begin, end in sorted(spans):
        assert begin == reached, f"bytes {reached} to {begin} are in no span, or in two"
        assert end > begin
        reached = end
    assert not any(data[reached:]), "only zeros may follow the accounted bytes"
    torn = scan.damage[-1].length_bytes if scan.trailing_bytes and reached == len(data) else 0
    assert scan.trailing_bytes == torn + len(data) - reached
    assert [d.position for d in scan.damage] == sorted(d.position for d in scan.damage)
    assert all(d.message and d.reason for d in scan.damage)
    return scan
