"""When a file was read, by what an archive says of its copy.

tests/unit/golden/rounds.jsonl and copies.jsonl have a copy a line.
"""

import os
import tarfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evidence.capture.clock_bounds import Modified, of_seconds, round_ms
from evidence.capture.files import open_capture
from evidence.offsets.read import read_offsets
from tests.support.golden import filled
from tests.support.metric_names import NAMES
from tests.support.small_captures import write_files
from tests.unit.evidence.accounting import FUZZ

T = 1795221569450
PATH = f"snapshots/{T}/broker-1/replication-offset-checkpoint"
DATA = b"0\n1\na 0 7\n"


@filled("rounds")
def test_how_long_after_the_capture_time_a_file_was_read(case: dict[str, Any]) -> dict[str, Any]:
    """An odd second is exact to a second, an even one may be to two, and may have begun before the capture time. A
    later time is that of a slow round, of up to a minute; an earlier one is the source's own. In a zone that nothing
    names the round may be longer, never shorter."""
    if "seconds" in case:
        made = of_seconds(case["seconds"])
    else:
        made = Modified(**case["modified"]) if case["modified"] else None
    return {**case, "round_ms": round_ms(T, case["assumed_ms"], made)}


def test_seconds_that_are_no_time_say_nothing() -> None:
    assert [of_seconds(seconds) for seconds in (-1, 253402300800, 1 << 62)] == [None] * 3


@FUZZ
@given(
    captured_at_ms=st.integers(T, T + 4000),
    read_after_ms=st.integers(0, 90_000),
    write_after_ms=st.integers(0, 3000),
    tick_ms=st.integers(0, 9),
    again_ms=st.one_of(st.just(0), st.integers(0, 7_200_000)),
    form=st.sampled_from(["pax", "seconds", "even seconds", "even seconds in seconds", "zone"]),
    zone_quarters=st.integers(-56, 56),
    assumed_ms=st.sampled_from([0, 3000, 5000, 100_000]),
)
def test_a_value_was_read_before_its_copy_was_written(
    captured_at_ms: int,
    read_after_ms: int,
    write_after_ms: int,
    tick_ms: int,
    again_ms: int,
    form: str,
    zone_quarters: int,
    assumed_ms: int,
) -> None:
    """A simulated copy: read, written, stamped with the last tick, perhaps copied again later, archived in some form.
    Either the bound holds or it is what was assumed; in a form with a zone it holds for every round of a minute."""
    stamped = captured_at_ms + read_after_ms + write_after_ms + again_ms - tick_ms
    seconds = stamped // 1000
    made = {
        "pax": Modified(stamped, 1),
        "seconds": of_seconds(seconds),
        "even seconds": of_seconds(seconds // 2 * 2),
        "even seconds in seconds": of_seconds(seconds // 2 * 2),
        "zone": Modified((seconds // 2 * 2 + zone_quarters * 900) * 1000, 2000, has_zone=False),
    }[form]
    found = round_ms(captured_at_ms, assumed_ms, made)
    assert found >= 0
    assert read_after_ms <= found or found == assumed_ms
    if form == "zone":
        assert found >= assumed_ms
    elif not again_ms and read_after_ms + write_after_ms <= 60_000 and (stamped >= captured_at_ms or form != "pax"):
        assert read_after_ms <= found


@FUZZ
@given(
    captured_at_ms=st.integers(T, T + 4000),
    source_ms=st.integers(-10_000, 10_000),
    read_after_ms=st.integers(0, 5000),
    exact=st.booleans(),
)
def test_a_copy_with_its_sources_time_bounds_when_the_value_stood_there(
    captured_at_ms: int, source_ms: int, read_after_ms: int, exact: bool
) -> None:
    """`cp -p`: the source was written at some time, before it was read. In the bound there is a moment, not before the
    capture time, at which the value stood in the source."""
    written = min(captured_at_ms + source_ms, captured_at_ms + read_after_ms)
    modified = Modified(written, 1) if exact else of_seconds(written // 1000)
    found = round_ms(captured_at_ms, 5000, modified)
    assert max(written, captured_at_ms) <= captured_at_ms + found


@contextmanager
def zone_of_this_process(name: str) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def archive(folder: Path, form: str, modified_ms: int, manifest: str = "") -> Path:
    root = write_files(folder / "capture", {PATH: DATA, "capture.toml": manifest})
    for name in (PATH, "capture.toml"):
        os.utime(root / name, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
    packed = folder / f"capture.{'zip' if 'zip' in form else 'tar'}"
    if form == "zip":
        with zipfile.ZipFile(packed, "w") as zipped:
            for path in root.rglob("*"):
                zipped.write(path, path.relative_to(root))
    elif "zip" in form:  # an extra field with the seconds, or one that is cut off, in hex
        stamp = bytes.fromhex(form[4:]) if "with" not in form else b"\x55\x54\x05\x00\x01"
        stamp += (modified_ms // 1000).to_bytes(4, "little") if "with" in form else b""
        with zipfile.ZipFile(packed, "w") as zipped:
            for path in (p for p in root.rglob("*") if p.is_file()):
                info = zipfile.ZipInfo(str(path.relative_to(root)), (2020, 1, 1, 0, 0, 0))
                info.extra = (b"\x75\x78\x00\x00" if "with" in form else b"") + stamp
                zipped.writestr(info, path.read_bytes())
    else:
        _, _, time_of_all = form.partition("pax ")

        def stamped(member: tarfile.TarInfo) -> tarfile.TarInfo:
            if time_of_all and member.isreg():
                member.mtime, member.pax_headers = 0, {"mtime": time_of_all}
            return member

        style = tarfile.GNU_FORMAT if form == "gnu" else tarfile.PAX_FORMAT
        with tarfile.open(packed, "w", format=style) as tar:
            tar.add(root, "capture", filter=stamped)
    return packed


def when(location: Path, uncertainty_ms: int = 5000) -> tuple[int, int]:
    with open_capture(location) as capture:
        rows = read_offsets(capture.name, capture.files, NAMES, uncertainty_ms).log_end_offsets
        (row,) = rows.select(["captured_at_ms", "uncertainty_ms"]).to_pylist()
        return row["captured_at_ms"], row["uncertainty_ms"]


@filled("copies")
def test_of_an_archive_a_members_time_bounds_when_its_values_were_read(case: dict[str, Any]) -> dict[str, Any]:
    """A manifest's duration is tightened too, and does not hide a slow round. A zip's time in another zone is
    ignored."""
    with TemporaryDirectory() as folder:
        with zone_of_this_process(case["zone"]):
            packed = archive(Path(folder), case["form"], T + case["after_ms"], case["manifest"])
        if not case["manifest"]:
            assert when(Path(folder, "capture")) == (T, 5000)
        return {**case, "captured_at_and_uncertainty_ms": list(when(packed))}
