"""A log's bytes: the same lines however they are cut into chunks, and every byte accounted for, whatever it is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evidence.broker_logs import lines
from evidence.broker_logs.events import WANTED
from evidence.broker_logs.layouts import KNOWN_PATTERNS, csv_layout, json_layout, of_pattern
from evidence.broker_logs.lines import Line, LineScanner
from tests.unit.evidence.accounting import FUZZ

KAFKA = of_pattern(KNOWN_PATTERNS[0])
LOADED = (
    b"[2026-11-21 00:00:0%d,000] INFO [Partition a-0 broker=1] Log loaded for partition a-0 with initial high "
    b"watermark 7 (k.P)\n"
)
OTHER = b"[2026-11-21 00:00:05,000] INFO [GroupCoordinator id=1] Starting up. (o.a.k.G)\n"
TRACE = b"java.io.IOException: No space left on device\n\tat sun.nio.ch.FileDispatcherImpl.write0(Native Method)\n"
PIECES = (
    LOADED % 1,
    LOADED % 2,
    OTHER,
    TRACE,
    b"\n",
    b"\r\n",
    b"\0\0\0",
    b"\xff\xfe\n",
    b"x" * 70 + b"\n",
    "ä\n".encode(),
)


def scan(data: bytes, cuts: Iterable[int] = ()) -> tuple[LineScanner, list[Line]]:
    scanner = LineScanner(KAFKA, WANTED)
    found: list[Line] = []
    at = 0
    for cut in (*sorted(cuts), len(data)):
        found += scanner.feed(data[at:cut])
        at = cut
    found += scanner.end()
    assert scanner.text_bytes == len(data)
    assert sum(d.length_bytes for d in scanner.damage) == scanner.quarantined_bytes
    assert 0 <= scanner.quarantined_bytes + scanner.trailing_bytes <= len(data)
    spans = [(d.position, d.position + d.length_bytes) for d in scanner.damage]
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    return scanner, found


def facts(scanner: LineScanner) -> tuple[object, ...]:
    counts = (scanner.events, scanner.quarantined_bytes, scanner.trailing_bytes, scanner.text_bytes)
    return (*counts, scanner.first, scanner.last, scanner.notes)


def test_lines_their_events_and_the_ones_before() -> None:
    data = OTHER + LOADED % 1 + TRACE + LOADED % 2
    scanner, found = scan(data)
    texts = [OTHER[:-1], (LOADED % 1)[:-1], TRACE.split(b"\n")[0], (LOADED % 2)[:-1]]
    assert [(line.text, line.is_head, line.head) for line in found] == [
        (texts[1], True, texts[1]),
        (texts[2], False, texts[1]),
        (texts[3], True, texts[3]),
    ]
    assert [data[line.position : line.position + line.length_bytes] for line in found] == [
        LOADED % 1,
        TRACE.split(b"\n")[0] + b"\n",
        LOADED % 2,
    ]
    assert [line.before for line in found] == [(0, texts[0]), (0, texts[0]), (len(OTHER), texts[1])]
    assert (scanner.events, scanner.first, scanner.last) == (3, (0, texts[0]), (found[2].position, texts[3]))
    assert scanner.quarantined_bytes == scanner.trailing_bytes == 0


def test_what_precedes_the_first_event_is_left_out() -> None:
    scanner, found = scan(TRACE + LOADED % 1)
    assert [line.text for line in found] == [(LOADED % 1)[:-1]]
    assert scanner.trailing_bytes == len(TRACE)
    assert scanner.notes == ["begins inside an event of the file before"]


def test_a_torn_last_line_is_left_out() -> None:
    torn = LOADED % 2
    for size in range(1, len(torn)):
        scanner, found = scan(LOADED % 1 + torn[:size])
        assert len(found) == 1
        assert (scanner.trailing_bytes, scanner.events) == (size, 1)


def test_windows_line_ends() -> None:
    _, found = scan((LOADED % 1 + TRACE).replace(b"\n", b"\r\n"))
    assert [line.text for line in found] == [(LOADED % 1)[:-1], TRACE.split(b"\n")[0]]


def test_zeros_of_a_power_loss_hide_no_start() -> None:
    data = LOADED % 1 + b"[2026-11-21 00:00" + b"\0" * 5000 + LOADED % 2
    scanner, found = scan(data)
    assert [line.position for line in found] == [0, len(data) - len(LOADED % 2)]
    assert [(d.position, d.length_bytes, d.reason) for d in scanner.damage] == [(len(LOADED % 1), 5017, "zeros")]


def test_a_line_that_is_not_utf8_is_held_back_alone() -> None:
    bad = (LOADED % 1).replace(b"Log", b"L\xf6g")
    scanner, found = scan(LOADED % 1 + bad + bad + LOADED % 2)
    assert len(found) == 2
    assert [(d.position, d.length_bytes, d.reason) for d in scanner.damage] == [
        (len(LOADED % 1), 2 * len(bad), "bad_text")
    ]


@pytest.mark.parametrize("cut", [0, 10, 500, 1100])
def test_a_line_that_is_too_long_is_held_back(monkeypatch: pytest.MonkeyPatch, cut: int) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    long = (LOADED % 1)[:-1] + b"x" * 1000 + b"\n"
    scanner, found = scan(LOADED % 1 + long + LOADED % 2, [cut] if cut else [])
    assert [line.text for line in found] == [(LOADED % 1)[:-1], (LOADED % 2)[:-1]]
    assert [(d.position, d.length_bytes) for d in scanner.damage] == [(len(LOADED % 1), len(long))]
    endless, found = scan(LOADED % 1 + b"y" * 3000, [cut + 5])
    assert (len(found), endless.quarantined_bytes, endless.damage[0].reason) == (1, 3000, "line_too_long")


def test_much_damage_is_named_in_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_DAMAGE", 3)
    scanner, found = scan(b"".join(LOADED % 1 + b"\xff\n" for _ in range(10)))
    assert len(found) == 10
    assert (len(scanner.damage), scanner.quarantined_bytes) == (3, 20)


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    layout = json_layout([])
    scanner = LineScanner(layout, WANTED)
    assert scanner.feed(b'\xef\xbb\xbf{"message":"x"}\n') == []
    assert scanner.first == (0, b'{"message":"x"}')


def test_json_needs_no_line_end_and_a_header_is_read() -> None:
    data = b'{"@timestamp":"2026-11-21T00:00:00Z","message":"Kafka version: 4.0.2"}'
    scanner = LineScanner(json_layout([]), WANTED)
    assert scanner.feed(data) == []
    assert [(line.text, line.length_bytes) for line in scanner.end()] == [(data, len(data))]
    assert scanner.trailing_bytes == 0
    torn = LineScanner(json_layout([]), WANTED)
    torn.feed(data[:-2])
    assert (torn.end(), torn.trailing_bytes) == ([], len(data) - 2)
    sheet = csv_layout(b"time,message", [KAFKA])
    assert sheet is not None
    scanner = LineScanner(sheet, WANTED)
    scanner.feed(b"time,message\n2026-11-21T00:00:00Z,Kafka version: 4.0.2\n")
    assert (scanner.events, scanner.trailing_bytes, scanner.notes) == (1, 0, [])


@FUZZ
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(0, 900), max_size=6))
@example([b"\0\0\0", LOADED % 1, b"\0\0\0", b"\n"], [1, 2, 3, 4, 130, 131])
def test_any_chunks_give_the_same_lines(pieces: list[bytes], cuts: list[int]) -> None:
    data = b"".join(pieces)
    whole, expected = scan(data)
    chunked, found = scan(data, [min(cut, len(data)) for cut in cuts])
    assert found == expected
    assert facts(chunked) == facts(whole)
    assert chunked.damage == whole.damage
