"""A drill's folder becomes a case: thinned, without this machine's names, and its truth."""

from __future__ import annotations

import json
import socket
import tarfile
from pathlib import Path

import pytest

from tests.support.drill_case import CASES, make_case, read_case

RECORDED = CASES / "drill_network_cut_4.3.1_1"
RESULT = {
    "scenario": "mine",
    "release": "4.3.1",
    "seed": 7,
    "lost": {"ledger-0": 30},
    "wrong": [{"kind": "wrong proven", "partition": "ledger-0", "text": "too many"}],
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a drill: the captures of a recorded one, with what a case must not have."""
    folder = tmp_path / "run"
    for archive in RECORDED.glob("*.tar.xz"):
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    node = folder / "capture-1" / "node-1"
    (node / "logdir0" / "other-0").mkdir()
    (node / "logdir0" / "other-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    (node / "listing-logdir0.txt.gz").write_bytes(b"")
    with (node / "server.properties").open("a") as stream:
        stream.write(
            f"log.dirs=/var/tmp/drill-abcd_123/node-1/data,/tmp/drill-abcd_123/b\nhost={socket.gethostname()}\n"
        )
    lines = (node / "logs" / "server.log").read_text().splitlines(keepends=True)
    line = lines[2].partition("] ")[0] + "] INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Truncating "
    lines[3:3] = [f"{lines[2][:25]} INFO what a plugin says (my.Plugin)\n", f"{line}nothing\n"]
    (node / "logs" / "server.log").write_text("".join(lines))
    truth = json.loads((RECORDED / "truth.json").read_text())
    other = {**truth["partitions"][0], "topic": "other"}
    answers = [
        {**a, "partitions": [*a["partitions"], {**a["partitions"][0], "topic": "other"}]} for a in truth["described"]
    ]
    journal = [[0, "kill node 1"]]
    whole = {"journal": journal, "partitions": [other, *truth["partitions"]], "described": answers}
    (folder / "truth.json").write_text(json.dumps(whole))
    (folder / "result.json").write_text(json.dumps(RESULT))
    return folder


def test_a_case_has_one_partition_and_no_name_of_this_machine(run: Path, tmp_path: Path) -> None:
    case = make_case(run, tmp_path)
    assert case.name == "drill_mine_4.3.1_7"
    with tarfile.open(case / "capture-1.tar.xz") as tar:
        tar.extractall(tmp_path / "thin", filter="data")
    node = tmp_path / "thin" / "capture-1" / "node-1"
    assert {path.name for path in (node / "logdir0").iterdir() if path.is_dir()} == {"ledger-0", "__cluster_metadata-0"}
    assert not list(node.glob("listing-*"))
    assert (node / "server.properties").read_text().endswith("log.dirs=/drill/node-1/data,/drill/b\nhost=host\n")
    assert "plugin" not in (node / "logs" / "server.log").read_text()
    readme = (case / "README.md").read_text()
    assert "ledger-0 lost 30 records" in readme
    assert "- wrong proven: too many" in readme
    assert "- kill node 1" in readme


def test_the_truth_is_that_of_the_drill(run: Path, tmp_path: Path) -> None:
    ledger, described, partition = read_case(make_case(run, tmp_path))
    recorded, answers, name = read_case(RECORDED)
    assert (partition, described, ledger.as_json()) == (name, answers, recorded.as_json())
    assert {ledger.name(place): len(records) for place, records in ledger.lost().items()} == {"ledger-0": 30}


def test_a_drill_without_a_loss_needs_a_partition(run: Path, tmp_path: Path) -> None:
    (run / "result.json").write_text(json.dumps({**RESULT, "lost": {}, "wrong": []}))
    with pytest.raises(SystemExit, match="name a partition"):
        make_case(run, tmp_path)
    assert make_case(run, tmp_path, "ledger-0").is_dir()
