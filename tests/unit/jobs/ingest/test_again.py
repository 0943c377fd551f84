"""Captures that share a log, in any form and order, one after the other without Spark: each record is stored once."""

import gzip
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.capture.files import open_capture
from evidence.metadata_log.scan import scan_files
from jobs.config.settings import load_settings
from jobs.ingest.log_batches import Keys, in_order, keys_of, places_of
from jobs.ingest.records import RECORDS, overlap, plan_records
from jobs.ingest.stage import Ingested, ingest
from jobs.lake.data_files import DataFile
from jobs.lake.lake import Lake
from jobs.lake.row_groups import Slices
from jobs.lake.tables import TABLES
from jobs.replay.stage import replay
from replay.cluster.branches import Holders
from tests.support import writer
from tests.support.facts import EVIDENCE, digests, facts
from tests.support.paths import ORACLE, controllers, rounds, unpacked
from tests.support.small_captures import SEGMENT, diverged, write_files

Row = dict[str, Any]
# A row has the capture and the file that were ingested first.
ORIGIN = ("capture", "path", "sha256", "position")
BATCH = ("epoch", "batch_base_offset", "batch_crc")


class CountingLake(Lake):
    """committed: of metadata_records, as (files added, files removed)."""

    committed: list[tuple[list[DataFile], list[DataFile]]]

    def commit(
        self, name: str, cluster_id: str, add: Iterable[DataFile], remove: Iterable[DataFile] = (), **options: Any
    ) -> None:
        add, remove = list(add), list(remove)
        if name == RECORDS:
            self.committed.append((add, remove))
        super().commit(name, cluster_id, add, remove, **options)


def ingested(lake: Lake, capture: Path) -> Ingested:
    if isinstance(lake, CountingLake):
        lake.committed = []
    return ingest(lake, capture, load_settings(), lambda _: None)


def records(lake: Lake, *without: str) -> list[Row]:
    """All records in the order of their key, without their origin."""
    (cluster,) = lake.clusters()
    names = [n for n in TABLES[RECORDS].file_schema.names if n not in (*ORIGIN, *without)]
    rows = lake.rows(RECORDS, cluster, names)
    return sorted(rows, key=lambda r: (r["epoch"], r["offset"], r["batch_crc"]))


def segment(folder: Path, node: int, *batches: bytes) -> Path:
    """A controller's folder with one segment."""
    home = folder / "controllers" / str(node)
    (home / "__cluster_metadata-0").mkdir(parents=True)
    (home / "meta.properties").write_text(f"version=1\ncluster.id=a-cluster\nnode.id={node}\n")
    (home / SEGMENT).write_bytes(b"".join(batches))
    return folder


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int]:
    return diverged(tmp_path_factory.mktemp("captures"))


@pytest.fixture(scope="module")
def at_once(captures: tuple[Path, Path, int], tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("at-once"))
    ingested(lake, captures[0])
    return lake


def test_a_second_capture_adds_its_own_records_and_corrects_the_others_in_the_same_commit(
    captures: tuple[Path, Path, int], at_once: Lake, tmp_path: Path
) -> None:
    whole, alone, broken = captures
    lake = CountingLake(tmp_path / "lake")
    first = ingested(lake, alone)
    (cluster,) = lake.clusters()
    (old,) = lake.files(RECORDS, cluster)
    assert {row["commit_state"] for row in records(lake)} == {"unknown"}
    known = {tuple(row[n] for n in BATCH) for row in records(lake)}
    with open_capture(whole) as capture:
        plan = plan_records(lake, cluster, scan_files(capture.files))
    planned = set(zip(*(column.tolist() for column in keys_of(plan.new.heads)), strict=True))
    assert planned.isdisjoint(known)
    assert plan.doubtful.heads["base_offset"].tolist() == [broken]
    second = ingested(lake, whole)
    ((added, removed),) = lake.committed
    assert removed == [old]
    # The new records; and the file that held the old ones, written again.
    assert [file.rows for file in added] == [second.added[RECORDS], first.added[RECORDS]]
    with lake.storage.open(f"{RECORDS}/{added[0].path}") as source:
        new = pq.read_table(source).to_pylist()
    assert {tuple(row[n] for n in BATCH) for row in new} == planned
    assert {row["commit_state"] for row in records(lake)} == {"committed", "uncommitted"}
    assert records(lake) == records(at_once)


def test_a_capture_that_is_known_adds_nothing(captures: tuple[Path, Path, int], at_once: Lake, tmp_path: Path) -> None:
    shutil.copytree(Path(str(at_once.storage.root)), tmp_path / "lake")
    lake = CountingLake(tmp_path / "lake")
    assert ingested(lake, captures[0]).added == {}
    assert {name: lake.version(name) for name in TABLES} == {name: at_once.version(name) for name in TABLES}
    # A part of it, under another name: the damage of its own file is new.
    part = ingested(lake, captures[1]).added
    assert {name for name, count in part.items() if count} == {"captures", "evidence_files", "quarantine"}
    shutil.copytree(captures[0], tmp_path / "renamed")
    again = ingested(lake, tmp_path / "renamed").added
    assert {name for name, count in again.items() if count} == {"captures", "evidence_files"}
    changed = {name for name in TABLES if lake.version(name) != at_once.version(name)}
    assert changed == {"captures", "evidence_files", "quarantine"}
    assert records(lake) == records(at_once)


@pytest.fixture(scope="module")
def of_bytes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Lake]:
    """A controller's folder, and a lake of it."""
    folder = tmp_path_factory.mktemp("elr")
    home = controllers("elr", folder) / "controllers" / "3000"
    lake = Lake(folder / "lake")
    ingested(lake, home)
    return home, lake


@pytest.mark.parametrize("lost", [(5,), (9, 28, 29, 200)])
def test_a_batch_of_which_the_lake_has_only_some_records_is_completed(
    lost: tuple[int, ...], of_bytes: tuple[Path, Lake], tmp_path: Path
) -> None:
    """kafka-dump-log's text without some lines, then the log's bytes."""
    home, expected = of_bytes
    text = gzip.decompress((ORACLE / "elr-3000-dump-log.txt.gz").read_bytes()).decode()
    cut = [line for line in text.splitlines() if not line.startswith(tuple(f"| offset: {n} " for n in lost))]
    assert len(text.splitlines()) - len(cut) == len(lost)
    dump = tmp_path / "dump" / "controllers" / "3000"
    dump.mkdir(parents=True)
    shutil.copy(home / "meta.properties", dump)
    (dump / "dump.txt").write_text("\n".join(cut) + "\n")
    lake = Lake(tmp_path / "lake")
    ingested(lake, tmp_path / "dump")
    held = {row["offset"] for row in records(lake)}
    assert held.isdisjoint(lost)
    assert {row["offset"] for row in records(expected)} == {*held, *lost}
    assert ingested(lake, home).added[RECORDS] == len(lost)
    assert records(lake, "payload", "commit_state") == records(expected, "payload", "commit_state")
    assert ingested(lake, home).added == {}


def copies(*offsets: int) -> list[bytes]:
    """Equal batches of three records. A CRC does not cover the offset, so they have the same one."""
    return [writer.batch([writer.no_op()] * 3, base_offset=offset) for offset in offsets]


HEAD = [writer.control_batch(writer.LEADER_CHANGE, writer.leader_change()), writer.batch([writer.no_op()] * 9, 1)]


@pytest.mark.parametrize("together", [True, False], ids=["at once", "one after the other"])
def test_overlapping_batches_with_equal_crcs_are_stored_once(together: bool, tmp_path: Path) -> None:
    """Offsets 10 to 12 in one log, 12 to 14 with the same bytes in another, which has other records at 10 and 11."""
    lake = Lake(tmp_path / "lake")
    folders = [tmp_path / "both"] * 2 if together else [tmp_path / "a", tmp_path / "b"]
    segment(folders[0], 3000, *HEAD, *copies(10))
    segment(folders[1], 3001, *HEAD, writer.batch([writer.no_op()] * 2, 10), *copies(12))
    for folder in dict.fromkeys(folders):
        ingested(lake, folder)
    found = Counter((r["epoch"], r["batch_crc"], r["offset"]) for r in records(lake))
    assert set(found.values()) == {1}
    assert sorted(offset for _, _, offset in found) == sorted([*range(15), 10, 11])
    again = shutil.copytree(folders[-1], tmp_path / "again")
    assert ingested(lake, again).added[RECORDS] == 0
    assert len(records(lake)) == 17


def test_a_renamed_capture_that_names_no_cluster_is_of_the_one_that_has_its_log(tmp_path: Path) -> None:
    lake, log = Lake(tmp_path / "lake"), b"".join(HEAD)
    first, again = (ingested(lake, write_files(tmp_path / name, {SEGMENT: log})) for name in ("first", "again"))
    assert (first.cluster_id, first.added[RECORDS]) == ("unknown-first", 10)
    assert (again.cluster_id, again.added[RECORDS]) == ("unknown-first", 0)


def test_the_same_boot_id_read_again_is_another_reading(tmp_path: Path) -> None:
    """Two rounds of `collect` name its file alike: only the times of both show that the machine ran in between."""
    lake = Lake(tmp_path / "lake")
    for round_, at_ms in (("first", 1_000), ("second", 61_000)):
        capture = segment(tmp_path / round_, 1, writer.batch([writer.no_op()], 0, 1))
        home = capture / "controllers" / "1"
        (home / "boot_id").write_text("0d7a5f5c-6b1c-4b2e-9c55-0d1f6b3a1c11\n")
        (capture / "capture.json").write_text(f'{{"captured_at": {at_ms}}}')
        for _ in range(2):  # the second time, nothing is new
            ingested(lake, capture)
    (cluster,) = lake.clusters()
    readings = lake.rows("boot_ids", cluster, ("node_id", "captured_at_ms"))
    assert sorted((r["node_id"], r["captured_at_ms"]) for r in readings) == [(1, 1_000), (1, 61_000)]


def test_the_many_files_of_a_large_log_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with the bounds of its own offsets."""
    source = controllers("elr", tmp_path)
    plain, lake = Lake(tmp_path / "plain"), CountingLake(tmp_path / "merged")
    ingested(plain, source)
    monkeypatch.setattr("jobs.ingest.records._LEAST_BYTES", 500)
    monkeypatch.setattr("jobs.ingest.records._MOST_BYTES", 500)
    monkeypatch.setattr("jobs.ingest.records._MOST_FILES", 3)
    monkeypatch.setattr("jobs.ingest.records._FILES_MERGED", 4)
    monkeypatch.setattr("jobs.lake.row_groups._ROWS_A_SLICE", 20)
    monkeypatch.setenv("KRAFT_FORENSICS_REPLAY__ROWS_PER_BUCKET", "5")
    ingested(lake, source)
    assert records(lake) == records(plain)
    ((files, removed),) = lake.committed
    assert len(files) > 1
    assert not removed
    assert {file.path for file in files} == {path.name for path in (tmp_path / "merged" / RECORDS).glob("*.parquet")}
    for file in files:
        rows = pq.ParquetFile(tmp_path / "merged" / RECORDS / file.path).read(["offset"])["offset"].to_pylist()
        assert (file.rows, file.lowest, file.highest) == (len(rows), min(rows), max(rows))
    assert Slices(lake.storage, [f"{RECORDS}/{file.path}" for file in files]).count == 64
    assert sorted(file.lowest for file in files) == [file.lowest for file in files]


NODES = ("3000", "3001")
ROUNDS = 2


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A subset of the real capture: two controllers, two rounds of two brokers, the tools' output, and a manifest that
    can be copied into every piece of it."""
    every = rounds("unclean")
    wanted = [f"{chosen}/broker-{b}" for chosen in every[:: len(every) // ROUNDS][:ROUNDS] for b in (1, 3)]
    wanted += ["cli", *(f"controllers/{node}" for node in NODES)]
    folder = unpacked("unclean", tmp_path_factory.mktemp("part"), *wanted)
    (folder / "capture.toml").write_text('cluster_id = "the-one"\n')
    for meta in folder.rglob("meta.properties"):
        lines = meta.read_text().splitlines(keepends=True)
        meta.write_text("".join(line for line in lines if not line.startswith("cluster.id")))
    for status in folder.rglob("*quorum-status*"):
        status.unlink()
    return folder


def lake_of(root: Path, captures: Iterable[Path]) -> Lake:
    lake = Lake(root)
    for capture in captures:
        ingest(lake, capture, load_settings(), lambda _: None)
    return lake


@pytest.fixture(scope="module")
def whole(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return lake_of(tmp_path_factory.mktemp("whole") / "lake", [files])


def test_the_subset_has_every_kind_of_evidence(whole: Lake) -> None:
    empty = {name for name in EVIDENCE if not facts(whole, name)}
    assert empty <= {"static_configs", "quorum_reports"}


def test_an_archive_ingested_three_times_equals_the_folder(files: Path, whole: Lake, tmp_path: Path) -> None:
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w") as zipped:
        for file in sorted(files.rglob("*"), reverse=True):
            if file.is_file():
                zipped.write(file, file.relative_to(files))
    copies = [packed, tmp_path / "b.zip", tmp_path / "c.zip"]
    for copy in copies[1:]:
        shutil.copy(packed, copy)
    assert digests(lake_of(tmp_path / "lake", copies)) == digests(whole)


def test_pieces_in_any_order_equal_the_whole(files: Path, whole: Lake, tmp_path: Path) -> None:
    """Ingests three captures of random files that overlap and together have all files."""
    random = Random(1)
    pieces = [tmp_path / name for name in "abc"]
    for file in files.rglob("*"):
        if not file.is_file():
            continue
        # Files that identify a node or topic go into every piece.
        identifies = file.name in ("capture.toml", "meta.properties", "partition.metadata")
        for piece in pieces if identifies else random.sample(pieces, random.choice((1, 1, 2))):
            target = piece / file.relative_to(files)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    random.shuffle(pieces)
    assert digests(lake_of(tmp_path / "lake", pieces)) == digests(whole)


def test_the_text_of_kafka_dump_log_gives_the_same_facts_as_the_bytes(tmp_path: Path) -> None:
    """Ingests one controller's segment and snapshot, first as files and then as printed by kafka-dump-log."""
    log = Path("controllers/3000/__cluster_metadata-0")
    source = controllers("unclean", tmp_path / "unclean") / log
    for name in ("00000000000000000000.log", "00000000000000000248-0000000001.checkpoint"):
        for form in ("bytes", "text"):
            (tmp_path / form / log).mkdir(parents=True, exist_ok=True)
            (tmp_path / form / "capture.toml").write_text('cluster_id = "the-one"\n')
        shutil.copy(source / name, tmp_path / "bytes" / log / name)
        printed = "unclean-3000-" + (name + "." if name.endswith("checkpoint") else "") + "dump-log.txt.gz"
        text = gzip.decompress((ORACLE / printed).read_bytes())
        (tmp_path / "text" / log / name).with_suffix(".txt").write_bytes(text)
    both = [lake_of(tmp_path / f"{form}-lake", [tmp_path / form]) for form in ("bytes", "text")]
    assert len(facts(both[0], "metadata_records")) > 300
    assert digests(both[1]) == digests(both[0])
    histories = []
    for lake in both:
        replay(lake, "the-one", load_settings(), lambda _: None)
        histories.append(facts(lake, "partition_history"))
    assert histories[0] == histories[1] != []


Key = tuple[int, int, int]
# Few values, so that keys have parts in common; and the largest.
KEYS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 2, 2**31 - 1]),
        st.sampled_from([0, 1, 5, 6, 2**63 - 1]),
        st.sampled_from([0, 7, 2**32 - 1]),
    )
)
HELD = st.lists(st.lists(st.sampled_from([1, 2, 3000]), max_size=3), max_size=12)


def columns(keys: list[Key]) -> Keys:
    types = (np.int32, np.int64, np.int64)
    epoch, base, crc = (np.array([key[n] for key in keys], dtype=of) for n, of in enumerate(types))
    return epoch, base, crc


@given(KEYS, KEYS.map(lambda keys: list(dict.fromkeys(keys))))
def test_places_of_keys(keys: list[Key], among: list[Key]) -> None:
    for own in (keys, among, among[: len(keys)]):  # some keys; all of them; the first ones
        assert places_of(columns(own), columns(among)).tolist() == [among.index(k) if k in among else -1 for k in own]


@given(KEYS)
def test_keys_in_order(keys: list[Key]) -> None:
    order = in_order(columns(keys))
    assert ([keys[n] for n in order] if order is not None else keys) == sorted(keys)


@given(HELD, st.integers(0, 3))
def test_holders_of_a_column_are_those_of_its_rows(nodes: list[list[int]], first: int) -> None:
    column = pa.chunked_array([pa.array(part, pa.list_(pa.int32())) for part in (nodes[:5], nodes[5:])]).slice(first)
    found, own = Holders.of_column(column), [tuple(each) for each in nodes[first:]]
    assert list(found.sets) == list(dict.fromkeys(own))
    assert [found.nodes(row) for row in range(len(found.of))] == own


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([(1, 5, 10), (1, 5, 13), (1, 5, 7)], False),
        ([(1, 5, 10), (1, 5, 12)], True),
        ([(1, 5, 10), (1, 5, 8), (1, 5, 20)], True),
        ([(1, 5, 10), (1, 5, 10)], True),
        ([(1, 5, 10), (2, 5, 10), (1, 6, 10)], False),
    ],
)
def test_copies_whose_offset_was_altered_may_claim_an_offset_twice(
    batches: list[tuple[int, int, int]], expected: bool
) -> None:
    """batches: epoch, CRC, which does not cover the offset, and first offset, of three records each."""
    epoch, crc, first = np.array(batches).T
    assert overlap(epoch, crc, first, first + 2) is expected
