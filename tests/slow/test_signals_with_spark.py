"""Ctrl-C and SIGTERM while a JVM runs: one line, the signal's exit code, and neither JVM nor Python worker is left."""

import signal
from pathlib import Path

import pytest

from tests.support.paths import capture
from tests.support.stopping import left_with, stopped

ALWAYS_SPARK = "KRAFT_FORENSICS_SPARK__FROM_ROWS"
MARK = "KRAFT_FORENSICS_EVIDENCE__CLOCK_ERROR_MS"  # a setting that is in the environment of all children


@pytest.mark.parametrize(
    ("number", "line", "pause_s"),
    [(signal.SIGINT, "opening", 1.0), (signal.SIGTERM, "replaying", 0.0), (signal.SIGINT, "decoding", 1.0)],
)
def test_a_run_with_a_jvm_stops(number: signal.Signals, line: str, pause_s: float, tmp_path: Path) -> None:
    mark = str(1_000_000 + hash((number, line, pause_s)) % 1_000_000)
    run = ["run", str(capture("unclean")), "--lake", str(tmp_path / "lake")]
    stopped(run, number, tmp_path, line, pause_s, {ALWAYS_SPARK: "0", MARK: mark}).check(number)
    assert left_with(f"{MARK}={mark}") == []


def test_the_prompt_of_sql_stops(tmp_path: Path) -> None:
    from jobs.lake.lake import Lake

    Lake(tmp_path / "lake").create()
    mark = str(2_000_000)
    endless = "select count(*) from range(1000000000000) where id % 7 = 3 and sha2(cast(id as string), 256) = 'x';"
    script = f"select 'listening';\n{endless}\n"
    sql = ["sql", "--lake", str(tmp_path / "lake")]
    done = stopped(sql, signal.SIGINT, tmp_path, "listening", 3.0, {MARK: mark}, script, on_stdout=True)
    done.check(signal.SIGINT)
    assert left_with(f"{MARK}={mark}") == []
