"""Captures: the same evidence whatever it is packed in, and nothing that an archive should not be able to do."""

import gzip
import hashlib
import io
import os
import resource
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.capture.archive import unpack
from evidence.capture.blocks import Held
from evidence.capture.files import Capture, capture_name, check_location, open_capture
from evidence.errors import CaptureError
from evidence.limits import Limits
from tests.support import writer
from tests.support.golden import cases
from tests.support.small_captures import write_files
from tests.unit.evidence.accounting import FUZZ

LOG = b"".join(writer.log())
SEGMENT = "controllers/3000/__cluster_metadata-0/00000000000000000000.log"
FILES = {SEGMENT: LOG, "controllers/3000/meta.properties": b"cluster.id=c1\nnode.id=3000\n", "notes.txt": b"hello"}
TAR_MODES = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.xz": "w:xz", ".txz": "w:xz"}
PACKINGS = [*TAR_MODES, ".zip"]


def pack(folder: Path, suffix: str, inside: str = "") -> Path:
    """The folder as an archive next to it. inside: the folder in the archive that holds the files."""
    archive = folder.parent / f"packed{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            for path in sorted(folder.rglob("*")):
                zipped.write(path, os.path.join(inside, path.relative_to(folder)))
    else:
        with tarfile.open(archive, TAR_MODES[suffix]) as tar:
            tar.add(folder, inside or ".", filter=lambda member: member.replace(mtime=1_795_000_000, deep=False))
    return archive


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def info(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def identity(capture: Capture) -> list[tuple[object, ...]]:
    return [(f.path, f.sha256, f.kind, f.size_bytes, f.node_id, f.captured_at_ms) for f in capture.files]


def opened(location: Path) -> Capture:
    with open_capture(location) as capture:
        return capture


@pytest.mark.parametrize("inside", ["", "unclean"])
@pytest.mark.parametrize("suffix", PACKINGS)
def test_a_capture_is_the_same_packed_and_unpacked(suffix: str, inside: str, tmp_path: Path, own_temp: Path) -> None:
    folder = write_files(tmp_path / "capture", FILES)
    capture = opened(pack(folder, suffix, inside))
    assert (capture.name, capture.cluster_id, capture.refused) == ("packed", "c1", [])
    assert identity(capture) == identity(opened(folder))
    assert [f.path for f in capture.files] == sorted(FILES)


@pytest.mark.parametrize("suffix", [".tar", ".zip"])
def test_an_archive_in_a_capture_is_no_output_of_a_tool(suffix: str, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "capture", {"kafka-topics.txt": "orders:0:5\norders:1:7\norders:2:9\n" * 200})
    inner = pack(folder, suffix)
    if suffix == ".zip":
        with zipfile.ZipFile(inner, "w", zipfile.ZIP_STORED) as zipped:
            zipped.write(folder / "kafka-topics.txt")
    (outer := tmp_path / "outer").mkdir()
    inner.rename(outer / f"node1{suffix}")
    capture = opened(outer)
    assert [f.kind for f in capture.files] == ["other"]
    assert capture.refused == [
        (f"node1{suffix}", "packed inside the capture: not opened. Unpack it, or name it as well")
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("00000000000000000000.log", "metadata_segment"),
        ("copied-somewhere.bin", "metadata_segment"),
        ("00000000000000000009-0000000001.checkpoint", "metadata_checkpoint"),
    ],
)
def test_a_single_file_is_a_capture(name: str, kind: str, tmp_path: Path) -> None:
    capture = opened(write_files(tmp_path, {name: LOG}) / name)
    (file,) = capture.files
    assert (file.path, file.kind, file.node_id, capture.cluster_id) == (name, kind, None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.tar", "a"), ("a.tar.gz", "a"), ("a.b.tgz", "a.b"), ("A.TAR.XZ", "A"), ("a.zip", "a"), ("0.log", "0.log")],
)
def test_a_captures_name_is_its_files_without_the_archives_ending(name: str, expected: str) -> None:
    assert capture_name(Path("x") / name) == expected


def test_a_link_to_a_capture_is_that_capture(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "capture", FILES)
    (tmp_path / "link").symlink_to(folder)
    assert identity(opened(tmp_path / "link")) == identity(opened(folder))


def test_what_is_no_capture_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty" / "b").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe.log")  # it is not waited for
    for name, message, is_taken in (
        ("missing", "no such file or folder", opened),
        ("empty", "no files in this capture", opened),
        ("pipe.log", "neither a file nor a folder", opened),
        ("pipe.log", "neither a file nor a folder", check_location),  # before anything is started
    ):
        with pytest.raises(CaptureError, match=message) as caught:
            is_taken(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


def test_links_and_special_files_in_a_folder_are_named_and_left_alone(tmp_path: Path) -> None:
    outside = write_files(tmp_path / "outside", {"secret.log": b"secret"})
    folder = write_files(
        tmp_path / "capture", {**FILES, "lake/findings/_delta_log/0.json": b"{}", "lake/verdict.json": b""}
    )
    (folder / "file-link.log").symlink_to(outside / "secret.log")
    (folder / "folder-link").symlink_to(outside)
    (folder / "broken").symlink_to(outside / "nothing")
    os.mkfifo(folder / "pipe")
    capture = opened(folder)
    assert [f.path for f in capture.files] == sorted(FILES)
    assert capture.refused == [
        ("broken", "a link: not followed"),
        ("file-link.log", "a link: not followed"),
        ("folder-link", "a link: not followed"),
        ("lake", "a lake: its tables are no evidence"),
        ("pipe", "not a regular file"),
    ]
    with pytest.raises(CaptureError, match="a lake: its tables are no evidence"):
        opened(folder / "lake")


def test_what_is_below_very_many_folders_is_named_and_left_alone(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "capture", {**FILES, "/".join(["a"] * 300) + "/deep.log": LOG})
    capture = opened(folder)
    assert [f.path for f in capture.files] == sorted(FILES)
    assert capture.refused == [("/".join(["a"] * 201), "below 200 folders: not read")]


def test_a_name_that_is_no_utf8_is_spelled_out(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "capture", FILES)
    Path(os.fsdecode(os.fsencode(folder) + b"/odd-\xff.log")).write_bytes(b"x")
    for capture in (opened(folder), opened(pack(folder, ".tar.gz"))):
        assert "odd-\\udcff.log" in [f.path for f in capture.files]


BAD_NAMES = [(case["name"], case["reason"]) for case in cases("hostile_names") if case["place"] == "archive"]


def check_only_good_members(archive: Path, more: list[tuple[str, str]]) -> None:
    capture = opened(archive)
    assert {f.path for f in capture.files} == {*FILES, "caf\u00e9"}
    assert {f.path: f.sha256 for f in capture.files}["notes.txt"] == hashlib.sha256(b"hello").hexdigest()
    assert capture.refused == [(name, reason) for name, reason in BAD_NAMES if reason] + more
    assert not (archive.parent / "escaped").exists()


def test_members_of_a_tar_that_must_not_be_unpacked_are_named_and_the_rest_is_used(
    tmp_path: Path, own_temp: Path
) -> None:
    odd = [(info(name), b"evil") for name, _ in BAD_NAMES]
    kinds = [
        (info("symlink", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (info("hardlink", tarfile.LNKTYPE, "notes.txt"), b""),
        (info("fifo", tarfile.FIFOTYPE), b""),
        (info("device", tarfile.CHRTYPE), b""),
        (info("disk", tarfile.BLKTYPE), b""),
    ]
    good = [(info(name), data) for name, data in FILES.items()]
    archive = tar_of(tmp_path / "evil.tar.gz", *good, *odd, *kinds)
    check_only_good_members(archive, [(member.name, "not a regular file") for member, _ in kinds])


def test_members_of_a_zip_that_must_not_be_unpacked_are_named_and_the_rest_is_used(
    tmp_path: Path, own_temp: Path
) -> None:
    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for name, data in FILES.items():
            zipped.writestr(name, data)
        for name, _ in BAD_NAMES:
            zipped.writestr(name, b"evil")
        for name, mode in [("symlink", stat.S_IFLNK), ("fifo", stat.S_IFIFO)]:
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            zipped.writestr(entry, b"/etc/passwd")
        zipped.writestr("other-method", b"x" * 1000, zipfile.ZIP_BZIP2)
        encrypted = zipfile.ZipInfo("encrypted")
        zipped.writestr(encrypted, b"x")
        encrypted.flag_bits |= 0x1
        # Found by `make fuzz` (seed 11, file 25651): a member without a name was an IndexError.
        zipped.writestr("nameless", b"x")
        zipped.infolist()[-1].filename = ""
    more = [("symlink", "not a regular file"), ("fifo", "not a regular file"), ("encrypted", "encrypted")]
    more.insert(2, ("other-method", "compressed with method 12: repack it with deflate"))
    check_only_good_members(archive, [*more, ("", "no name")])


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("../x", "Refused: ../x: a path outside the archive."),
        ("/x", "or pack it with relative paths: tar -C FOLDER -czf capture.tar.gz ."),
    ],
)
def test_an_archive_of_nothing_but_refused_members_is_refused_by_its_own_name(
    name: str, end: str, tmp_path: Path, own_temp: Path
) -> None:
    archive = tar_of(tmp_path / "evil.tar.gz", (info(name), b"evil"))
    with pytest.raises(CaptureError, match="no files in this capture") as caught:
        opened(archive)
    assert str(archive) in str(caught.value)
    assert str(caught.value).endswith(end)


def test_the_private_copy_is_private_and_gone_afterwards(tmp_path: Path, own_temp: Path) -> None:
    archive = pack(write_files(tmp_path / "capture", FILES), ".tar")
    with open_capture(archive) as capture:
        (folder,) = own_temp.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        on_disk = [f.local for f in capture.files if isinstance(f.local, Path)]
        assert {path.parent for path in on_disk} == {folder}
    with pytest.raises(RuntimeError, match="the user's own"), open_capture(archive):
        raise RuntimeError("the user's own")


@pytest.mark.parametrize("suffix", PACKINGS)
def test_large_members_and_what_tasks_read_are_files_and_the_rest_is_in_memory(
    suffix: str, tmp_path: Path, own_temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {SEGMENT: LOG, "b/small": b"x" * 100, "b/large": b"y" * (1 << 16), "b/larger": b"z" * ((1 << 16) + 1)}
    archive = pack(write_files(tmp_path / "capture", files), suffix)
    for most, count in ((1 << 20, 2), (1 << 16, 1), (50, 0)):
        monkeypatch.setattr("evidence.capture.archive._HELD_BYTES", most)
        with open_capture(archive) as capture:
            found = {file.path: file for file in capture.files}
            assert {path: file.read() for path, file in found.items()} == files
            hashes = {path: hashlib.sha256(data).hexdigest() for path, data in files.items()}
            assert {path: file.sha256 for path, file in found.items()} == hashes
            in_memory = {path for path, file in found.items() if isinstance(file.local, Held)}
            assert in_memory <= {"b/small", "b/large"}
            assert len(in_memory) == count
            with found["b/small"].slices() as data:
                assert (len(data), data[98:200]) == (100, b"xx")
        assert list(own_temp.iterdir()) == []


def tar_of_zeros(path: Path, name: str) -> Path:
    return tar_of(path, (info(name), bytes(8 << 20)))


def zip_of_zeros(path: Path, name: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(name, bytes(8 << 20))
    return path


def tar_of_holes(path: Path, name: str) -> Path:
    """GNU tar -S: 10 KB may unpack to any size."""
    header = bytearray(info(name, tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    size = f"{8 << 20:011o}".encode()
    header[386:410] = size + b"\0" + bytes(12).replace(b"\0", b"0", 11)
    header[483:494] = size
    header[148:156] = f"{sum(header[:148] + b' ' * 8 + header[156:]):06o}\0 ".encode()
    path.write_bytes(header + bytes(1024))
    return path


def tar_with_a_great_header(path: Path, name: str) -> Path:
    """The size of an extended header is what tarfile reads into memory before it gives any member."""
    header = info(name, tarfile.XHDTYPE)
    header.size = 1 << 40
    with gzip.open(path, "wb") as out:
        out.write(header.tobuf(tarfile.GNU_FORMAT) + bytes(16 << 20))
    return path


@pytest.mark.parametrize(
    ("make", "archive", "name"),
    # A refused member counts as well: it must be decompressed to reach the members after it.
    [
        (tar_of_zeros, "bomb.tar.gz", "zeros"),
        (tar_of_zeros, "bomb.tar.gz", "../zeros"),
        (zip_of_zeros, "bomb.zip", "zeros"),
        (tar_of_holes, "holes.tar", "c/holes"),
        (tar_with_a_great_header, "header.tar.gz", "x"),
    ],
)
def test_an_archive_that_unpacks_to_more_than_is_allowed_is_refused(
    make: Callable[[Path, str], Path], archive: str, name: str, tmp_path: Path
) -> None:
    packed = make(tmp_path / archive, name)
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(CaptureError, match="it may be a decompression bomb") as caught:
        unpack(packed, target, Limits(capture_bytes=4 << 20))
    assert str(packed) in str(caught.value)
    assert sum(p.stat().st_size for p in target.rglob("*")) <= 4 << 20


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_very_many_headers_before_a_member_are_refused(kind: bytes, tmp_path: Path) -> None:
    header = info("x", kind)
    header.size = len(text := b"20 mtime=1234567890\n")
    packed = tmp_path / "headers.tar"
    packed.write_bytes((header.tobuf(tarfile.USTAR_FORMAT) + text.ljust(512, b"\0")) * 2000 + bytes(1024))
    with pytest.raises(CaptureError, match=r"headers\.tar: the archive cannot be read: maximum recursion depth"):
        opened(packed)


def test_a_full_disk_is_no_fault_of_the_archive(tmp_path: Path) -> None:
    """Here it is a limit of a file's size, which the system reports alike."""
    packed = tmp_path / "large.tar"
    with tarfile.open(packed, "w") as tar:
        header = tarfile.TarInfo("c/__cluster_metadata-0/00000000000000000000.log")
        header.size = 4 << 20
        tar.addfile(header, io.BytesIO(bytes(header.size)))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(CaptureError, match=r"large\.tar: cannot be unpacked in /.*: .* large\. .* set TMPDIR"):
            opened(packed)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def members(data: bytes) -> list[int]:
    """Where the members of a tar begin."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return [member.offset for member in tar.getmembers()]


def zeroed(data: bytes) -> bytes:
    begin = members(data)[4]
    return data[:begin] + bytes(512) + data[begin + 512 :]


CUT = r"the archive cannot be read: .*Copy it again from its source\.$"
OTHER = r"of archives only \.tar, .* are opened: unpack it first"
# What is refused: archives' endings, what becomes of the bytes, the name that the file has then, the message.
REFUSED: list[tuple[list[str], Callable[[bytes], bytes], str, str]] = [
    (PACKINGS, lambda data: data[: len(data) * 2 // 3], "", CUT),
    ([suffix for suffix in PACKINGS if suffix != ".tar"], lambda data: data[:-9], "", CUT),
    # A copy that stopped at a block's end, where a member begins.
    ([".tar"], lambda data: data[: members(data)[4]], "", CUT),
    ([".tar"], zeroed, "", ": byte 5120: it ends there, and other bytes follow"),
    ([".tar"], lambda data: data + bytes(20 << 10), "", r": byte \d+: it ends there, and \d+ zero bytes follow"),
    ([".tar"], lambda data: writer.flip(data, 512 + 150), "", "the archive cannot be read: byte 512: bad checksum"),
    (PACKINGS, lambda data: data * 2, "", r": byte \d+: .* other bytes.*: if archives were joined, name each of them"),
    # The second one was cut off: the end that is found is the first one's.
    ([".zip"], lambda data: data + data[:-30], "", r": byte \d+: other bytes follow its end: if archives were joined"),
    *(
        (PACKINGS, lambda _, other=other: other, "", "cannot be read|no files in this capture")
        for other in (b"", b"not an archive", bytes(2000))
    ),
    # It was read as a segment that contradicts itself, or, by its first file, as an exporter's text.
    (PACKINGS, bytes, "incident-4711", "of archives only .* or give it the ending of what it is"),
    *(([".tar"], bytes, name, OTHER) for name in ("a.tar.bz2", "a.tar.zst", "a.tbz2", "a.7z", f"{0:020d}.log.gz")),
]


@pytest.mark.parametrize(
    ("suffix", "change", "name", "message"), [(suffix, *rest) for suffixes, *rest in REFUSED for suffix in suffixes]
)
def test_an_archive_that_is_not_whole_or_named_otherwise_is_refused(
    suffix: str, change: Callable[[bytes], bytes], name: str, message: str, tmp_path: Path, own_temp: Path
) -> None:
    packed = pack(write_files(tmp_path / "capture", {f"{n}.log": LOG for n in range(9)}), suffix, "capture")
    archive = tmp_path / (name or packed.name)
    archive.write_bytes(change(packed.read_bytes()))
    with pytest.raises(CaptureError, match=message) as caught:
        opened(archive)
    assert str(caught.value).startswith(f"{archive}: ")


@pytest.mark.parametrize("suffix", ["", ".tar.gz"])
def test_a_copy_of_the_metadata_log_may_have_a_topics_name(suffix: str, tmp_path: Path) -> None:
    """`scp -r HOST:.../__cluster_metadata-0 kafka-1`: it was read as partition 1 of a topic `kafka`."""
    names = ("00000000000000000000.log", "leader-epoch-checkpoint", "quorum-state")
    folder = write_files(tmp_path / "capture", {f"kafka-1/{name}": LOG for name in names} | {f"t-0/{names[0]}": LOG})
    capture = opened(pack(folder, suffix) if suffix else folder)
    kinds = ["metadata_segment", "other", "quorum_state", "replica_segment"]
    assert [(file.kind, file.node_id) for file in capture.files] == list(zip(kinds, [1, 1, 1, None], strict=True))


def test_an_archive_inside_a_capture_is_named_and_not_opened(tmp_path: Path) -> None:
    inner = pack(write_files(tmp_path / "inner" / "x", {"a.log": LOG}), ".tar.gz")
    capture = opened(write_files(tmp_path / "capture", {**FILES, "nodes/broker-1.tar.gz": inner.read_bytes()}))
    assert [name for name, _ in capture.refused] == ["nodes/broker-1.tar.gz"]
    assert "nodes/broker-1.tar.gz" in {f.path for f in capture.files}


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tar.xz", ".zip"])
@FUZZ
@given(at=st.integers(0, 1 << 30), mask=st.integers(1, 255), size=st.integers(0, 1 << 30))
def test_a_damaged_archive_is_unpacked_or_refused(suffix: str, at: int, mask: int, size: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        archive = pack(write_files(root / "capture", {"a.log": LOG, "b/c.log": LOG[:99]}), suffix)
        data = archive.read_bytes()
        archive.write_bytes(writer.flip(data, at % len(data), mask)[: len(data) - size % len(data) if at % 2 else None])
        shutil.rmtree(root / "capture")
        try:
            _, refused = unpack(archive, root, Limits(capture_bytes=1 << 20))
        except CaptureError as error:
            refused = [(str(archive), str(error))]
        assert all(name and reason for name, reason in refused)
        assert archive.exists()


@pytest.mark.parametrize("change", [LOG + b"more", LOG[:-1], writer.flip(LOG, 100), None])
def test_a_file_that_changes_after_it_was_hashed_is_not_used(change: bytes | None, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "capture", {SEGMENT: LOG})
    with open_capture(folder) as capture:
        (file,) = capture.files
        if change is None:
            file.local.unlink()
        else:
            file.local.write_bytes(change)
            os.utime(file.local, ns=(1, 1))
        message = "changed while it was read" if change else "cannot be read: No such file or directory"
        with pytest.raises(CaptureError, match=message) as caught:
            file.read()
    assert str(file.local) in str(caught.value)
