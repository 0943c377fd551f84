"""All stages that `make bench` times: those of bench/stages.py, and more of the pipeline."""

from __future__ import annotations

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
from replay.cluster.facts import Clock, ClusterFacts, cluster_facts
from replay.controller.partition_change_builder import (
    ELECT_ONLINE,
    ELECT_PREFERRED,
    ELECT_UNCLEAN,
    RECOVERED,
    UNASSIGNED,
    Cases,
    predict,
)
from replay.controller.profiles import PROFILES
from replay.partitions.reducer import in_order, reduce_state
from replay.whatif.counterfactuals import Question

if TYPE_CHECKING:
    from jobs.lake.data_files import DataFile

_SCALAR_ROWS = 50_000
_CASES, _SCALAR_CASES = 1_000_000, 20_000
_PROFILE = PROFILES["4.3"]
_HISTORY = "partition_history"


def _offsets(inputs: Prepared) -> Iterator[Work]:
    """As in ingest: all files of the capture at once."""
    names = load_settings().metrics.names()
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


def _scalar(inputs: Prepared) -> Iterator[Work]:
    """The plain reducer that the tests compare the vectorised one with, on the first rows of the log."""
    from tests.support.scalar_reducer import reduce_rows

    rows = next(inputs.changes()).slice(0, _SCALAR_ROWS).to_pylist()
    yield Work(partial(reduce_rows, rows, inputs.state().topic_events.to_pylist()), len(rows))


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


def _scalar_policies(inputs: Prepared) -> Iterator[Work]:
    """The plain builder that the tests compare the vectorised one with."""
    from tests.support.scalar_builder import Case, build

    columns = [getattr(_cases(_SCALAR_CASES), field.name).tolist() for field in fields(Case)]
    lists = [[[v for v in row if v != PAD] for row in c] if isinstance(c[0], list) else c for c in columns]
    rows = [Case(*row) for row in zip(*lists, strict=True)]
    yield Work(lambda: [build(case, _PROFILE) for case in rows], _SCALAR_CASES)


STAGES = OWN | {
    "offsets": Stage(_offsets, floor="sha256"),
    "logs": Stage(_logs, floor="sha256"),
    "state": Stage(_state, floor="sort", replays=True),
    "scalar": Stage(_scalar, replays=True),
    "detect": Stage(_detect, floor="sort", replays=True),
    "parquet": Stage(_parquet, replays=True),
    "write": Stage(_write, floor="parquet", replays=True),
    "copy": Stage(_copy),
    "policies": Stage(_policies, floor="copy"),
    "scalar-policies": Stage(_scalar_policies),
}


def facts_of(inputs: Prepared) -> ClusterFacts:
    """The facts of a prepared log, without offsets or static configs."""
    return cluster_facts("bench", inputs.state(), Clock(load_settings().evidence.clock_error_ms), None, {})


def judge(history: pa.Table, facts: ClusterFacts) -> int:
    """Judge a bucket's schemas.PARTITION_HISTORY. Returns the number of findings."""
    settings = load_settings().counterfactuals
    question = Question(settings.deprioritized, settings.min_isr)
    return len(bucket.judge(history, LOG_END_OFFSETS.empty_table(), facts, question)["finding"])


_BROKERS = 60
_REPLICAS = 3
_MIN_ISR = 2


def random_cases(count: int, seed: int) -> Cases:
    """Cases with three replicas, min ISR 2 and ELR: brokers stop and start; one partition in fifty is being
    reassigned."""
    random = np.random.default_rng(seed)
    step = _BROKERS // _REPLICAS
    shape = (count, _REPLICAS)
    replicas = random.integers(step, size=shape) + np.arange(_REPLICAS) * step
    in_sync, alive = random.random(shape) < 0.75, random.random(shape) < 0.75
    isr = _members(replicas, in_sync)
    eligible = ~in_sync & (in_sync.sum(axis=1) < _MIN_ISR)[:, None] & (random.random(shape) < 0.5)
    leaderless = ~in_sync.any(axis=1)
    known = leaderless & ~eligible.any(axis=1)
    moves = (random.random(count) < 0.02)[:, None]
    removing, adding = _members(replicas[:, :1], moves), _members(replicas[:, -1:], moves)
    everywhere = np.ones(count, dtype=bool)
    recovery = np.full(count, RECOVERED)
    return Cases(
        replicas=replicas,
        isr=isr,
        elr=_members(replicas, eligible),
        last_known_elr=_members(replicas[:, :1], known[:, None]),
        removing=removing,
        adding=adding,
        directories=random.integers(UNASSIGNED, 9, size=shape),
        leader=np.where(leaderless, -1, isr[:, 0]),
        recovery=recovery,
        election=random.choice([ELECT_PREFERRED, ELECT_ONLINE, ELECT_UNCLEAN], size=count, p=[0.1, 0.8, 0.1]),
        acceptable=_members(replicas, alive),
        # A broker that stopped leaves the ISR, or one that caught up joins it.
        target_isr=_members(replicas, np.where(random.random((count, 1)) < 0.5, in_sync & alive, in_sync | alive)),
        target_replicas=replicas,
        target_removing=removing,
        target_adding=adding,
        target_recovery=recovery,
        unclean_shutdown=_members(replicas[:, :1], random.random((count, 1)) < 0.05),
        min_isr=np.full(count, _MIN_ISR),
        elr_enabled=everywhere,
        marks_recovery=everywhere,
        bumps_leader_epoch_on_shrink=~everywhere,
        has_directories=everywhere,
    )


def _members(replicas: Array, mask: Array) -> Array:
    order = np.argsort(~mask, axis=1, kind="stable")
    members: Array = np.take_along_axis(np.where(mask, replicas, PAD), order, axis=1)
    return members
