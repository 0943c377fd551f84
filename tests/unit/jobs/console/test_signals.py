"""Temporary folders are gone after a signal, also if there is no time to remove them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.support.stopping import GONE_S

_PROGRAM = """
import tempfile, time
from pathlib import Path
from jobs.console import signals
signals._MOST_S = 0.2
signals.watch_signals()
folder = Path(tempfile.mkdtemp())
for number in range(2000):
    (folder / str(number)).touch()
with signals.ends_by_signal():
    try:
        print(folder, flush=True)  # from here on the signal may come
        time.sleep(60)
    finally:
        time.sleep(60)  # a disk that is too slow
"""


def test_a_folder_that_takes_too_long_is_removed_after_the_end(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM]
    given = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=given, start_new_session=True, text=True) as program:
        assert program.stdout is not None
        folder = Path(program.stdout.readline().strip())
        assert len(list(folder.iterdir())) == 2000
        os.killpg(program.pid, signal.SIGTERM)
        assert program.wait() == 128 + signal.SIGTERM
    until = time.monotonic() + GONE_S
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not folder.exists()
