"""Cases of drills on a real Kafka (`make drill-case`): no claim about the partition contradicts what was seen."""

import tarfile
from pathlib import Path

import pytest

from drill.run import score_captures
from tests.support.drill_case import CASES, read_case

FOUND = sorted(CASES.glob("drill_*/"))


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_no_claim_is_wrong(tmp_path: Path, case: Path) -> None:
    ledger, described, partition = read_case(case)
    captures = []
    for archive in sorted(case.glob("capture-*.tar.xz")):
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path, filter="data")
        captures.append(tmp_path / archive.name.removesuffix(".tar.xz"))
    scored = score_captures(captures, tmp_path, ledger, described)
    assert [wrong for wrong in scored["wrong"] if wrong["partition"] in (partition, "-")] == []
    assert scored["states"] == len(described)
    assert set(scored["lost"]) <= set(scored["found"])


def test_there_are_cases() -> None:
    assert FOUND
