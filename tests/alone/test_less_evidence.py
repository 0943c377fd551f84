"""Evidence taken away from the real captures, file by file and in random parts, never makes a verdict surer."""

import os
import random
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evidence import kinds
from evidence.capture.files import EvidenceFile, open_capture
from replay.bucket import detect
from replay.cluster.facts import ClusterFacts
from tests.support.detection import Found, Parts, claims, cluster_of, slices, spread, with_topic_ids, without_files
from tests.support.paths import unpacked
from tests.support.pure import Decoded, decode, history_of

# A label and the files to take away.
Gone = tuple[str, list[str]]

NAMES = ("unclean", "elr", "churn", "diverge")
# Files that say what others beside them mean: whose they are, which topic's, how the broker stopped.
BESIDE = (kinds.META_PROPERTIES, kinds.PARTITION_METADATA, kinds.CLEAN_SHUTDOWN)
# Random subsets of all files, and of the files of each partition that has windows.
SUBSETS, SUBSETS_OF_A_PARTITION = 3, 15


@dataclass(frozen=True)
class Whole:
    """A capture with all that it has. files: those that are read."""

    root: Path
    files: list[EvidenceFile]
    decoded: Decoded
    history: pa.Table
    rows: pa.Table
    cluster: ClusterFacts
    found: Found


@pytest.fixture(scope="module", params=NAMES)
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root = unpacked(request.param, tmp_path_factory.mktemp("whole"))
    with open_capture(root) as capture:
        files = [f for f in capture.files if f.kind != kinds.OTHER]
    decoded = decode(root)
    history, state = history_of(decoded)
    rows, cluster = with_topic_ids(decoded.offsets, history.table), cluster_of(decoded, state)
    found = Found.of(detect(history.table, rows, cluster))
    return Whole(root, files, decoded, history.table, rows, cluster, found)


def test_one_file_with_offsets_less(whole: Whole) -> None:
    """Every sixteenth one in turn for partitions that have windows; some by chance for the others."""
    check(whole, without_each(whole, lambda paths: [(path, [path]) for path in paths[::16]], with_windows=True))
    check(whole, without_each(whole, lambda paths: [(p, [p]) for p in a_few(paths)], with_windows=False))


def a_few(paths: list[str]) -> list[str]:
    return random.Random(1).sample(paths, min(5, len(paths)))


def test_random_files_of_a_partition_less(whole: Whole) -> None:
    def subsets(paths: list[str]) -> list[Gone]:
        return [random_files(paths, seed) for seed in range(SUBSETS_OF_A_PARTITION)]

    found = without_each(whole, subsets, with_windows=True)
    check(whole, found)
    verdicts = {key: f["verdict"] for key, f in whole.found.windows.items()}
    # A window that all the evidence together explains away counts as excluded.
    less_certain = [
        key for _, less in found for key, f in less.windows.items() if f["verdict"] != verdicts.get(key, "excluded")
    ]
    assert bool(less_certain) == ("proven" in verdicts.values()), "nothing was taken away that mattered"


def without_each(whole: Whole, gone: Callable[[list[str]], list[Gone]], with_windows: bool) -> list[tuple[str, Found]]:
    """What is found of each partition without the files that `gone` chooses among its own."""
    history, rows = slices(whole.history), slices(whole.rows)
    judged = {key[:2] for key in whole.found.windows}
    parts = []
    for place in sorted(history.keys() & rows.keys()):
        if (place in judged) == with_windows:
            paths = sorted(rows[place]["path"].unique().to_pylist())
            parts.append(Parts(history[place], rows[place], whole.cluster, gone(paths)))
    return [pair for found in spread(without_files, parts) for pair in found]


@pytest.mark.parametrize("kind", BESIDE)
def test_one_file_less_that_says_what_others_mean(whole: Whole, tmp_path: Path, kind: str) -> None:
    """It speaks of its folder alone: all of the kind are left out at once, and where that changes what a folder says,
    that one is judged."""
    files = [f for f in whole.files if f.kind == kind and not f.path.startswith("controllers/")]
    folders = {f.path: str(PurePosixPath(f.path).parent) for f in files}
    # With what lies above them, which may have its say, too.
    above = {PurePosixPath(folder).parent for folder in folders.values()}
    paths = {p for folder in above for p in (whole.root / folder).rglob("*") if p.is_file()}
    kept = paths - {whole.root / f.path for f in files}
    again = with_topic_ids(decode.__wrapped__(copied(whole.root, kept, tmp_path)).offsets, whole.history)
    found = []
    for path, folder in folders.items():
        inside, now = below(whole.rows, folder), below(again, folder)
        if not again.filter(now).equals(whole.rows.filter(inside)):
            rows = pa.concat_tables([whole.rows.filter(pc.invert(inside)), again.filter(now)])
            found.append((path, Found.of(detect(whole.history, rows, whole.cluster))))
    check(whole, found)


def below(rows: pa.Table, folder: str) -> pa.ChunkedArray:
    """Which rows are of files in the folder."""
    return pc.starts_with(rows["path"], f"{folder}/")


def test_one_file_of_the_log_or_configs_less(whole: Whole, tmp_path: Path) -> None:
    """Every second one in turn."""
    files = [f for f in whole.files if f.path.startswith("controllers/") or f.kind == kinds.SERVER_PROPERTIES]
    assert len(files) > 20
    check(whole, [(f.path, without(whole, [f.path], tmp_path)) for f in files[::2]])


def test_random_files_less(whole: Whole, tmp_path: Path) -> None:
    gone = [random_files([f.path for f in whole.files], seed) for seed in range(SUBSETS)]
    check(whole, [(label, without(whole, files, tmp_path)) for label, files in gone])


def check(whole: Whole, found: list[tuple[str, Found]]) -> None:
    wrong = [f"without {label}: {text}" for label, less in found for text in claims(less, whole.found)]
    assert not wrong, f"{len(wrong)} claims, among them:\n" + "\n".join(wrong[:50])


def random_files(paths: list[str], seed: int) -> Gone:
    """A share of all, and in some cases one broker's, one kind's or some time's."""
    rng = random.Random(seed)
    share = rng.choice([0.02, 0.1, 0.4, 0.7, 0.95])
    gone = {p for p in paths if rng.random() < share}
    names = [f"{share} by chance"]
    if rng.random() < 0.4:
        name = rng.choice(sorted({PurePosixPath(p).name for p in paths}))
        gone |= {p for p in paths if p.endswith(f"/{name}")}
        names.append(name)
    if rng.random() < 0.4:
        node = rng.choice(["broker-0", "broker-1", "broker-2", "broker-3"])
        gone |= {p for p in paths if f"/{node}/" in p}
        names.append(node)
    if rng.random() < 0.4:
        first, last = sorted(rng.choices([p for p in paths if p.startswith("snapshots/")], k=2))
        gone |= {p for p in paths if first <= p < last}
        names.append(f"{first} to {last}")
    return f"{', '.join(names)} (seed {seed})", sorted(gone)


def without(whole: Whole, gone: list[str], below: Path) -> Found:
    """What is found without some files. Controllers' files and configs are read again, and brokers' disks where one of
    their files is gone; in the rounds of copying no file changes what another one says."""
    away = set(gone)
    folders = ("controllers/", "disks/") if any(p.startswith("disks/") for p in gone) else ("controllers/",)
    again = [f.path for f in whole.files if f.path.startswith(folders) or f.kind == kinds.SERVER_PROPERTIES]
    decoded = decode.__wrapped__(copied(whole.root, [whole.root / p for p in again if p not in away], below))
    history, state = history_of(decoded)
    others = whole.decoded.offsets.filter(~pc.field("path").isin([*again, *gone]))
    rows = with_topic_ids(pa.concat_tables([others, decoded.offsets]), history.table)
    return Found.of(detect(history.table, rows, cluster_of(decoded, state)))


def copied(root: Path, files: Iterable[Path], below: Path) -> Path:
    """A capture of the same name with these files alone."""
    tree = below / root.name
    shutil.rmtree(tree, ignore_errors=True)
    for file in files:
        target = tree / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(file, target)
    return tree
