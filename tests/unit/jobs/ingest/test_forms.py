"""The facts do not depend on the form or the order of the evidence, or on how often it is ingested."""

from __future__ import annotations

import gzip
import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from jobs.config.settings import load_settings
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.replay.stage import replay
from tests.support.facts import EVIDENCE, digests, facts
from tests.support.paths import ORACLE, controllers, rounds, unpacked

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
