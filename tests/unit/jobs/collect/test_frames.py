"""What comes from a node is written below its folder only, and only whole; how far its clock is ahead."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.collect.frames import BrokenStream, Received, receive
from jobs.collect.session import ClockReading, Offset, offset_of, parse_time, wait_before_next_s


def frame(name: bytes, data: bytes, end: bytes = b"same") -> bytes:
    return b"F x:%s %d\n%s\nE %s\n" % (name.hex().encode(), len(data), data, end)


def received(stream: bytes, folder: Path) -> Received:
    found = Received()
    receive(io.BytesIO(stream), folder, found)
    return found


def test_files_facts_and_what_is_missing(tmp_path: Path) -> None:
    name = b"logs/a \n'\"\xff.log"
    found = received(
        frame(name, b"\x00F n:x 3\n") + frame(b"empty", b"") + b"V uptime 313233\nM n:a/b 6e6f\nM x:0a 6e6f\nD\n",
        tmp_path,
    )
    assert (tmp_path / "logs" / "a \n'\"\udcff.log").read_bytes() == b"\x00F n:x 3\n"
    assert (tmp_path / "empty").read_bytes() == b""
    assert (found.facts, found.missing, found.done) == ({"uptime": "123"}, ["a/b: no", "\\n: no"], True)


def test_a_file_that_changed_is_kept_only_if_it_comes_again(tmp_path: Path) -> None:
    found = received(
        frame(b"a", b"1", b"changed") + frame(b"b", b"1", b"changed") + frame(b"b", b"22") + b"D\n", tmp_path
    )
    assert found.files == {"b"}
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("b", b"22")]


@pytest.mark.parametrize("name", [b"../x", b"/etc/x", b"a/../../x", b"a\x00b", b"..", b"."])
def test_no_name_leads_out_of_the_folder(name: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "node"
    folder.mkdir()
    found = received(
        frame(name, b"evil") + frame(b"good", b"1") + b"B 1 4\nx:%s 4\nevil\nE same\nD\n" % name.hex().encode(), folder
    )
    assert found.files == {"good"}
    assert len(found.missing) == 2
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [folder / "good"]


@pytest.mark.parametrize("name", [b"../x", b"/etc/x", b"a/../../x"])
def test_what_is_followed_stays_in_the_folder_too(name: bytes, tmp_path: Path) -> None:
    folder, hidden = tmp_path / "node", name.hex().encode()
    folder.mkdir()
    found = received(b"A x:%s 0 1\nx\nE same\nG x:%s\nG n:a\nD\n" % (hidden, hidden), folder)
    assert (found.files, found.gone, len(found.missing)) == (set(), ["a"], 2)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def piece(start: int, data: bytes, end: bytes = b"same") -> bytes:
    return b"A n:d/a %d %d\n%s\nE %s\nD\n" % (start, len(data), data, end)


def test_a_piece_is_appended_where_the_file_ends(tmp_path: Path) -> None:
    for data, start in ((b"one", 0), (b"two", 3), (b"", 6)):
        assert received(piece(start, data), tmp_path).files == {"d/a"}
    received(piece(6, b"three", b"changed"), tmp_path)
    for start in (5, 7):
        with pytest.raises(BrokenStream, match="something else"):
            received(piece(start, b"x"), tmp_path)
    with pytest.raises(BrokenStream, match="ended inside a file"):
        received(piece(6, b"three")[:-12], tmp_path)
    with pytest.raises(BrokenStream, match="something else"):
        received(b"A n:d/a 6 99999999999\n", tmp_path)
    assert (tmp_path / "d" / "a").read_bytes() == b"onetwo"
    received(piece(0, b"new"), tmp_path)
    assert [p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()] == [b"new"]


def test_nothing_is_written_twice(tmp_path: Path) -> None:
    found = received(frame(b"a", b"1") + frame(b"a", b"2") + b"D\n", tmp_path)
    assert ((tmp_path / "a").read_bytes(), found.missing) == (b"1", ["a: a name that is refused"])


def test_a_bundle(tmp_path: Path) -> None:
    bundle = b"B 2 3\nn:d/t-0/a 1\nn:d/t-1/a 2\n122\nE %s\n"
    assert received(bundle % b"changed" + b"D\n", tmp_path).files == set()
    assert received(bundle % b"same" + b"D\n", tmp_path).files == {"d/t-0/a", "d/t-1/a"}
    assert [(tmp_path / f"d/t-{n}/a").read_bytes() for n in (0, 1)] == [b"1", b"22"]


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"F n:a 5\n123",
        b"F n:a 3\n123\nE sa",
        b"F n:a 3\n1234E same\n",
        b"F n:a -1\n\nE same\nD\n",
        b"F a 1\n1\nE same\nD\n",
        b"F n:a/b 1\n1\nE same\nF n:a 1\n1\nE same\nD\n",
        b"B 1 2\nn:a 1\n1\nE same\nD\n",
        b"B 99 1\nn:a 1\n1\nE same\nD\n",
        b"V a zz\nD\n",
        b"Welcome to the node\n",
        b"V " + b"a" * 100_000,
    ],
)
def test_a_stream_that_breaks_keeps_whole_files_only(stream: bytes, tmp_path: Path) -> None:
    found = Received()
    with pytest.raises(BrokenStream):
        receive(io.BytesIO(frame(b"whole", b"1") + stream), tmp_path, found)
    assert (tmp_path / "whole").read_bytes() == b"1"
    assert not found.done
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()} == found.files


SECOND = 1_000_000_000
MS = 1_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1795372099191123456", (1795372099191123456, 1)),
        ("1795372099", (1795372099 * SECOND, SECOND)),
        ("1795372099N", (1795372099 * SECOND, SECOND)),
        ("1795372099%N", (1795372099 * SECOND, SECOND)),
        ("", None),
        ("date: invalid", None),
        ("17953720991911", None),
    ],
)
def test_what_date_prints(text: str, expected: tuple[int, int] | None) -> None:
    assert parse_time(text) == expected


def test_the_quickest_answer_decides() -> None:
    slow, quick = ClockReading(0, 700 * MS, 400 * MS), ClockReading(1000 * MS, 1502 * MS, 1004 * MS)
    assert offset_of([slow]) == Offset(500, 201)
    assert offset_of([slow, quick]) == Offset(500, 3)
    assert offset_of([]) is None


def test_answers_that_contradict_each_other_leave_the_quickest() -> None:
    assert offset_of([ClockReading(0, 10 * MS, 2 * MS), ClockReading(0, 900 * MS, 20 * MS)]) == Offset(9, 2)


@given(
    offset=st.integers(-(10**15), 10**15),
    trips=st.lists(
        st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**10)), min_size=1, max_size=9
    ),
    granularity=st.sampled_from([1, SECOND]),
)
def test_the_truth_is_within_the_error(offset: int, trips: list[tuple[int, int, int]], granularity: int) -> None:
    now = 1_795_372_099 * SECOND
    answers = []
    for there, back, pause in trips:
        now += pause
        time = (now + there + offset) // granularity * granularity
        answers.append(ClockReading(now, time, now + there + back, granularity))
        now += there + back
    found = offset_of(answers)
    assert found is not None
    assert abs(found.offset_ms * MS - offset) <= found.error_ms * MS


def test_a_clock_of_whole_seconds_is_asked_at_the_turn_of_a_second() -> None:
    offset, now, answers = 123_456_789_012, 1_795_372_099 * SECOND, []
    for _ in range(8):
        now += int(wait_before_next_s(answers, now) * 1e9)
        asked = now
        now += 2 * MS
        answers.append(ClockReading(asked, (now - MS + offset) // SECOND * SECOND, now, SECOND))
    found = offset_of(answers)
    assert found is not None
    assert found.error_ms <= 12
    assert abs(found.offset_ms - offset // MS) <= found.error_ms
