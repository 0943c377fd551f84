"""The heads of replicas' last batches, written by node.sh from real segments, and read again."""

import os
import struct
import tarfile
from pathlib import Path

import pytest

from evidence.offsets.replica_log import read_heads, read_tail
from tests.support import writer
from tests.support.invoked import invoke
from tests.support.nodes import SHELLS, reached_by
from tests.support.paths import capture

SEGMENT = f"{0:020d}.log"
BASE, LENGTH = 0, 8


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real data segments of a broker, as they were found at the end."""
    folder = tmp_path_factory.mktemp("disks")
    with tarfile.open(capture("logs-unclean")) as tar:
        wanted = [m for m in tar if m.isreg() and "/disks/broker-4/" in m.name and not m.name.endswith("boot_id")]
        tar.extractall(folder, members=wanted, filter="data")
    return folder / "logs-unclean" / "disks" / "broker-4"


def collected(folder: Path, out: Path, shell: str = "sh") -> Path:
    via = reached_by(shell, out.with_name("bin"))
    words = ["collect", "--light", "--output", str(out), "--via", via, "--node", f"4=via:x:{folder}"]
    invoke(words)
    return out / "node-4" / "logdir0"


def starts(segment: bytes) -> list[int]:
    """Where batches begin."""
    found = [0]
    while found[-1] < len(segment):
        found.append(found[-1] + 12 + struct.unpack_from(">i", segment, found[-1] + LENGTH)[0])
    assert found[-1] == len(segment)
    return found[:-1]


def one(folder: Path, segment: bytes, index: bytes | None = None, base_offset: int = 0, number: int = 0) -> Path:
    """A log directory with one replica, or with one more. number: of its partition."""
    replica = folder / "data" / f"orders-{number}"
    replica.mkdir(parents=True)
    (folder / "data" / "meta.properties").write_text("node.id=4\ncluster.id=c\n")
    (replica / f"{base_offset:020d}.log").write_bytes(segment)
    if index is not None:
        (replica / f"{base_offset:020d}.index").write_bytes(index)
    return folder / "data"


def real(disks: Path) -> bytes:
    return (disks / "ledger-1" / SEGMENT).read_bytes()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_log_ends_are_those_of_the_whole_segments(shell: str, disks: Path, tmp_path: Path) -> None:
    """And the node is left as it was."""
    before = {p: (p.stat().st_mtime_ns, os.path.getsize(p)) for p in disks.rglob("*")}
    came = collected(disks, tmp_path / "capture", shell)
    assert {p: (p.stat().st_mtime_ns, os.path.getsize(p)) for p in disks.rglob("*")} == before
    segments = [p for p in disks.glob("*-*/*.log") if p.parent.name != "__cluster_metadata-0"]
    assert len(segments) >= 4
    for segment in segments:
        heads = came / segment.relative_to(disks).with_suffix(".heads")
        tail, whole = read_heads(heads.read_bytes(), 0), read_tail(segment, 0)
        assert (tail.log_end_offset, tail.last_written_leader_epoch, tail.damage) == (
            whole.log_end_offset,
            whole.last_written_leader_epoch,
            [],
        )
    assert not list(came.rglob("*.log"))


@pytest.mark.parametrize("shell", SHELLS)
def test_only_heads_behind_the_last_index_entry_come(shell: str, disks: Path, tmp_path: Path) -> None:
    """The index of a running broker is allocated in advance: zeros follow its last entry. Before them stay the entries
    of batches that were cut off (AbstractIndex.truncateToEntries0, 4.3.1)."""
    segment = real(disks)
    at, last = starts(segment), {}
    for entries, cut_off in ((1, 0), (2, 1), (511, 0), (512, 1), (513, 5000), (1024, 0), (5000, 600)):
        place = [at[1 + n * (len(at) - 5) // entries] for n in range(entries)]
        stale = [len(segment) + n * 4096 for n in range(cut_off)]
        index = b"".join(struct.pack(">ii", n + 1, position) for n, position in enumerate([*place, *stale]))
        folder = one(tmp_path, segment, index.ljust(1 << 20, b"\0"), number=entries)
        last[entries] = place[-1]
    came = collected(folder, tmp_path / "capture", shell)
    for entries, begin in last.items():
        heads = (came / f"orders-{entries}" / f"{0:020d}.heads").read_text().splitlines()
        assert [int(line.split()[0]) for line in heads[1:-1]] == [a for a in at if a >= begin]
        assert (heads[0], heads[-1]) == (f"size {len(segment)}", f"end {len(segment)} whole")
        first = heads[1].split()
        assert bytes.fromhex(first[1]) == segment[int(first[0]) : int(first[0]) + 61]


@pytest.mark.parametrize(
    ("change", "end", "batches"),
    [
        (lambda s, at: s, "whole", 0),
        (lambda s, at: s.ljust(len(s) + 100_000, b"\0"), "zeros", 0),
        (lambda s, at: s + s[:30], "torn", 0),
        (lambda s, at: s[:-1], "torn", -1),
        (lambda s, at: s + bytes(40), "torn", 0),
        (lambda s, at: s + b"\1" * 100, "bad", None),
        (lambda s, at: s[: at[3]] + b"\xff" * 20 + s[at[3] :], "bad", None),
        (lambda s, at: b"", "whole", -10_000),
    ],
)
def test_a_batch_counts_if_it_lies_in_the_file(
    change: object, end: str, batches: int | None, disks: Path, tmp_path: Path
) -> None:
    segment = real(disks)
    at = [*starts(segment), len(segment)]
    changed = change(segment, at)  # type: ignore[operator]
    text = (collected(one(tmp_path, changed), tmp_path / "c") / "orders-0" / f"{0:020d}.heads").read_bytes()
    assert text.splitlines()[-1].split()[-1].decode() == end
    tail = read_heads(text, 0)
    if batches is None:
        assert tail.log_end_offset is None
    else:
        ends = [0, *(read_tail(_cut(tmp_path, segment[:a]), 0).log_end_offset for a in at[1:])]
        assert tail.log_end_offset == ends[max(0, len(ends) - 1 + batches)]


def _cut(folder: Path, data: bytes) -> Path:
    (folder / "cut").write_bytes(data)
    return folder / "cut"


def test_of_very_many_batches_the_first_and_the_last_come(tmp_path: Path) -> None:
    batch = writer.batch([b"small"])
    many = b"".join(struct.pack(">q", n * 100) + batch[8:] for n in range(5000))
    text = (collected(one(tmp_path, many), tmp_path / "c") / "orders-0" / f"{0:020d}.heads").read_bytes()
    lines = text.splitlines()
    assert len(lines) == 1 + 4095 + 1 + 1 + 1
    assert lines[-3] == b"skipped 904"
    last = struct.unpack_from(">i", batch, 23)[0]
    assert read_heads(text, 0).log_end_offset == 4999 * 100 + last + 1


def test_of_a_new_segment_the_end_is_its_base_offset(disks: Path, tmp_path: Path) -> None:
    came = collected(one(tmp_path, b"", bytes(1 << 20), 77), tmp_path / "capture")
    assert read_heads((came / "orders-0" / f"{77:020d}.heads").read_bytes(), 77).log_end_offset == 77
