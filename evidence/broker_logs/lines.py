"""A log's bytes -> the few lines that may hold an event, and what became of every byte. In chunks, of any size: the
lines found do not depend on where one ends.

A chunk's lines are one Arrow array over its bytes, and two regular expressions (RE2) say which of them begin an event
and which hold one of the words in question. Only those become Python objects.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evidence.broker_logs.layouts import Layout
from evidence.errors import Damage
from evidence.redaction import excerpt
from evidence.text_files import without_colours

# Longer lines are held back: no line that matters is, and a file without line ends must not fill the memory.
MAX_LINE_BYTES = 1 << 20
MAX_DAMAGE = 1000
_LINE_END, _ZERO, _FIRST_NOT_ASCII = ord("\n"), 0, 0x80
_BOM = b"\xef\xbb\xbf"
_LINE_START = r"^(?:\xEF\xBB\xBF)?"

Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]
Place = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Line:
    """A line that holds one of the words. position, length_bytes: of the line with its end, in the text. text, head:
    without an end; head is the line that begins its event, the line itself if is_head. before: position and text of the
    line that begins the event before; None in the first event."""

    position: int
    length_bytes: int
    text: bytes
    is_head: bool
    head: bytes
    before: Place | None


@dataclass(slots=True)
class LineScanner:
    """Feed it a text's chunks in order, then `end`. wanted: RE2 for the lines of interest.

    Afterwards: text_bytes (all of it), quarantined_bytes (in `damage`, a stretch each) and trailing_bytes of them
    (before the first event, a torn last line); events: how many lines begin one; first and last of them; notes.
    """

    layout: Layout
    wanted: str
    text_bytes: int = 0
    events: int = 0
    quarantined_bytes: int = 0
    trailing_bytes: int = 0
    first: Place | None = None
    last: Place | None = None
    damage: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _before: Place | None = None
    _rest: bytes = b""
    _too_long: int = 0

    def feed(self, chunk: bytes) -> list[Line]:
        """The lines of interest that end in this chunk."""
        data = self._rest + chunk
        if self._too_long:
            cut = data.find(b"\n") + 1 or len(data)
            self._too_long += cut
            self.text_bytes += cut
            if data[cut - 1 : cut] == b"\n":
                self._end_long_line()
            data = data[cut:]
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        found = self._read(data[:end]) if end else []
        if len(self._rest) > MAX_LINE_BYTES:
            self._too_long = len(self._rest)
            self.text_bytes += self._too_long
            self._rest = b""
        return found

    def end(self) -> list[Line]:
        """The text is over. A last line without an end is read only if its layout shows that it is whole."""
        rest, self._rest = self._rest, b""
        if self._too_long:
            self._end_long_line()
        if rest and self.layout.shows_its_end and self.layout.read(rest.rstrip(b"\r")) is not None:
            return self._read(rest)
        if rest:
            self.text_bytes += len(rest)
            self.trailing_bytes += len(rest)
            self.notes.append("the last line does not end: it was being written, or the copy was cut; not read")
        return []

    def remark(self, line: Line, reason: str, message: str) -> None:
        """Note what is wrong with a line that is not used."""
        if len(self.damage) < MAX_DAMAGE:
            self.damage.append(Damage(line.position, 0, None, reason, message))

    def _end_long_line(self) -> None:
        message = f"a line of {self._too_long} bytes; {MAX_LINE_BYTES} are allowed"
        self._hold_back(self.text_bytes - self._too_long, self._too_long, "line_too_long", message)
        self._too_long = 0

    def _read(self, data: bytes) -> list[Line]:
        """Whole lines, the next of the text."""
        data = without_colours(data)
        base = self.text_bytes
        self.text_bytes += len(data)
        buffer = np.frombuffer(data, dtype=np.uint8)
        bounds = _bounds(buffer, data)
        lines = _Lines(data, base, bounds)
        is_head = lines.matching(self.layout.head.replace("^", _LINE_START, 1))
        is_wanted = lines.matching(self.wanted)
        is_bad = self._hold_back_what_is_no_text(lines, buffer)
        if self.layout.has_header and not base:
            is_head[0] = False
        is_head &= ~is_bad
        is_wanted &= ~is_bad
        heads = np.flatnonzero(is_head)
        self.events += len(heads)
        if self.first is None:
            lead = int(heads[0]) if len(heads) else len(is_bad)
            self._leave_out_lead(lines, lead, is_bad)
            is_wanted[:lead] = False
            self.first = lines.place(lead) if len(heads) else None
        found = [self._line(lines, heads, int(index), bool(is_head[index])) for index in np.flatnonzero(is_wanted)]
        for index in heads[-2:]:
            self._before, self.last = self.last, lines.place(int(index))
        return found

    def _line(self, lines: "_Lines", heads: Positions, index: int, is_head: bool) -> Line:
        number = int(np.searchsorted(heads, index, side="right")) - 1

        def head(at: int) -> Place | None:
            """A head of these lines; -1 and -2: the last ones before them."""
            return lines.place(int(heads[at])) if at >= 0 else self.last if at == -1 else self._before

        position, text = lines.place(index)
        own = head(number)
        length = int(lines.bounds[index + 1] - lines.bounds[index])
        return Line(position, length, text, is_head, own[1] if own else text, head(number - 1))

    def _leave_out_lead(self, lines: "_Lines", lead: int, is_bad: Mask) -> None:
        """Lines before the first event: the header of a table, or the end of an event in the file before."""
        lengths = np.diff(lines.bounds)[:lead]
        skipped = np.flatnonzero(~is_bad[:lead])
        if lines.base == 0 and self.layout.has_header:
            skipped = skipped[skipped > 0]
        if len(skipped):
            if not self.trailing_bytes:
                self.notes.append("begins inside an event of the file before")
            self.trailing_bytes += int(lengths[skipped].sum())

    def _hold_back_what_is_no_text(self, lines: "_Lines", buffer: npt.NDArray[np.uint8]) -> Mask:
        bounds, lengths = lines.bounds, np.diff(lines.bounds)
        is_bad = lengths > MAX_LINE_BYTES + 1
        reasons = dict.fromkeys(np.flatnonzero(is_bad).tolist(), "line_too_long")
        if b"\0" in lines.data:
            odd = np.flatnonzero(np.logical_or.reduceat(buffer == _ZERO, bounds[:-1])).tolist()
            reasons |= dict.fromkeys((i for i in odd if i not in reasons), "zeros")
        if not lines.data.isascii():
            odd = np.flatnonzero(np.logical_or.reduceat(buffer >= _FIRST_NOT_ASCII, bounds[:-1])).tolist()
            odd = [i for i in odd if i not in reasons and not _is_utf8(lines.place(i)[1])]
            reasons |= dict.fromkeys(odd, "bad_text")
        for index in sorted(reasons):
            position, text = lines.place(index)
            message = {
                "line_too_long": f"a line of {int(lengths[index])} bytes; {MAX_LINE_BYTES} are allowed",
                "zeros": "zero bytes: what a power loss leaves of lines that were not yet on disk",
                "bad_text": f"a line that is not UTF-8: {excerpt(text)}",
            }[reasons[index]]
            self._hold_back(position, int(lengths[index]), reasons[index], message)
            is_bad[index] = True
        return is_bad

    def _hold_back(self, position: int, length: int, reason: str, message: str) -> None:
        """Stretches that touch are one, and so are all beyond MAX_DAMAGE."""
        self.quarantined_bytes += length
        last = self.damage[-1] if self.damage else None
        touches = last is not None and last.reason == reason and last.position + last.length_bytes == position
        if last is not None and (touches or len(self.damage) >= MAX_DAMAGE):
            self.damage[-1] = Damage(last.position, last.length_bytes + length, None, last.reason, last.message)
        else:
            self.damage.append(Damage(position, length, None, reason, message))


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of a text. base: the position of the first; bounds: where each begins in `data`, and the end."""

    data: bytes
    base: int
    bounds: Positions

    def place(self, index: int) -> Place:
        start = int(self.bounds[index])
        text = self.data[start : int(self.bounds[index + 1])].rstrip(b"\r\n")
        return self.base + start, text.removeprefix(_BOM) if not self.base + start else text

    def matching(self, pattern: str) -> Mask:
        pieces = [None, pa.py_buffer(self.bounds), pa.py_buffer(self.data)]
        lines = pa.Array.from_buffers(pa.large_binary(), len(self.bounds) - 1, pieces)
        found = pc.match_substring_regex(lines, pattern=pattern)
        return np.array(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _bounds(buffer: npt.NDArray[np.uint8], data: bytes) -> Positions:
    """Zero bytes end a line, too: after a power loss the next start's first line stands right after them."""
    ends = buffer == _LINE_END
    if b"\0" in data:
        starts = np.concatenate([[0], np.flatnonzero(ends) + 1, [len(data)]])
        zero = buffer == _ZERO
        ends[:-1] |= zero[:-1] & ~zero[1:] & ~ends[1:]
        # A line that is too long is held back as a whole, as it is where a chunk ends in it.
        for index in np.flatnonzero(np.diff(starts) > MAX_LINE_BYTES + 1):
            ends[starts[index] : starts[index + 1] - 1] = False
    ends[-1] = True
    return np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(ends).astype(np.int64) + 1])


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
