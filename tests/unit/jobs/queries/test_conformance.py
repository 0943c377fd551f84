"""`conformance` as a user runs it: what it prints, its exit code, and what it says of bad input."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from evidence.errors import KraftForensicsError
from jobs.queries.conformance import check_cases
from tests.support.invoked import invoke
from tests.support.paths import ORACLE

CASES = ORACLE / "policy-4.3.1.jsonl.gz"


def lines() -> list[bytes]:
    return gzip.decompress(CASES.read_bytes()).splitlines(keepends=True)


def test_kafkas_cases_match() -> None:
    done = invoke(["conformance", str(CASES)])
    assert (done.exit_code, done.stdout) == (0, "3000 matched, 0 differ\n")


def test_cases_that_differ_give_exit_code_1_and_are_named(tmp_path: Path) -> None:
    case = json.loads(lines()[0])
    case["state_after"]["leader_epoch"] += 1
    file = tmp_path / "cases.jsonl"
    file.write_bytes(lines()[1] + json.dumps(case).encode() + b"\n")
    done = invoke(["conformance", str(file)])
    assert (done.exit_code, done.stdout) == (1, "1 matched, 1 differ\n")
    assert f"{file}: line 2: " in done.stderr


def test_other_rules_differ() -> None:
    done = invoke(["conformance", str(CASES), "--profile", "4.0"])
    assert done.exit_code == 1
    assert "0 differ" not in done.stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"not json\n", "line 2, byte {first}: not JSON"),
        (b"[]\n", "line 2, byte {first}: expected a JSON object, not list"),
        (b'{"kafka": "4.3.1"}\n', "line 2, byte {first}: a case cannot be read"),
        (b'{"kafka": "0.8"}\n', "line 2, byte {first}: no profile for Kafka '0.8'"),
    ],
)
def test_a_line_that_is_no_case_is_named_with_its_place(tmp_path: Path, text: bytes, message: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_bytes(lines()[0] + text)
    with pytest.raises(KraftForensicsError, match=message.format(first=len(lines()[0]))):
        check_cases(file, None)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    torn = tmp_path / "torn.jsonl.gz"
    torn.write_bytes(CASES.read_bytes()[:5000])
    for file in (torn, tmp_path / "missing.jsonl"):
        with pytest.raises(KraftForensicsError, match=f"{file.name}: cannot be read"):
            check_cases(file, None)
