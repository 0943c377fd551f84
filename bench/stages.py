"""One stage of the pipeline timed in a process of its own: `python -m bench.stages STAGE LOG RUNS WORK` prints JSON.

The first of the runs is the cold one: nothing was compiled, loaded or warmed before it in that process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.policies import random_cases
from evidence.capture import open_capture
from evidence.columnar import decode_arrow
from evidence.decode import ByteRange, work_of
from evidence.segments import scan_files
from replay.cluster import ClusterState, changes_that_count, log_shape, resolve_cluster
from replay.history import CHANGES, build_history
from replay.lists import PAD
from replay.partition_change import Cases, predict
from replay.profiles import PROFILES

_SCALAR_ROWS = 50_000
_CASES = 1_000_000
_SCALAR_CASES = 20_000
_PROFILE = PROFILES["4.3"]


class Inputs:
    """What the stages work on; each part is made when it is first asked for, outside of what is timed."""

    def __init__(self, log: Path, work: Path) -> None:
        self.log = log
        self.work = work

    def ranges(self) -> list[ByteRange]:
        with open_capture(self.log) as capture:
            return work_of(scan_files(capture.files))

    def records(self) -> pa.Table:
        data = self.log.read_bytes()
        return pa.Table.from_batches([b for r in self.ranges() for b in decode_arrow(data, r, "bench")])

    def changes(self) -> tuple[pa.Table, ClusterState]:
        """The partition records as CHANGES rows, and the cluster that they belong to."""
        with open_capture(self.log) as capture:
            batches = scan_files(capture.files).batches
        rows = [
            {"epoch": d.batch.epoch, "base_offset": d.batch.base_offset, "last_offset": d.batch.last_offset}
            | {"crc": d.batch.crc, "path": d.file.path, "nodes": [3000]}
            for d in batches
        ]
        records = self.records()
        other = records.filter(records["partition_change"].is_null()).to_pylist()
        logged = [{**r, "data": json.loads(r["payload"])} for r in other]
        state = resolve_cluster(log_shape(rows, []), logged, [], {})
        kept = records.filter(records["partition_change"].is_valid())
        change = kept["partition_change"].combine_chunks()
        columns = dict(zip([f.name for f in change.type], change.flatten(), strict=True))
        columns |= {"controller_epoch": kept["epoch"], "full": pa.compute.equal(kept["type"], "PARTITION_RECORD")}
        columns["origin"] = pa.array(["log"]).take(pa.array(np.zeros(len(kept), dtype=np.int64)))
        columns |= {name: kept[name] for name in CHANGES.names if name not in columns}
        table = pa.table({f.name: columns[f.name].cast(f.type) for f in CHANGES}, schema=CHANGES)
        return changes_that_count(table, state), state

    def history(self) -> pa.Table:
        changes, state = self.changes()
        return build_history(changes, state.topic_events, state.context).table

    def parquet(self) -> Path:
        file = self.work / "history.parquet"
        if not file.exists():
            pq.write_table(self.history(), file)
        return file


def _read(inputs: Inputs) -> tuple[Callable[[], object], int]:
    return inputs.log.read_bytes, 0


def _sha256(inputs: Inputs) -> tuple[Callable[[], object], int]:
    data = inputs.log.read_bytes()
    return lambda: sha256(data).digest(), 0


def _frame(inputs: Inputs) -> tuple[Callable[[], object], int]:
    def frame() -> None:
        with open_capture(inputs.log) as capture:
            scan_files(capture.files)

    return frame, 0


def _decode(inputs: Inputs) -> tuple[Callable[[], object], int]:
    data, ranges = inputs.log.read_bytes(), inputs.ranges()

    def decode() -> int:
        return sum(len(batch) for r in ranges for batch in decode_arrow(data, r, "bench"))

    return decode, -1


def _reduce(inputs: Inputs) -> tuple[Callable[[], object], int]:
    changes, state = inputs.changes()
    return lambda: build_history(changes, state.topic_events, state.context), len(changes)


def _sort(inputs: Inputs) -> tuple[Callable[[], object], int]:
    """The floor of reducing: a history has to put its records in order."""
    changes, _ = inputs.changes()
    topic = changes["topic_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    keys = (changes["offset"].to_numpy(), changes["partition"].to_numpy(), topic)
    return lambda: np.lexsort(keys), len(changes)


def _scalar(inputs: Inputs) -> tuple[Callable[[], object], int]:
    """The plain reducer that the tests hold the vectorised one to, on a part of the log."""
    from tests.support.scalar_reducer import reduce_rows

    changes, state = inputs.changes()
    rows = changes.slice(0, _SCALAR_ROWS).to_pylist()
    events = state.topic_events.to_pylist()
    return lambda: reduce_rows(rows, events), len(rows)


def _parquet(inputs: Inputs) -> tuple[Callable[[], object], int]:
    """The floor of writing: the same rows as one Parquet file, by one core, without Spark."""
    table = pq.read_table(inputs.parquet())
    return lambda: pq.write_table(table, inputs.work / "floor.parquet"), len(table)


def _write(inputs: Inputs) -> tuple[Callable[[], object], int]:
    from jobs.lake import Lake
    from jobs.session import build_session
    from jobs.settings import load_settings

    file = inputs.parquet()
    lake = Lake(build_session(load_settings().spark), inputs.work / "write-lake")
    lake.create()
    rows = lake.spark.read.parquet(str(file)).selectExpr("'bench' as cluster_id", "*")
    return lambda: lake.replace("partition_history", "bench", rows), pq.read_metadata(file).num_rows


def _policies(inputs: Inputs) -> tuple[Callable[[], object], int]:
    """What a controller decides: one profile's records for random cases, not those of the log."""
    cases = random_cases(_CASES, seed=1)
    return lambda: predict(cases, _PROFILE), _CASES


def _copy(inputs: Inputs) -> tuple[Callable[[], object], int]:
    """The floor of deciding: every state and trigger has to be read."""
    cases = random_cases(_CASES, seed=1)
    columns = [getattr(cases, field.name) for field in fields(Cases)]
    return lambda: [column.copy() for column in columns], _CASES


def _scalar_policies(inputs: Inputs) -> tuple[Callable[[], object], int]:
    """The plain builder that the tests hold the vectorised one to."""
    from tests.support.scalar_builder import Case, build

    cases = random_cases(_SCALAR_CASES, seed=1)
    columns = [getattr(cases, field.name).tolist() for field in fields(Case)]
    lists = [[[v for v in row if v != PAD] for row in c] if isinstance(c[0], list) else c for c in columns]
    rows = [Case(*row) for row in zip(*lists, strict=True)]
    return lambda: [build(case, _PROFILE) for case in rows], _SCALAR_CASES


STAGES: dict[str, Callable[[Inputs], tuple[Callable[[], object], int]]] = {
    "read": _read,
    "sha256": _sha256,
    "frame": _frame,
    "decode": _decode,
    "reduce": _reduce,
    "sort": _sort,
    "scalar": _scalar,
    "parquet": _parquet,
    "write": _write,
    "policies": _policies,
    "copy": _copy,
    "scalar-policies": _scalar_policies,
}


def measure(stage: str, log: Path, runs: int, work: Path) -> dict[str, Any]:
    """{"seconds": one for each run, "rows": what a run works on, "peak_mib": of this process}."""
    timed, rows = STAGES[stage](Inputs(log, work))
    seconds: list[float] = []
    found: object = None
    for _ in range(runs):
        begin = time.perf_counter()
        found = timed()
        seconds.append(time.perf_counter() - begin)
    counted = found if rows < 0 and isinstance(found, int) else rows
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"stage": stage, "seconds": seconds, "rows": counted, "peak_mib": peak}


if __name__ == "__main__":
    name, file, times, folder = sys.argv[1:]
    print(json.dumps(measure(name, Path(file), int(times), Path(folder))))
