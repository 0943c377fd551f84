"""All stages that `make bench` times: those of bench/stages.py, and more of the pipeline."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.prepared import CAPTURE, Prepared
from bench.stages import STAGES as OWN
from bench.stages import Stage, Work
from evidence.broker_logs.read import read_broker_logs
from evidence.capture.files import open_capture
from evidence.offsets.read import read_offsets
from evidence.tables import LOG_END_OFFSETS
from jobs.config.settings import load_settings
from jobs.replay.task import reduced
from replay import bucket
from replay.arrow.ragged import PAD, Array
from replay.arrow.sets import empty
from replay.cluster.facts import Clock, ClusterFacts, cluster_facts
from replay.controller.partition_change_builder import RECOVERED, UNASSIGNED, Cases, at_rest, predict
from replay.controller.profiles import PROFILES
from replay.partitions.reducer import in_order, reduce_state
from replay.whatif.counterfactuals import Question

if TYPE_CHECKING:
    from jobs.lake.data_files import DataFile

_CASES = 1_000_000
_PROFILE = PROFILES["4.3"]
_HISTORY = "partition_history"


def _offsets(inputs: Prepared) -> Iterator[Work]:
    """As in ingest: all files of the capture at once."""
    names = load_settings().metrics
    with open_capture(inputs.source) as capture:
        yield Work(lambda: len(read_offsets(capture.name, capture.files, names, 0).log_end_offsets), None)


def _logs(inputs: Prepared) -> Iterator[Work]:
    """As in ingest: a node's own logs."""
    with open_capture(inputs.source) as capture:
        yield Work(
            lambda: sum(lines for lines, _ in read_broker_logs(capture.name, capture.files).counts.values()), None
        )


def _state(inputs: Prepared) -> Iterator[Work]:
    """Only the replayed state: rows are in order, and nothing is derived from it."""
    events = inputs.state().topic_events
    for changes in inputs.changes():
        whole = changes.combine_chunks()
        yield Work(partial(reduce_state, in_order(whole, events)[1], whole), len(whole))


def _histories(inputs: Prepared) -> Iterator[pa.Table]:
    """Each bucket's PARTITION_HISTORY, as the replay stage writes it."""
    state = inputs.state()
    for changes in inputs.changes():
        yield reduced(changes, state)


def _history_files(inputs: Prepared) -> list[Path]:
    """The history as Parquet files."""
    folder = inputs.folder / "history"
    if not folder.exists():
        folder.mkdir()
        for number, history in enumerate(_histories(inputs)):
            pq.write_table(history, folder / f"{number:04d}.parquet")
    return sorted(folder.iterdir())


def _detect(inputs: Prepared) -> Iterator[Work]:
    facts = facts_of(inputs)
    for history in _histories(inputs):
        yield Work(partial(judge, history, facts), len(history))


def _parquet(inputs: Prepared) -> Iterator[Work]:
    """The floor of write: the same rows as Parquet files, on one core."""
    for file in _history_files(inputs):
        table = pq.read_table(file)
        yield Work(partial(pq.write_table, table, inputs.folder / "floor.parquet"), len(table))


def _write(inputs: Prepared) -> Iterator[Work]:
    """As in replay, without its tasks: files sliced by topic, then one commit."""
    from jobs.lake.data_files import write_file
    from jobs.lake.lake import Lake

    lake = Lake(inputs.folder / "write-lake")
    lake.create()
    files: list[DataFile] = []
    for file in _history_files(inputs):
        table = pq.read_table(file)
        yield Work(partial(lambda rows: files.append(write_file(lake.storage, _HISTORY, rows)), table), len(table))
    yield Work(lambda: lake.replace(_HISTORY, CAPTURE, files))


@cache
def _cases(count: int) -> Cases:
    return random_cases(count, seed=1)


def _policies(inputs: Prepared) -> Iterator[Work]:
    """The controller's decisions: one profile's records for random cases, not those of a log."""
    yield Work(partial(predict, _cases(_CASES), _PROFILE), _CASES)


def _copy(inputs: Prepared) -> Iterator[Work]:
    """The floor of policies: each state and trigger must be read."""
    columns = [getattr(_cases(_CASES), field.name) for field in fields(Cases)]
    yield Work(lambda: [column.copy() for column in columns], _CASES)


STAGES = OWN | {
    "offsets": Stage(_offsets, floor="sha256"),
    "logs": Stage(_logs, floor="sha256"),
    "state": Stage(_state, floor="sort", replays=True),
    "detect": Stage(_detect, floor="sort", replays=True),
    "parquet": Stage(_parquet, replays=True),
    "write": Stage(_write, floor="parquet", replays=True),
    "copy": Stage(_copy),
    "policies": Stage(_policies, floor="copy"),
}


def facts_of(inputs: Prepared) -> ClusterFacts:
    """The facts of a prepared log, without offsets or static configs."""
    return cluster_facts("bench", inputs.state(), Clock(load_settings().evidence.clock_error_ms), None)


def judge(history: pa.Table, facts: ClusterFacts) -> int:
    """Judge a bucket's schemas.PARTITION_HISTORY. Returns the number of findings."""
    settings = load_settings().counterfactuals
    question = Question(settings.deprioritized, settings.min_isr)
    return len(bucket.judge(history, LOG_END_OFFSETS.empty_table(), facts, question)["finding"])


_REPLICAS, _STEP = 3, 20


def random_cases(count: int, seed: int) -> Cases:
    """Cases with three replicas, min ISR 2 and ELR: brokers stop and start."""
    random = np.random.default_rng(seed)
    replicas = random.integers(_STEP, size=(count, _REPLICAS)) + np.arange(_REPLICAS) * _STEP
    in_sync, alive = random.random((2, *replicas.shape)) < 0.75
    isr, none, everywhere = _members(replicas, in_sync), empty(replicas), np.ones(count, dtype=bool)
    eligible = ~in_sync & (in_sync.sum(axis=1) < 2)[:, None] & (random.random(replicas.shape) < 0.5)
    leaderless = ~in_sync.any(axis=1)
    return at_rest(
        _members(replicas, alive),
        min_isr=np.full(count, 2),
        replicas=replicas,
        isr=isr,
        elr=_members(replicas, eligible),
        last_known_elr=_members(replicas[:, :1], (leaderless & ~eligible.any(axis=1))[:, None]),
        removing=none,
        adding=none,
        directories=random.integers(UNASSIGNED, 9, size=replicas.shape),
        leader=np.where(leaderless, -1, isr[:, 0]),
        recovery=np.full(count, RECOVERED),
        elr_enabled=everywhere,
        marks_recovery=everywhere,
        bumps_leader_epoch_on_shrink=~everywhere,
        has_directories=everywhere,
    )


def _members(replicas: Array, mask: Array) -> Array:
    order = np.argsort(~mask, axis=1, kind="stable")
    members: Array = np.take_along_axis(np.where(mask, replicas, PAD), order, axis=1)
    return members
