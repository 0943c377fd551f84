"""A drill's folder -> a case: `make drill-case RUN=drills/<drill>`.

The captures are thinned to one partition: the first one with a wrong claim or with a loss, unless it is named. The
nodes' own logs keep the lines that are read, and of other partitions none. Secrets in them, this machine's name and the
drill's folder are replaced. The truth keeps what the client and the reader saw of the partition.
"""

import json
import re
import shutil
import socket
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from drill.ledger import Ledger
from drill.run import RESULT, TRUTH
from evidence.broker_logs.read import read_broker_logs
from evidence.capture.files import open_capture
from evidence.kinds import METADATA_LOG_DIR
from evidence.redaction import redact_text
from tests.support.paths import ROOT

Row = dict[str, Any]
CASES = ROOT / "tests" / "cases"
_TEST = "tests/slow/test_drill_cases.py"
_FOLDER = re.compile(r"(/[^/\s,=:]+)*/drill-[a-z0-9_]{8}(?=/)")
_TEXTS = ("*.properties", "logs/*", "*.json")


def make_case(run: Path, cases: Path = CASES, partition: str | None = None) -> Path:
    """Write the case of a drill. Returns its folder. Errors: SystemExit if no partition is concerned."""
    result = json.loads((run / RESULT).read_text(encoding="utf-8"))
    partition = partition or _concerned(result)
    case = cases / f"drill_{result['scenario']}_{result['release']}_{result['seed']}"
    case.mkdir()
    truth = json.loads((run / TRUTH).read_text(encoding="utf-8"))
    for number in range(1, 1 + len(list(run.glob("capture-*")))):
        with TemporaryDirectory() as folder:
            copy = Path(shutil.copytree(run / f"capture-{number}", Path(folder) / f"capture-{number}"))
            _thin(copy, partition)
            with tarfile.open(case / f"{copy.name}.tar.xz", "w:xz") as tar:
                tar.add(copy, copy.name, filter=_nobody)
    (case / TRUTH).write_text(json.dumps(_thin_truth(truth, partition)) + "\n", encoding="utf-8")
    (case / "README.md").write_text(_readme(result, truth["journal"], partition), encoding="utf-8")
    return case


def read_case(case: Path) -> tuple[Ledger, list[Row], str]:
    """The ledger of the case's partition, what Kafka described of it, and its name."""
    truth = json.loads((case / TRUTH).read_text(encoding="utf-8"))
    return Ledger.from_json(truth["partitions"]), truth["described"], truth["partition"]


def _concerned(result: Row) -> str:
    named = [w["partition"] for w in result["wrong"] if w["partition"] != "-"] + list(result["lost"])
    if not named:
        raise SystemExit("no claim of the drill is wrong and nothing was lost: name a partition")
    return str(named[0])


def _thin(capture: Path, partition: str) -> None:
    topic, _, number = partition.rpartition("-")
    with open_capture(capture) as opened:
        events = read_broker_logs(opened.name, opened.files).events.to_pylist()
    kept: dict[str, set[int]] = {}
    for row in events:
        if row["topic"] is None or (row["topic"], row["partition"]) == (topic, int(number)):
            kept.setdefault(row["path"], set()).add(row["position"])
    for folder in capture.glob("node-*/logdir*/*/"):
        if folder.name not in (partition, METADATA_LOG_DIR):
            shutil.rmtree(folder)
    for listing in capture.glob("node-*/listing-*"):
        listing.unlink()
    for node in capture.glob("node-*"):
        for file in (file for pattern in _TEXTS for file in node.glob(pattern)):
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            if file.parent.name == "logs":
                lines = _read_lines(lines, kept.get(str(file.relative_to(capture)), set()))
            file.write_text("".join(map(_anonymous, lines)), encoding="utf-8")


def _read_lines(lines: list[str], positions: set[int]) -> list[str]:
    """The lines at these positions, those just before them (a process' last sign of life), the first and the last."""
    at, wanted = 0, {0, len(lines) - 1}
    for number, line in enumerate(lines):
        if at in positions:
            wanted |= {number - 1, number}
        at += len(line.encode())
    return [line for number, line in enumerate(lines) if number in wanted]


def _anonymous(line: str) -> str:
    return redact_text(_FOLDER.sub("/drill", line).replace(socket.gethostname(), "host"))


def _thin_truth(truth: Row, partition: str) -> Row:
    described = [
        {**answer, "partitions": [row for row in answer["partitions"] if _name(row) == partition]}
        for answer in truth["described"]
    ]
    rows = [row for row in truth["partitions"] if _name(row) == partition]
    return {"partition": partition, "partitions": rows, "described": described}


def _name(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _readme(result: Row, journal: list[tuple[int, str]], partition: str) -> str:
    wrong = [f"{w['kind']}: {w['text']}" for w in result["wrong"] if w["partition"] == partition]
    told = "\n".join(f"- {text}" for text in wrong) or "- nothing"
    steps = "\n".join(f"- {_FOLDER.sub('/drill', text)}" for _, text in journal)
    return f"""# A drill: {result["scenario"]} on Kafka {result["release"]}, seed {result["seed"]}

{partition} lost {result["lost"].get(partition, 0)} records that were acknowledged with acks=all. Claimed wrongly:

{told}

What was done:

{steps}

`capture-*.tar.xz` is what `collect` copied, thinned to the partition. `truth.json` is what the client and the reader
saw. Written by `make drill-case`.

Test: {_TEST}.
"""


if __name__ == "__main__":
    print(make_case(Path(sys.argv[1]), partition=sys.argv[2] if len(sys.argv) > 2 else None))
