"""The benchmark's own parts, at small sizes. What it measures is not looked at: nothing here depends on time."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench.prepared import Prepared, files_of, prepare
from evidence.capture.files import open_capture
from evidence.errors import CaptureError
from evidence.metadata_log.inspect import inspect_file
from evidence.offsets.read import read_offsets
from replay.arrow.schemas import CHANGES
from tests.bench.__main__ import COLUMNS, growth, table, with_figures
from tests.bench.inputs import BROKERS, Input, write_offsets
from tests.bench.spark_run import tree_bytes
from tests.bench.stages import STAGES
from tests.support.invoked import invoke
from tests.support.metric_names import NAMES
from tests.support.paths import controllers
from tests.support.pure import changes_of, cluster_state, decode

CHECKPOINT = "*.checkpoint"
OWN = ["read", "sha256", "crc", "frame", "decode", "sort", "reduce"]


def segment(name: str, folder: Path) -> Path:
    """The first segment of a real capture's controller."""
    return sorted(controllers(name, folder).rglob("__cluster_metadata-0/*.log"))[0]


def types_in(file: Path) -> Counter[str]:
    return Counter(row["type"] for row in inspect_file(file))


def timed(file: Path) -> dict[str, dict[str, Any]]:
    result = invoke(["bench", str(file), "--runs", "1", "--format", "json"])
    assert result.exit_code == 0, result.output
    return {row["stage"]: row for row in json.loads(result.stdout)}


def test_bench_goes_through_a_log(tmp_path: Path) -> None:
    log = segment("unclean", tmp_path)
    types = types_in(log)
    rows = timed(log)
    assert list(rows) == OWN
    assert {rows[stage]["rows"] for stage in ("crc", "frame", "decode")} == {types.total()}
    changes = types["PARTITION_RECORD"] + types["PARTITION_CHANGE_RECORD"]
    assert rows["sort"]["rows"] == rows["reduce"]["rows"] == changes > 0
    floors = {stage: row["floor"] for stage, row in rows.items() if row["floor"]}
    assert floors == {"crc": "read", "frame": "sha256", "decode": "sha256", "reduce": "sort"}


def test_bench_does_not_replay_a_snapshot(tmp_path: Path) -> None:
    snapshot = sorted(controllers("unclean", tmp_path).rglob(CHECKPOINT))[-1]
    rows = timed(snapshot)
    assert list(rows) == OWN[:5]
    assert rows["decode"]["rows"] == types_in(snapshot).total()


@pytest.mark.parametrize(("name", "message"), [("notes.txt", "no record of the metadata log"), ("a.tar", "an archive")])
def test_bench_reports_a_file_that_is_not_a_log(name: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text("neither a log nor an archive, whatever its name says\n")
    result = invoke(["bench", str(file)])
    assert isinstance(result.exception, CaptureError)
    assert message in str(result.exception)


def test_bench_needs_neither_spark_nor_tests(tmp_path: Path) -> None:
    log = segment("unclean", tmp_path)
    code = (
        "import sys; from pathlib import Path; from bench.measure import measure; from bench.prepared import prepare;"
        f"log, made = Path({str(log)!r}), Path({str(tmp_path / 'made')!r}); prepare(log, made);"
        f"[measure('bench.stages', stage, log, 1, made) for stage in {OWN!r}]; import bench.own;"
        "print([m for m in ('pyspark', 'delta', 'great_expectations', 'tests') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_prepared_changes_are_those_of_the_job(tmp_path: Path) -> None:
    """Whatever the number of buckets: topics are whole within one."""
    folder = tmp_path / "capture"
    log = segment("churn", folder)
    alone = tmp_path / "alone" / "__cluster_metadata-0" / log.name
    alone.parent.mkdir(parents=True)
    log.rename(alone)
    whole = decode.__wrapped__(alone)
    expected = changes_of(whole, cluster_state(whole)).drop_columns(["capture"])
    order = [("offset", "ascending")]
    for rows_per_bucket in (10**9, 50):
        made = tmp_path / f"made-{rows_per_bucket}"
        environment = {**os.environ, "KRAFT_FORENSICS_REPLAY__ROWS_PER_BUCKET": str(rows_per_bucket)}
        command = [sys.executable, "-m", "bench.prepared", str(alone), str(made)]
        subprocess.run(command, check=True, env=environment)
        buckets = list(Prepared(alone, made).changes())
        topics = [set(bucket["topic_id"].to_pylist()) for bucket in buckets]
        assert sum(map(len, topics)) == len(set().union(*topics))
        found = CHANGES.empty_table()
        found = type(found).from_batches([b for t in buckets for b in t.to_batches()], CHANGES)
        assert found.drop_columns(["capture"]).sort_by(order).equals(expected.sort_by(order))
    assert len(buckets) > 1


def test_every_stage_that_needs_no_jvm_runs_on_a_log(tmp_path: Path) -> None:
    log = segment("elr", tmp_path)
    made = tmp_path / "made"
    prepare(log, made)
    inputs = Prepared(log, made)
    for name in ("detect", "parquet", "write"):
        works = [(work.call(), work.rows) for work in STAGES[name].run(inputs)]
        assert sum(rows for _, rows in works) > 0


def test_offsets_are_the_same_for_the_same_seed_and_are_all_read(tmp_path: Path) -> None:
    values = [write_offsets(tmp_path / name, 40, 3, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert values == [2 * 3 * 40 * 3] * 3
    texts = [[(f.relative_to(tmp_path / n), f.read_bytes()) for f in files_of(tmp_path / n)] for n in "abc"]
    assert texts[0] == texts[1] != texts[2]
    with open_capture(tmp_path / "a") as capture:
        found = read_offsets(capture.name, capture.files, NAMES, 0)
    rows = found.log_end_offsets
    assert len(rows) == values[0]
    assert rows["log_end_offset"].null_count == rows["high_watermark"].null_count == len(rows) / 2
    assert not [path for path, account in found.accounts.items() if account.damage]
    assert len(set(rows["captured_at_ms"].to_pylist())) == 3
    assert set(rows["broker_id"].to_pylist()) <= set(range(BROKERS))


def test_figures_compare_with_the_floor_and_with_other_sizes(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(bytes(3_000_000))
    small, large = Input("p10k", file, 100), Input("p100k", file, 1000)
    took = {"rows": 100, "peak_mib": 10}
    floor = with_figures({"stage": "sha256", "seconds": [2.0, 1.0, 1.0], **took}, small, {})
    seconds = {"stage": "decode", "seconds": [7.0, 2.0, 4.0, 3.0]}
    decoded = with_figures({**seconds, **took}, small, {"sha256": floor})
    alone = with_figures({"stage": "decode", "seconds": [300.0], **took}, large, {})
    assert (alone["median_s"], alone["of_floor"], floor["of_floor"]) == (300, None, None)
    assert growth([decoded, alone]) == [{"stage": "decode", "from": "p10k", "to": "p100k", "exponent": 2}]
    (row,) = table(COLUMNS, [decoded])[2:]
    assert row == "| p10k | decode | 7.000 | 3.000 | 2.000 | 4.000 | 33 | 1.000 | 10 | 3.000 |"


def test_memory_is_that_of_the_whole_tree() -> None:
    """Of a Python process that has started another one."""
    child = "import sys; held = bytearray(64 << 20); print(flush=True); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        held = tree_bytes(process.pid)
        process.communicate(b"")
    assert held >= 64 << 20
    assert tree_bytes(process.pid) == 0
