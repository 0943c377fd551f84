"""What capture.toml and the properties files of a capture say of its files: whose each is, when it was copied, configs.

tests/unit/golden/opened.jsonl has a capture a line: what it shows, its files, and what is known of each beside its
content, or what the error says.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from evidence.capture.files import Capture, open_capture
from evidence.capture.manifest import read_manifest
from evidence.capture.static_configs import static_configs
from evidence.errors import CaptureError
from tests.support.golden import filled
from tests.support.small_captures import write_files

KNOWN = ("node_id", "captured_at_ms", "clock_error_ms", "snapshot_duration_ms", "log_utc_offset_ms")


def known(capture: Capture) -> dict[str, Any]:
    files = {f.path: {name: getattr(f, name) for name in KNOWN if getattr(f, name)} for f in capture.files}
    configs = [f"{row['node_id']} {row['name']}={row['value']}" for row in static_configs(capture)]
    refused = [list(entry) for entry in capture.refused]
    return {"cluster": capture.cluster_id, "refused": refused, "known": files, "configs": configs}


@filled("opened")
def test_what_is_known_of_the_files_of_a_capture(case: dict[str, Any]) -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        root = write_files(Path(folder, "capture"), case["files"])
        try:
            with open_capture(root / case.get("opened", "")) as capture:
                return {**{name: case[name] for name in ("what", "files", "opened") if name in case}, **known(capture)}
        except CaptureError as error:
            message = str(error)
    assert case["error"] in message
    assert str(root) in message
    return case


def test_a_manifest_of_any_depth_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"capture\.toml: the manifest cannot be read"):
        read_manifest(b"a = " + b"[" * 100_000, "capture.toml")
