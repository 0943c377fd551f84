"""Errors of files, disks and stores are one line that says what to do, and show no signature."""

from __future__ import annotations

import errno
import os

import pytest

from jobs.console.run_log import of_files

AGAIN = "What was committed stays: run the command again to go on."


NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES)
PATH, URL = "lake/findings/a.parquet", "http://127.0.0.1:1/lakes/a.json?X-Amz-Signature=secret"
OF_ARROW = "Error writing bytes to file. Detail: [errno 28] No space left on device"
# Causes that delta-rs writes below each other.
OF_DELTA = "Kernel error -> Generic S3 error\n     \x1b[31m↳\x1b[0m Error performing GET\n  \x1b[31m↳\x1b[0m 500"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        *((OSError(number, os.strerror(number), PATH), f"{PATH}: {os.strerror(number)}") for number in NUMBERS),
        (OSError(errno.ENOSPC, OF_ARROW), OF_ARROW),
        (OSError(OF_DELTA), "Kernel error -> Generic S3 error: Error performing GET: 500"),
        (OSError(f"PUT {URL}: 500\n<Error>more</Error>"), "PUT http://127.0.0.1:1/lakes/a.json?... 500"),
        (TimeoutError(), "TimeoutError"),
    ],
    ids=str,
)
def test_an_error_of_a_file_names_it(error: OSError, text: str) -> None:
    assert of_files(error) == f"{text}. {AGAIN}"


def test_a_long_error_is_shortened() -> None:
    assert len(of_files(OSError("x" * 1000))) < 400
