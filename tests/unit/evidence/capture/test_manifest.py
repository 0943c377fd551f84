"""capture.toml: what it may say, how it reaches the files, and what is wrong with a wrong one."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

import pytest

from evidence.capture.files import Capture, open_capture
from evidence.capture.manifest import read_manifest
from evidence.errors import CaptureError
from tests.support.golden import cases
from tests.support.small_captures import write_files

FULL = """
cluster_id = "x0"
kafka_release = "4.1.0"
captured_at = 2026-11-20T10:00:00Z
clock_error_ms = 20
snapshot_duration_ms = 3000

[configs]
"min.insync.replicas" = 2
"unclean.leader.election.enable" = false

[[nodes]]
id = 3
path = "left/b"
captured_at = 1795221609120
clock_error_ms = 500
log_utc_offset = "-03:30"

[nodes.configs]
"min.insync.replicas" = 1
"""


def opened(folder: Path, **files: str) -> Capture:
    with open_capture(write_files(folder, files)) as capture:
        return capture


def test_a_manifest_adds_facts_that_the_files_lack(tmp_path: Path) -> None:
    epochs = {
        "left/b/t-0/leader-epoch-checkpoint": "0\n0\n",
        "right/t-0/leader-epoch-checkpoint": "0\n0\n",
        "snapshots/1795221600000/left/b/t-0/leader-epoch-checkpoint": "0\n0\n",
    }
    capture = opened(tmp_path, **{"capture.toml": FULL}, **epochs)
    assert capture.cluster_id == "x0"
    files = {f.path: f for f in capture.files}
    left = files["left/b/t-0/leader-epoch-checkpoint"]
    assert (left.node_id, left.captured_at_ms, left.clock_error_ms) == (3, 1795221609120, 500)
    assert (left.snapshot_duration_ms, left.log_utc_offset_ms) == (3000, -12_600_000)
    right = files["right/t-0/leader-epoch-checkpoint"]
    assert (right.node_id, right.captured_at_ms, right.clock_error_ms) == (None, 1795168800000, 20)
    assert files["snapshots/1795221600000/left/b/t-0/leader-epoch-checkpoint"].captured_at_ms == 1795221600000


def test_static_configs_hold_for_every_node_and_a_nodes_own_win() -> None:
    manifest = read_manifest(FULL.encode(), "capture.toml")
    assert manifest.static_configs({1}) == {
        1: {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"},
        3: {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"},
    }


def test_a_json_manifest_equals_the_toml_one() -> None:
    values = {
        "cluster_id": "x0",
        "captured_at": "2026-11-20T10:00:00Z",
        "nodes": [{"id": 3, "path": "b", "configs": {"a": "1"}}],
    }
    manifest = read_manifest(json.dumps(values).encode(), "capture.json")
    assert manifest.captured_at == 1795168800000
    assert manifest.node_of(PurePosixPath("b/t-0/x")) is manifest.nodes[0]
    assert manifest.node_of(PurePosixPath("bb/t-0/x")) is None


def test_of_nested_folders_the_innermost_counts() -> None:
    text = '[[nodes]]\nid = 1\npath = "."\n[[nodes]]\nid = 2\npath = "a/b"\n'
    manifest = read_manifest(text.encode(), "capture.toml")
    found = [manifest.node_of(PurePosixPath(p)) for p in ("a/x", "a/b/x")]
    assert [n.id if n else None for n in found] == [1, 2]


WRONG = [(case["text"], case["message"]) for case in cases("wrong_manifests")]


@pytest.mark.parametrize(("text", "message"), [*WRONG, ("a = " + "[" * 100_000, "the manifest cannot be read")])
def test_a_wrong_manifest_is_refused_with_the_entry_that_is_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CaptureError) as error:
        opened(tmp_path, **{"capture.toml": text, "x.txt": ""})
    assert "capture.toml" in str(error.value)
    assert message in str(error.value)


def test_a_json_manifest_with_an_entry_twice_is_refused_and_one_of_notepad_is_read(tmp_path: Path) -> None:
    """The last one would count: with too small an error of the clock verdicts are wrong."""
    with pytest.raises(CaptureError, match=r"capture\.json: the manifest cannot be read: an object has a key twice"):
        opened(tmp_path, **{"capture.json": '{"clock_error_ms": 500, "clock_error_ms": 5}', "x.txt": ""})
    (tmp_path / "capture.json").unlink()
    manifest = opened(tmp_path, **{"capture.toml": "\ufeffclock_error_ms = 5\r\n", "x.txt": ""}).manifest
    assert manifest is not None
    assert manifest.clock_error_ms == 5


def test_the_largest_times_and_durations_are_accepted() -> None:
    text = "captured_at = 9999-12-31T23:59:59.999Z\nclock_error_ms = 31536000000\nsnapshot_duration_ms = 31536000000"
    manifest = read_manifest(text.encode(), "capture.toml")
    assert manifest.captured_at == 253402300799999
    assert manifest.clock_error_ms == manifest.snapshot_duration_ms == 31536000000


def test_the_manifest_and_a_file_must_name_the_same_cluster(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="files of 2 clusters"):
        opened(tmp_path, **{"capture.toml": 'cluster_id = "a"', "b1/meta.properties": "cluster.id=b\nnode.id=1\n"})


def test_two_manifests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="two manifests"):
        opened(tmp_path, **{"capture.toml": "", "capture.json": "{}"})
