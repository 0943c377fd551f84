"""Captures on an object store: the same evidence as on disk, no files outside the private folder, no secret in a
message."""

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from evidence.capture.accounts import quarantine_rows
from evidence.capture.files import Capture, capture_name, open_capture
from evidence.capture.remote import Remote, location, size_bytes
from evidence.errors import CaptureError
from evidence.metadata_log.rows import read_byte_range, work_of
from evidence.metadata_log.scan import scan_files
from jobs.lake.storage import LakeError
from tests.support import s3, writer
from tests.support.golden import cases
from tests.support.invoked import invoke, printed_by_main
from tests.support.paths import ROOT, capture, unpacked
from tests.support.small_captures import write_files

# In every test: what was copied is gone in the end.
pytestmark = pytest.mark.usefixtures("own_temp")

LOG = b"".join(writer.log())
SEGMENT = "__cluster_metadata-0/00000000000000000000.log"
HOSTILE = [(case["name"], case["reason"]) for case in cases("hostile_names") if case["place"] == "store"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3.Store]:
    with s3.moto(tmp_path_factory.mktemp("moto") / "log") as running:
        yield running


@pytest.fixture(autouse=True)
def client(store: s3.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment in which the store is found."""
    s3.use(monkeypatch, store.endpoint, tmp_path)
    return monkeypatch


@contextmanager
def altered(store: s3.Store, client: pytest.MonkeyPatch, name: str, alter: Callable[[bytes], bytes]) -> Iterator[None]:
    """The store answers with other bytes for objects whose name ends so."""

    def answer(_: str, path: str, body: bytes) -> bytes:
        return alter(body) if path.partition("?")[0].endswith(name) else body

    with s3.in_front_of(store.endpoint, answer) as endpoint:
        client.setenv("AWS_ENDPOINT_URL", endpoint)
        client.setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", "when_required")
        yield


def opened(url: str) -> Capture:
    with open_capture(location(url)) as found:
        for file in found.files:
            assert len(file.read()) == file.size_bytes
        return found


def refusal(url: str) -> str:
    with pytest.raises(CaptureError) as caught:
        opened(url)
    assert_no_secret("".join(traceback.format_exception(caught.value, limit=0)))
    return str(caught.value)


def facts(found: Capture) -> tuple[object, ...]:
    rows = [(f.path, f.sha256, f.kind, f.size_bytes, f.node_id, f.captured_at_ms) for f in found.files]
    return found.name, found.cluster_id, rows, found.refused, found.manifest


@pytest.fixture(scope="module")
def real(store: s3.Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real capture's folder, which is in the store as real/sites/<its name>, as is its archive."""
    folder = unpacked("jbod-4.1.1", tmp_path_factory.mktemp("real"))
    store.bucket("real", {})
    store.upload(folder, "real", f"sites/{folder.name}")
    store.upload(capture("jbod-4.1.1"), "real", "sites/jbod-4.1.1.tar.xz")
    return folder


@pytest.mark.parametrize(
    "url", ["s3://real/sites/{}", "S3a://real/sites/{}/", "s3://real/sites/{}.tar.xz", "presigned"]
)
def test_a_capture_is_that_on_disk(url: str, real: Path, store: s3.Store) -> None:
    """The signature of a presigned URL is not kept."""
    archive = capture(real.name)
    if url == "presigned":
        named = {"Bucket": "real", "Key": f"sites/{archive.name}"}
        url = store.client.generate_presigned_url("get_object", named)
        assert s3.KEY in url
        assert str(location(url)) == url.partition("?")[0]
    found = opened(url.format(real.name))
    with open_capture(archive if ".tar" in url else real) as local:
        assert facts(found) == facts(local)
    assert len(found.files) == 5


@pytest.mark.parametrize(
    ("bucket", "files"),
    [
        ("single-log", {f"__cluster_metadata-0/{0:020d}.log": LOG}),  # classified by its folder
        ("single-ledger", {f"ledger-0/{0:020d}.log": LOG}),
        # More objects than are copied at a time.
        ("many", {f"snapshots/{1795221545008 + n}/broker-{n}/x": b"%d" % n for n in range(50)}),
    ],
)
def test_small_captures_are_those_on_disk(
    bucket: str, files: dict[str, bytes], store: s3.Store, tmp_path: Path
) -> None:
    store.bucket(bucket, {f"some/capture/{name}": data for name, data in files.items()})
    place = f"capture/{next(iter(files))}" if len(files) == 1 else "capture"
    write_files(tmp_path / "capture", files)
    with open_capture(tmp_path / place) as local:
        assert facts(opened(f"s3://{bucket}/some/{place}")) == facts(local)


def test_the_size_is_that_of_all_objects(store: s3.Store) -> None:
    store.bucket("sizes", {"a/b": b"12", "a/c/d": b"345", "ab": b"6789"})
    assert [size_bytes(location(f"s3://sizes/{name}")) for name in ("a", "ab", "")] == [5, 4, 9]


def test_names_outside_the_folder_or_colliding_are_refused(store: s3.Store, tmp_path: Path, own_temp: Path) -> None:
    good = {"Notes.txt": b"hello", "cafe\u0301": b"hello", "zz//deep": b"hello"}
    markers = {"": b"", "empty/": b""}
    store.bucket("hostile", {f"in/{n}": b for n, b in {**good, **markers}.items()})
    for name, _ in HOSTILE:
        store.put("hostile", f"in/{name}", b"evil")
    before = {p for p in tmp_path.rglob("*") if not p.is_relative_to(own_temp)}
    with open_capture(location("s3://hostile/in")) as found:
        contents = {f.path: f.read() for f in found.files}
        assert {p for p in tmp_path.rglob("*") if not p.is_relative_to(own_temp)} == before
    assert sorted(found.refused) == sorted(HOSTILE)
    assert contents == {"Notes.txt": b"hello", "cafe\u0301": b"hello", "zz/deep": b"hello"}


ODD = {"in/..": LOG, "in/a\\b": LOG, "evil/../x": b"evil"}


@pytest.mark.parametrize("case", cases("refused_urls"), ids=lambda case: case["url"])
def test_what_cannot_be_opened_is_reported_with_its_url(case: dict[str, str], real: Path, store: s3.Store) -> None:
    if "odd" in case["url"]:
        store.bucket("odd", {**ODD, "x.tar.xz": capture("jbod-4.1.1").read_bytes()[:5000]})
    assert refusal(case["url"]).startswith(f"{case['url']}: {case['message']}")


def test_without_credentials(real: Path, client: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        client.delenv(name)
    assert refusal("s3://real/sites").startswith("s3://real/sites: no credentials. Set AWS_ACCESS_KEY_ID")


def test_without_permission(real: Path, store: s3.Store) -> None:
    """moto asks for permissions after so many requests."""
    with store.asking_for_permissions():
        message = refusal("s3://real/sites")
    assert message.startswith("s3://real/sites: no permission to read it, or wrong credentials.")
    assert_no_secret(message)


def test_a_store_that_does_not_answer(client: pytest.MonkeyPatch) -> None:
    client.setenv("AWS_ENDPOINT_URL", f"http://{s3.KEY}:{s3.SECRET}@127.0.0.1:9")
    client.setenv("AWS_MAX_ATTEMPTS", "1")
    message = refusal("s3://real/sites")
    assert message.startswith("s3://real/sites: cannot be read (")
    assert_no_secret(message)


def assert_no_secret(message: str) -> None:
    assert not [secret for secret in (s3.KEY, s3.SECRET, "Signature", "hunter2") if secret in message]


@pytest.mark.parametrize("case", cases("shown_urls"), ids=lambda case: case["shown"])
def test_secrets_of_a_url_are_not_shown(case: dict[str, str]) -> None:
    url, shown = case["url"], case["shown"]
    remote = location(url)
    assert isinstance(remote, Remote)
    assert str(remote) == shown
    assert "hunter2" not in repr(remote)
    assert capture_name(remote) == shown.rpartition("/")[2].removesuffix(".tar.xz")
    message = refusal(url)
    assert message.startswith(f"{shown}: ")
    assert_no_secret(message)


@pytest.mark.parametrize(
    ("url", "end", "message"),
    [
        ("s3://cut/in", "/b.txt", f"in/b.txt: {len(LOG) - 7} bytes arrived, the store reports {len(LOG)}"),
        ("s3://cut/in/b.txt", "/b.txt", f"in/b.txt: {len(LOG) - 7} bytes arrived, the store reports {len(LOG)}"),
        ("s3://cut/log", ".log", f"log/{SEGMENT}: {len(LOG) - 7} bytes arrived for {len(LOG)} from byte 0"),
    ],
)
def test_an_object_that_arrives_cut_off_is_named(
    url: str, end: str, message: str, store: s3.Store, client: pytest.MonkeyPatch
) -> None:
    store.bucket("cut", {"in/a.txt": LOG, "in/b.txt": LOG, "in/c.txt": LOG, f"log/{SEGMENT}": LOG})
    with altered(store, client, end, lambda body: body[:-7]):
        assert refusal(url).startswith(f"s3://cut/{message}")


@pytest.mark.parametrize(
    ("copied", "changed"), [("in/a.txt", "in/b.txt"), ("in/a.txt", "in/c.txt"), (f"in/{SEGMENT}", f"in/{SEGMENT}")]
)
def test_a_capture_that_changes_while_it_is_copied_is_refused(
    copied: str, changed: str, store: s3.Store, client: pytest.MonkeyPatch
) -> None:
    """b.txt is another object of the same size, c.txt a new one."""
    store.bucket(bucket := f"moving-{len(copied + changed)}-{changed[3]}".lower(), {copied: LOG, "in/b.txt": LOG})

    def write(body: bytes) -> bytes:
        store.put(bucket, changed, LOG[::-1])
        return body

    with altered(store, client, copied[2:], write):
        message = refusal(f"s3://{bucket}/in")
    assert message.startswith(f"s3://{bucket}/{changed}: the object changed while")


SNAPSHOT = "__cluster_metadata-0/00000000000000000010-0000000001.checkpoint"


@pytest.mark.parametrize("url", ["s3://stays", "s3://stays/deep/er", f"s3://stays/{SEGMENT}"])
def test_segments_and_snapshots_are_not_copied(url: str, store: s3.Store, own_temp: Path) -> None:
    """Neither by the driver nor by a task, which gets no secret."""
    objects = {SEGMENT: LOG, SNAPSHOT: writer.snapshot([writer.no_op()]), "server.properties": b"node.id=1"}
    store.bucket("stays", {f"{folder}{name}": data for folder in ("", "deep/er/") for name, data in objects.items()})
    with open_capture(location(url)) as found:
        assert found.name == url.rpartition("/")[2]
        scanned = scan_files(found.files)
        work = pickle.dumps(work_of(scanned))
        assert [secret for secret in (s3.KEY, s3.SECRET) if secret.encode() in work] == []
        ranges = {(item.path, read_byte_range(item.source, item.start, item.end)[:]) for item in pickle.loads(work)}
        copied = {path.name for path in own_temp.rglob("*") if path.is_file()}
    assert copied <= {"server.properties", "__cluster_metadata-0"}
    assert ranges >= {(found.files[0].path, LOG)}
    assert {account.quarantined_bytes for account in scanned.accounts.values()} == {0}


@pytest.mark.parametrize("change", [LOG[::-1], LOG + LOG, LOG[:-1], None])
def test_an_object_that_changes_after_it_was_framed_is_named(change: bytes | None, store: s3.Store) -> None:
    store.bucket("framed", {SEGMENT: LOG, "server.properties": b"node.id=1"})
    with open_capture(location("s3://framed")) as found:
        (work,) = work_of(scan_files(found.files))
        if change is None:
            store.client.delete_object(Bucket="framed", Key=SEGMENT)
        else:
            store.put("framed", SEGMENT, change)
        with pytest.raises(CaptureError) as caught:
            read_byte_range(work.source, work.start, work.end)
    message = "no such object or folder" if change is None else "the object changed after it was framed"
    assert str(caught.value).startswith(f"s3://framed/{SEGMENT}: {message}")


def test_a_segment_at_a_presigned_url_is_copied(store: s3.Store) -> None:
    """Tasks would need the signature."""
    store.bucket("signed", {SEGMENT: LOG})
    url = store.client.generate_presigned_url("get_object", {"Bucket": "signed", "Key": SEGMENT})
    with open_capture(location(url)) as found:
        assert [file.local.read_bytes() for file in found.files] == [LOG]


def test_damage_is_that_of_the_file_on_disk(store: s3.Store, tmp_path: Path) -> None:
    name, other = SEGMENT, SEGMENT.replace("0.log", "9.log")
    files = {name: writer.flip(LOG, 150), other: b"no batch", SNAPSHOT: writer.snapshot([writer.no_op()])[:-3]}
    store.bucket("hurt", files)
    rows = []
    for place in (location("s3://hurt"), write_files(tmp_path / "hurt", files)):
        with open_capture(place) as found:
            accounts = scan_files(found.files).accounts
            rows.append([r for f in found.files for r in quarantine_rows("hurt", f, accounts[f.path].damage)])
    assert rows[0] == rows[1]
    assert len(rows[0]) >= 3


@pytest.mark.parametrize(
    ("url", "package"),
    [("s3://real/x.log", "pip install 'kraft-forensics[s3]'"), ("gs://real/x.log", "gcsfs"), ("abfs://r/x", "adlfs")],
)
def test_a_package_that_is_missing_is_named(url: str, package: str, tmp_path: Path) -> None:
    """In an interpreter that has fsspec and nothing else of what is installed here."""
    spec = find_spec("fsspec")
    assert spec is not None
    assert spec.origin is not None
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "fsspec").symlink_to(Path(spec.origin).parent)
    code = (
        "import sys; from evidence.capture.remote import check, location; from evidence.errors import CaptureError\n"
        "assert 'fsspec' not in sys.modules\n"
        "try: check(location(sys.argv[1]))\n"
        "except CaptureError as error: print(error)"
    )
    own = {**os.environ, "PYTHONPATH": f"{tmp_path / 'packages'}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-S", "-c", code, url], env=own, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.startswith(f"{url}: ")
    assert package in done.stdout


def test_a_wrong_url_is_reported_before_spark_starts(real: Path, tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    words = ["run", "s3://me:hunter2@real/sites?hunter2", "--lake", lake]
    code, out, err = printed_by_main(*words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("error: s3://real/sites: ")
    assert_no_secret(err)
    for words, message in (
        (["ingest", "s3://real/nowhere", "--lake", lake], "s3://real/nowhere: no such object or folder."),
        (
            ["run", "s3://real/sites", "--lake", "s3://me:hunter2@real/lake"],
            "s3://real/lake: a lake's URL must hold no credentials",
        ),
    ):
        result = invoke(words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert str(result.exception).startswith(message)
        assert "\n" not in str(result.exception)
        assert_no_secret(str(result.exception))
    assert not (tmp_path / "lake").exists()


@pytest.mark.usefixtures("real")
@pytest.mark.parametrize(
    "lake",
    [
        "hdfs://host/lake",
        "s3://key@real/lake",
        "s3a://k:hunter2@real/lake",
        "abfs://c:hunter2@a/l",
        "gs://b/l?t=hunter2",
    ],
)
def test_a_lake_at_a_url_that_cannot_be_used_is_refused_by_every_command(
    lake: str, tmp_path: Path, client: pytest.MonkeyPatch
) -> None:
    client.chdir(tmp_path)
    every = (["detect"], ["sql", "select 1"], ["explain", "abcdef", "--capture", "s3://real/sites"])
    for words in every if lake.startswith("s3a") else every[:1]:
        result = invoke([*words, "--lake", lake])
        assert result.exit_code == 1
        assert isinstance(result.exception, LakeError)
        assert_no_secret(str(result.exception))
    assert [path.name for path in tmp_path.iterdir()] == ["temp"]
