"""A short drill on a real cluster: what it loses is found, and nothing that is claimed is wrong."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from jobs.cli import app
from tests.kafka.conftest import KAFKA, LISTED


def test_an_unclean_election_is_proven_on_the_newest_release(tmp_path: Path) -> None:
    words = ["drill", "unclean_by_config", "--release", LISTED[-1], "--jars", str(KAFKA / "drill")]
    done = CliRunner().invoke(app, [*words, "--out", str(tmp_path)])
    assert done.exit_code == 0, (done.output, done.exception)
    (line,) = (tmp_path / "results.jsonl").read_text().splitlines()
    result = json.loads(line)
    assert result["lost"] == {"ledger-0": 30}
    assert result["found"]["ledger-0"].startswith("proven, at least ")
    assert (result["wrong"], result["as_expected"], result["states"] > 5) == ([], True, True)
    assert "30 records acknowledged with acks=all are gone" in Path(done.stdout.partition(":")[0]).read_text()
