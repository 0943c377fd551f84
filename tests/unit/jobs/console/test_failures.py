"""Errors of files, disks and stores are one line that says what to do, and show no signature."""

from __future__ import annotations

import errno
import os

import pytest

from jobs.console.run_log import of_files

AGAIN = "What was committed stays: run the command again to go on."


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.EACCES])
def test_an_error_of_a_file_names_it(number: int) -> None:
    error = OSError(number, os.strerror(number), "lake/findings/a.parquet")
    assert of_files(error) == f"lake/findings/a.parquet: {os.strerror(number)}. {AGAIN}"


def test_an_error_of_arrow_names_no_file() -> None:
    error = OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")
    assert of_files(error) == f"Error writing bytes to file. Detail: [errno 28] No space left on device. {AGAIN}"


def test_an_error_of_a_store_is_shortened_and_shows_no_signature() -> None:
    url = "http://127.0.0.1:1/lakes/a.json?X-Amz-Signature=secret"
    assert of_files(OSError(f"PUT {url}: 500\n<Error>more</Error>")) == (
        f"PUT http://127.0.0.1:1/lakes/a.json?... 500. {AGAIN}"
    )
    assert len(of_files(OSError("x" * 1000))) < 400


def test_an_error_without_words_has_a_name() -> None:
    assert of_files(TimeoutError()) == f"TimeoutError. {AGAIN}"


def test_the_causes_that_delta_rs_writes_below_each_other_are_one_line() -> None:
    error = OSError(
        "Kernel error -> Generic S3 error\n     \x1b[31m↳\x1b[0m Error performing GET\n  \x1b[31m↳\x1b[0m 500"
    )
    assert of_files(error) == f"Kernel error -> Generic S3 error: Error performing GET: 500. {AGAIN}"
