"""Without Spark, tasks of many rows run in several processes: the tables are those of one process, and no process is
left behind."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from evidence.errors import KraftForensicsError
from jobs.lake.lake import Lake
from jobs.spark.tasks import LocalRunner
from tests.support.digests import digests
from tests.support.paths import ROOT, capture
from tests.support.stopping import PROGRAM, left_with, stopped

RUN = ("run", str(capture("unclean")), "--engine", "local", "--lake")
ALWAYS = {"KRAFT_FORENSICS_SPARK__FROM_ROWS": "0", "KRAFT_FORENSICS_LOCAL_PROCESSES": "2"}


def test_the_tables_are_those_of_one_process(without_spark: Path, tmp_path: Path) -> None:
    words = [*PROGRAM, *RUN, str(tmp_path / "two")]
    subprocess.run(words, cwd=ROOT, env={**os.environ, **ALWAYS}, capture_output=True, check=True)
    assert digests(Lake(tmp_path / "two")) == digests(Lake(without_spark))
    peaks = Lake(tmp_path / "two").read("runs", None, ("engine",))
    assert peaks["engine"].to_pylist() == ["local"]


@pytest.mark.parametrize(
    ("number", "line"), [(signal.SIGINT, "decoding"), (signal.SIGTERM, "judging"), (signal.SIGKILL, "replaying")]
)
def test_no_process_outlives_its_command(number: signal.Signals, line: str, tmp_path: Path) -> None:
    mark = {"KRAFT_FORENSICS_EVIDENCE__CLOCK_ERROR_MS": str(2_000_000 + os.getpid())}
    done = stopped([*RUN, str(tmp_path / "lake")], number, tmp_path, line, 0.2, {**ALWAYS, **mark})
    assert left_with("=".join(*mark.items())) == []
    if number == signal.SIGKILL:
        assert done.code == -number
    else:
        done.check(number)


def ended(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_process_that_the_system_ends_is_an_error_with_what_to_do() -> None:
    with pytest.raises(KraftForensicsError, match=r"^end: a process ended in the middle .* local_processes = 1\.$"):
        LocalRunner(2).run(ended, [1, 2, 3, 4], "end", None)
