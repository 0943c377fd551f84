"""What the plan of a real drill takes from the captured logs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.incident.plan import load_plan
from jobs.lake.lake import Lake
from tests.support.judged import judged_lake
from tests.support.paths import ROOT

CASE = ROOT / "tests" / "cases" / "drill_plan_random_4.3.1_2"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return judged_lake(tmp_path_factory.mktemp("plan") / "lake", CASE / "capture-1.tar.xz")


def steps_of(lake: Lake) -> dict[str, Any]:
    (cluster,) = lake.clusters()
    return {step["code"]: step for step in load_plan(lake, cluster)["steps"]}


def test_the_last_known_leader_whose_log_was_cut_does_not_lead(lake: Lake) -> None:
    """Brokers 2 and 3 are in the ELR, and 3 led last. Its machine lost power: its log ends at 38, that of 2 at 50. All
    were killed, so that Kafka elects 3 in the end; the plan of an earlier release lost six records by it."""
    steps = steps_of(lake)
    start = steps["start"]
    order = start["brokers"]
    assert order.index(2) < order.index(3)
    (command,) = [text for text in start["commands"] if "--topic safe --partition 0 " in text]
    assert "# once broker 2 has started, " in command
    (fact,) = [text for text in start["facts"] if text.startswith("safe-0: without a leader, ")]
    ends = "the log of broker 1 ended at 50, the log of broker 2 ended at 50, the log of broker 3 ended at 38."
    assert fact.endswith(ends)
    assert "safe-0" in steps["copy"]["places"]


def test_the_plan_says_how_much_space_a_copy_takes(tmp_path: Path) -> None:
    shutil.unpack_archive(CASE / "capture-1.tar.xz", tmp_path)
    for broker, size in ((1, 3 << 20), (2, 900)):
        entry = f"-rw-r--r-- 1 0 0 {size} Nov 26 22:21 {0:020d}.log"
        (tmp_path / f"capture-1/node-{broker}/listing-logdir0.txt").write_text(f"/data/safe-0:\ntotal 4\n{entry}\n")
    (tmp_path / "capture-1/node-3/listing-logdir0.txt").write_text("/data/safe-0:\ntotal 4\n-rw-r--r-- 1 0\n")
    lake = judged_lake(tmp_path / "lake", tmp_path / "capture-1")
    facts = [fact.split(" (listing of 20")[0] for fact in steps_of(lake)["copy"]["facts"] if "A copy takes" in fact]
    assert [fact.partition(" for ")[0] for fact in facts] == [
        "A copy takes about 3.0 MiB on node 1",
        "A copy takes about 900 B on node 2",
    ]
    (bad,) = lake.rows("quarantine", None, ("path", "reason"))
    assert bad == {"path": "node-3/listing-logdir0.txt", "reason": "bad_listing"}


def test_logs_that_were_read_before_there_was_no_leader_say_nothing(lake: Lake, tmp_path: Path) -> None:
    """They may have grown since, so the lists in the metadata decide."""
    (cluster,) = lake.clusters()
    rows = lake.read("partition_history", cluster)
    at = rows.schema.get_field_index("timestamp_ms")
    read_ms = pc.max(lake.read("log_end_offsets", cluster, ("captured_at_ms",))["captured_at_ms"]).as_py()
    later = rows.set_column(at, rows.schema.field(at), pa.array([read_ms + 1] * len(rows), pa.int64()))
    made = Lake(shutil.copytree(Path(str(lake.root)), tmp_path / "lake"))
    made.put("partition_history", cluster, later)
    steps = steps_of(made)
    assert [text for text in steps["start"]["commands"] if "--topic safe " in text] == []
    assert "safe-0" in steps["no_unclean_election"]["places"]
