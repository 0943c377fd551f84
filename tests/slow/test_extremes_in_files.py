"""Numbers at the end of their range, and beyond it, in the files of a real capture: what Kafka cannot have written is
quarantined, and nothing that is derived overflows."""

import random
import re
import shutil
import struct
from pathlib import Path
from typing import get_args

import google_crc32c
import pytest

from evidence.limits import MAX_INT32, MAX_INT64, MAX_TIME_MS
from jobs.console.options import PageFormat
from jobs.lake.lake import Lake
from jobs.queries.explain import explain
from jobs.queries.flagged_windows import flagged_windows
from jobs.report.stage import write_pages, write_report
from jobs.verdict.document import document
from tests.slow.test_crashes import run
from tests.support.hostile_logs import hostile_capture
from tests.support.small_captures import with_rounds

EXTREMES = [MAX_INT64, MAX_INT64 - 1, -MAX_INT64 - 1, 1 << 62, MAX_INT32, MAX_INT32 + 1, -MAX_INT32 - 1, 1 << 32]
EXTREMES += [0, -1, MAX_TIME_MS, MAX_TIME_MS + 1]
NUMBER = re.compile(r"(?<![\w.\-:])-?\d+(?![\w.\-:])")
TEXTS = ("checkpoint", ".prom", "server.log", "state-change.log", ".json", ".txt")
DATES = ("9999-12-31", "0001-01-01", "1970-01-01")
ROUNDS = 3


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The capture with a few of its rounds of copying."""
    return with_rounds("logs-unclean", tmp_path_factory.mktemp("extremes"), ROUNDS)


def changed_batches(data: bytes, chance: float, seed: int) -> bytes:
    """Times of batches; the same in the copies of all controllers, with a CRC that holds."""
    out, at = bytearray(data), 0
    while at + 61 <= len(out):
        end = at + 12 + struct.unpack_from(">i", out, at + 8)[0]
        if not at + 61 <= end <= len(out):
            break
        rng = random.Random(f"{seed}-{out[at : at + 21].hex()}")
        if rng.random() < chance:
            struct.pack_into(">q", out, at + rng.choice((27, 35)), rng.choice(EXTREMES))
            struct.pack_into(">I", out, at + 17, google_crc32c.value(bytes(out[at + 21 : end])))
        at = end
    return bytes(out)


def extreme(capture: Path, folder: Path, seed: int) -> Path:
    rng = random.Random(seed)
    shutil.copytree(capture, folder)
    chance = rng.choice((0.002, 0.02, 0.1))

    def another(found: re.Match[str]) -> str:
        return str(rng.choice(EXTREMES)) if rng.random() < chance else found[0]

    def another_day(found: re.Match[str]) -> str:
        return f"[{rng.choice(DATES)}" if rng.random() < chance else found[0]

    for file in sorted(folder.rglob("*")):
        if file.parent.name == "__cluster_metadata-0" and file.suffix in (".log", ".checkpoint"):
            file.write_bytes(changed_batches(file.read_bytes(), chance, seed))
        elif file.is_file() and file.name.endswith(TEXTS) and file.name != "bootstrap.checkpoint":
            lines = file.read_text().split("\n")
            head = 2 if file.name.endswith("-checkpoint") else 0  # version and number of entries
            text = "\n".join([*lines[:head], *(NUMBER.sub(another, line) for line in lines[head:])])
            file.write_text(re.sub(r"^\[\d{4}-\d\d-\d\d", another_day, text, flags=re.M))
    first, *_, last = sorted((folder / "snapshots").iterdir())
    first.rename(first.with_name("0"))
    last.rename(last.with_name(str(MAX_TIME_MS)))
    return folder


@pytest.mark.parametrize("seed", range(2))
def test_every_stage_and_every_answer_bears_them(small: Path, tmp_path: Path, seed: int) -> None:
    lake = Lake(tmp_path / "lake")
    cluster = run(lake, extreme(small, tmp_path / "capture", seed))
    rows = lake.rows("findings", cluster, ("finding_id", "loss_min", "loss_max", "first_lost_offset"))
    assert rows
    for row in rows:
        least, most, first = (row[name] for name in ("loss_min", "loss_max", "first_lost_offset"))
        assert 0 <= (least or 0) <= (MAX_INT64 if most is None else most), row
        assert (first or 0) >= 0, row
    for row in rows[:5]:
        assert explain(lake, row["finding_id"])["finding_id"] == row["finding_id"]
    flagged_windows(lake, every=True)
    document(lake, cluster)
    for form in get_args(PageFormat):
        write_report(lake, cluster, tmp_path / f"report.{form}", lambda _: None, form)


@pytest.mark.parametrize("seed", range(6))
def test_a_capture_at_the_ends_of_every_type_is_judged(seed: int, tmp_path: Path) -> None:
    """Without a warning, and a report is written."""
    lake = Lake(tmp_path / "lake")
    cluster = run(lake, hostile_capture(seed, tmp_path / "capture"))
    (page,) = write_pages(lake, [cluster], tmp_path / "report.html", lambda _: None)
    assert Path(page).stat().st_size > 10_000
    times = lake.read("metadata_records", cluster, ("timestamp_ms",))["timestamp_ms"].to_pylist()
    assert times
    assert all(abs(time) <= MAX_TIME_MS for time in times)
    # Nothing is written into the table that is not read: damage is named.
    reasons = {row["reason"] for row in lake.rows("quarantine", cluster, ("reason",))}
    assert reasons <= {"bad_timestamp", "bad_checkpoint"}
