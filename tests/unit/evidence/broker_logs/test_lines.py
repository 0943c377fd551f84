"""A log's bytes: the same lines however they are cut into chunks, and every byte accounted for, whatever it is.

tests/unit/golden/log_lines.jsonl has a text a line, its layout, and what is found in it.
"""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evidence.broker_logs import lines
from evidence.broker_logs.events import WANTED
from evidence.broker_logs.layouts import KNOWN_PATTERNS, Layout, csv_layout, json_layout, of_pattern
from evidence.broker_logs.lines import Line, LineScanner
from tests.support.golden import filled
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


def scan(data: bytes, cuts: Iterable[int] = (), layout: Layout = KAFKA) -> tuple[LineScanner, list[Line]]:
    scanner = LineScanner(layout, WANTED)
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


def facts(scanner: LineScanner) -> tuple[Any, ...]:
    counts = (scanner.events, scanner.quarantined_bytes, scanner.trailing_bytes, scanner.text_bytes)
    return (*counts, scanner.first, scanner.last, scanner.notes)


@filled("log_lines")
def test_which_lines_are_found(case: dict[str, Any]) -> dict[str, Any]:
    data = case["text"].encode("utf-8", "surrogateescape")
    layout = {"pattern": KAFKA, "json": json_layout([]), "csv": csv_layout(b"time,message", [KAFKA])}[case["layout"]]
    assert layout is not None
    scanner, lines_ = scan(data, layout=layout)
    names = ("events", "quarantined_bytes", "trailing_bytes", "text_bytes", "first", "last", "notes")
    account = dict(zip(names, facts(scanner), strict=True)) | {"damage": [asdict(d) for d in scanner.damage]}
    told = {"what": case["what"], "layout": case["layout"], "text": case["text"], "lines": [*map(asdict, lines_)]}
    return {**told, **account}


def test_a_torn_last_line_is_left_out() -> None:
    torn = LOADED % 2
    for size in range(1, len(torn)):
        scanner, found = scan(LOADED % 1 + torn[:size])
        assert len(found) == 1
        assert (scanner.trailing_bytes, scanner.events) == (size, 1)


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
