"""`watch` as a process of its own: a controller's log that grows, and that is cut off and goes on in a later epoch."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from evidence.wire.batches import scan_batches
from jobs.spark.kraft_source import read_rows
from jobs.watch.follower import ALARMS, STATES, WatchTables, step, surviving_rows
from jobs.watch.stream import begin, identity
from tests.support.paths import ROOT, controllers

Row = dict[str, Any]
_PLACE = ("offset", "controller_epoch", "topic", "partition")
HOOK = """
import json, os
def told(event):
    with open(os.environ["TOLD"], "a") as file:
        file.write(json.dumps([event["event"], event["alarm_id"], event["status"]]) + "\\n")
"""


def run(into: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jobs.cli", "watch", "--into", str(into), "--once", "--format", "json"]
    paths = os.pathsep.join([str(ROOT), str(into.parent)])
    found = {**os.environ, "PYTHONPATH": paths, **environment}
    return subprocess.run([*command, *words], env=found, capture_output=True, text=True, timeout=300, check=False)


def watched(into: Path, *words: str, **environment: str) -> list[Row]:
    done = run(into, *words, **environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def states(into: Path) -> list[tuple[Any, ...]]:
    rows = WatchTables(into).rows(STATES)
    return sorted(tuple(r[name] for name in _PLACE) for r in rows)


def test_a_log_of_a_node_that_is_cut_off_and_grows(tmp_path: Path) -> None:
    """Between two starts. Growth alone is in tests/unit/jobs/watch/test_follower.py and in the drills under `watch`."""
    logs = sorted(controllers("diverge", tmp_path).rglob("__cluster_metadata-0/*.log"))
    ends = {log: scan_batches(log.read_bytes()).batches[-1] for log in logs}
    old, new = (pick(logs, key=lambda log: (ends[log].epoch, ends[log].last_offset)) for pick in (min, max))
    folder = tmp_path / "controller" / "__cluster_metadata-0"
    shutil.copytree(old.parent, folder)
    (tmp_path / "myhook.py").write_text(HOOK)

    place = ["--node", f"3000=local:{folder.parent}"]
    first = watched(tmp_path / "watch", *place)
    before = states(tmp_path / "watch")
    (folder / old.name).write_bytes(new.read_bytes())
    last = watched(tmp_path / "watch", *place, "--hook", "myhook:told", TOLD=str(tmp_path / "told"))

    rows = surviving_rows(read_rows([str(folder)]))
    _, piece, _ = step(begin([folder], *identity([folder])), rows)
    assert piece is not None
    made = [tuple(row.values()) for row in piece.states.select(_PLACE).to_pylist()]
    assert states(tmp_path / "watch") == sorted(made)
    assert set(before) - set(made)
    withdrawn = {a["alarm_id"] for a in last if a["status"] == "withdrawn"}
    stands = {a["alarm_id"] for a in [*first, *last] if a["kind"] != "plan_changed"} - withdrawn
    assert stands == {a["alarm_id"] for a in piece.alarms}
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert told == [["alarm", a["alarm_id"], a["status"]] for a in last]
    assert len(WatchTables(tmp_path / "watch").rows(ALARMS)) == len([*first, *last])


def test_a_record_that_is_damaged_twice_ends_it(tmp_path: Path) -> None:
    log = next(controllers("elr", tmp_path).rglob(f"__cluster_metadata-0/{0:020d}.log"))
    data = log.read_bytes()
    batch = scan_batches(data).batches[-3]
    log.write_bytes(data[: batch.end - 1] + bytes([data[batch.end - 1] ^ 1]) + data[batch.end :])

    done = run(tmp_path / "watch", str(log.parent))
    assert done.returncode == 1
    assert f"byte {batch.position}" in done.stderr
    assert done.stderr.count("it is tried once more") == 1
