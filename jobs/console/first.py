"""Signals while Python imports the program: nothing has begun, so the process ends at once. jobs/console/signals.py
takes over when a command begins."""

import os
import signal
from contextlib import suppress
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def stopped_by(number: int) -> str:
    """The line that a stopped command prints."""
    return f"stopped by {signal.Signals(number).name}: run the command again to go on"


def answer_signals() -> None:
    """End the process with one line and exit code 128 + the signal's number. A signal that the parent ignores (nohup)
    stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, _: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, f"{stopped_by(number)}\n".encode())
    os._exit(128 + number)
