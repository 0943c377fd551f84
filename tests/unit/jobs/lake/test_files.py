"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.lake.storage import write_whole


@pytest.mark.parametrize("error", [OSError, ValueError])
def test_what_fails_leaves_the_older_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    file = tmp_path / "page.html"
    write_whole(file, "old")

    def half(path: Path, text: str, encoding: str) -> None:
        path.write_bytes(text.encode(encoding)[:2])
        raise error

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(error):
        write_whole(file, "new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_no_regular_file_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text, encoding="utf-8")
        write_whole(pipe, "all of it")
        assert read.result() == "all of it"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
