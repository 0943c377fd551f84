"""Where a lake may be, and its files at a path or a URL. A file:// URL stands for a store: Arrow reads both alike."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evidence.capture.remote import Location, Remote, location
from jobs.lake.lake import Lake
from jobs.lake.storage import LakeError, Storage, check_root, first_bytes, shown, within, write_whole


@pytest.fixture(params=["path", "url"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    return tmp_path if request.param == "path" else Remote(tmp_path.as_uri())


@pytest.mark.parametrize("url", ["s3://b/lake", "s3a://b/lake", "gs://b/lake", "abfs://c@a.host/lake", "abfss://c@a/x"])
def test_a_lake_may_be_in_these_stores(url: str) -> None:
    check_root(location(url))


@pytest.mark.parametrize("scheme", ["http", "https", "ftp", "hdfs", "file", "memory"])
def test_a_lake_cannot_be_elsewhere_and_the_message_shows_no_secret(scheme: str) -> None:
    with pytest.raises(LakeError) as error:
        check_root(location(f"{scheme}://user:pass%5Bword@host/lake?token=secret"))
    assert str(error.value).startswith(f"{scheme}://host/lake")
    assert "s3, gs, abfs, abfss" in str(error.value)
    assert not [word for word in ("user", "pass", "secret") if word in str(error.value)]


@pytest.mark.parametrize("character", "%[]\\^|\t\n\x00\x1f\x7f")
def test_a_path_that_would_be_misread_is_refused_wherever_the_character_is(tmp_path: Path, character: str) -> None:
    if character == "\x00":
        with pytest.raises((LakeError, ValueError)):
            check_root(tmp_path / "a\x00b")
        return
    for path in (tmp_path / f"a{character}b", tmp_path / f"{character}a" / "lake"):
        with pytest.raises(LakeError, match=r"must not contain .* Choose another --lake"):
            Lake(path)
    (tmp_path / f"x{character}").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / f"x{character}")
    with pytest.raises(LakeError, match="must not contain"):
        check_root(tmp_path / "link" / "lake")


def test_within_a_folder_or_a_url() -> None:
    assert within(Path("lake"), "_data_docs/index.html") == Path("lake/_data_docs/index.html")
    for url in ("s3://bucket/lake", "s3://bucket/lake/", "s3://bucket/lake//"):
        assert within(Remote(url), "report.html") == Remote("s3://bucket/lake/report.html")


def test_files_are_written_read_and_deleted(root: Location, tmp_path: Path) -> None:
    storage = Storage(root)
    if isinstance(root, Remote):
        (tmp_path / "table").mkdir()  # a store has no folders
    with storage.new("table/a b") as file:
        file.write(b"rows")
    assert (tmp_path / "table" / "a b").read_bytes() == b"rows"
    with storage.open("table/a b") as file:
        assert file.read() == b"rows"
    storage.delete("table/a b")
    assert list((tmp_path / "table").iterdir()) == []
    storage.delete("table/a b")  # gone already
    with pytest.raises(OSError, match="a b"):
        storage.open("table/a b")


def test_plain_http_is_allowed_only_where_the_endpoint_is_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for endpoint, expected in (("http://127.0.0.1:1", {"allow_http": "true"}), ("https://host", None), ("", None)):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert Storage(Remote("s3://b/lake")).delta_options == expected
        assert Storage(Path("lake")).delta_options is None


def test_a_page_is_written_and_its_beginning_is_read(root: Location) -> None:
    page = within(root, "page.html")
    assert first_bytes(page, 10) == b""
    write_whole(page, "größer\n")
    assert first_bytes(page, 3) == b"gr\xc3"
    assert first_bytes(page, 1000) == "größer\n".encode()
    write_whole(page, "new")
    assert first_bytes(page, 1000) == b"new"


def test_the_beginning_of_what_is_no_file_is_nothing(tmp_path: Path) -> None:
    assert first_bytes(tmp_path, 10) == b""
    assert first_bytes(Remote(tmp_path.as_uri()), 10) == b""
    assert first_bytes(tmp_path / "missing" / "page", 10) == b""


def test_what_is_shown_has_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(Path("lake")) == str(tmp_path / "lake")
    assert shown(location("s3a://key:secret@bucket/lake")) == "s3://bucket/lake"


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
