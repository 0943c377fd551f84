"""`inspect`: records and damage as one stream, in the order of the file."""

import json
import lzma
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from evidence.errors import KraftForensicsError
from evidence.metadata_log.inspect import inspect_file
from tests.support.golden import filled
from tests.support.log_text import log_of
from tests.support.paths import ORACLE, ROOT


@filled("inspected")
def test_what_is_printed_of_a_log(case: dict[str, Any]) -> dict[str, Any]:
    """A line for each record and each damage, by tests/support/log_text.py."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "0.log")
        path.write_bytes(log_of(case["log"]))
        lines = list(inspect_file(path))
    assert {line.pop("file") for line in lines} <= {str(path)}
    errors = [str(line["error"]) for line in lines if "error" in line]
    assert all(error.startswith(f"{path}: byte ") for error in errors)
    shown = [{**line, "error": str(line["error"])[len(str(path)) :]} if "error" in line else line for line in lines]
    return {"what": case["what"], "log": case["log"], "lines": shown}


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.log"):
        with pytest.raises(KraftForensicsError, match="cannot be read") as caught:
            list(inspect_file(path))
        assert str(caught.value).startswith(f"{path}: ")


def test_the_text_of_kafka_dump_log_gives_the_same_lines_as_the_bytes(tmp_path: Path) -> None:
    text = tmp_path / "dump.txt"
    text.write_bytes(lzma.decompress((ROOT / "tests/samples/dump-log/every-record.txt.xz").read_bytes()))
    names = ("offset", "timestamp", "leaderEpoch", "type", "version", "data")
    expected = [[row[n] for n in names] for row in inspect_file(ORACLE / "every-record.log", show_secrets=True)]
    found = [[row[n] for n in names] for row in inspect_file(text, show_secrets=True)]
    assert len(expected) == 740
    assert found == expected


def test_bare_payloads_have_no_place(tmp_path: Path) -> None:
    path = tmp_path / "payloads.txt"
    path.write_text('{"type":"NO_OP_RECORD","version":0,"data":{}}\n')
    (row,) = inspect_file(path)
    assert (row["offset"], row["leaderEpoch"], row["type"], row["data"]) == (None, None, "NO_OP_RECORD", {})


def test_a_log_made_with_another_seed_equals_kafkas_json(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(lzma.decompress((ORACLE / "every-record-seed-7.log.xz").read_bytes()))
    with lzma.open(ORACLE / "every-record-seed-7.jsonl.xz", "rt", encoding="utf-8") as lines_:
        expected = [json.loads(line) for line in lines_]
    names = ("offset", "timestamp", "type", "version", "data")
    assert len(expected) > 740
    assert [{n: row[n] for n in names} for row in inspect_file(log, show_secrets=True)] == expected
