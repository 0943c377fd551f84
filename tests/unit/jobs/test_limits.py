"""Limits of what stages work on: refused with the topic, the figure and the setting's name."""

from __future__ import annotations

import struct
import tarfile
from pathlib import Path

import pytest

from evidence.errors import KraftForensicsError
from evidence.limits import DEFAULT_LIMITS, Limits
from jobs.config.settings import Settings, load_settings
from jobs.detect.stage import run_detect
from jobs.ingest.stage import ingest
from jobs.lake.lake import Lake
from jobs.replay.stage import replay
from tests.support import writer

CHANGES = 40


def capture(folder: Path) -> Path:
    """A partition that is leaderless, and led again, very often."""
    log = folder / "controllers" / "3000" / "__cluster_metadata-0"
    log.mkdir(parents=True)
    (log.parent / "meta.properties").write_text("node.id=3000\ncluster.id=limits\n")
    lists = b"".join(writer.int32s(v) for v in ([1, 2], [1, 2], [], []))
    body = struct.pack(">i", 0) + writer.TOPIC_ID + lists + struct.pack(">iii", 1, 0, 0) + b"\x01" + writer.tagged()
    values = [writer.topic("orders"), writer.frame(3, 2, body)]
    leaders = (struct.pack(">i", leader) for _ in range(CHANGES // 2) for leader in (-1, 1))
    values += [writer.partition_change(0, {1: leader}) for leader in leaders]
    first = writer.control_batch(writer.LEADER_CHANGE, writer.leader_change(), 0, 1)
    (log / f"{0:020d}.log").write_bytes(first + writer.batch(values, 1, 1))
    return folder


def settings(**limits: int) -> Settings:
    found = load_settings()
    return found.model_copy(update={"limits": found.limits.model_copy(update=limits)})


# A value of each limit that the capture of the test below is beyond.
TOO_SMALL = {
    "capture_files": 3,
    "capture_bytes": 1000,
    "compression_ratio": 2,
    "text_file_bytes": 150,
    "text_file_lines": 40,
    "partition_lines": 10,
    "damaged_lines": 10,
    "topic_rows": CHANGES,
    "topic_windows": CHANGES // 2 - 1,
    "findings": CHANGES - 1,
}
SAID = {
    "topic_rows": "topic orders: 41 partition records, limits.topic_rows = 40 allows fewer",
    "topic_windows": "topic orders: 20 windows to judge, limits.topic_windows = 19 allows fewer",
    "findings": "findings, limits.findings = 39 allows fewer",
}


def test_every_limit_has_a_value_here() -> None:
    assert set(TOO_SMALL) == set(type(load_settings().limits).model_fields)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture that no stage refuses by itself."""
    folder = tmp_path_factory.mktemp("every-limit")
    data = capture(folder / "capture") / "snapshots" / "1795000000000" / "broker-1"
    (data / "orders-0").mkdir(parents=True)
    (data / "zeros").write_bytes(bytes(4 << 20))
    epochs = "".join(f"{epoch} {3 * epoch}\n" for epoch in range(20))
    (data / "orders-0" / "leader-epoch-checkpoint").write_text(f"0\n20\n{epochs}")
    marks = "".join(f"orders {partition} 9\n" for partition in range(50))
    (data / "replication-offset-checkpoint").write_text(f"0\n50\n{marks}")
    (data / "recovery-point-offset-checkpoint").write_text("0\n20\n" + "x\n" * 20)
    with tarfile.open(folder / "capture.tar.gz", "w:gz") as tar:
        tar.add(folder / "capture", "capture")
    return folder / "capture.tar.gz"


def all_stages(root: Path, archive: Path, given: Settings) -> str:
    """What is said about limits when a capture goes through all stages."""
    lake = Lake(root)
    try:
        ingested = ingest(lake, archive, given, lambda _: None)
        replay(lake, "limits", given, lambda _: None)
        run_detect(lake, "limits", given, lambda _: None)
    except KraftForensicsError as error:
        return str(error)
    return "\n".join(message for message in ingested.quarantined if "limits." in message)


@pytest.mark.parametrize("name", sorted(TOO_SMALL))
def test_what_is_beyond_a_limit_is_refused_by_its_name(name: str, archive: Path, tmp_path: Path) -> None:
    said = all_stages(tmp_path, archive, settings(**{name: TOO_SMALL[name]}))
    assert f"limits.{name} = {TOO_SMALL[name]} " in said
    assert SAID.get(name, "") in said
    # What is refused leaves no rows.
    assert name not in SAID or not len(Lake(tmp_path).read("findings", "limits"))


def test_the_capture_of_that_test_is_within_the_limits(archive: Path, tmp_path: Path) -> None:
    """Also where they allow just what it has."""
    allowed = settings(topic_rows=CHANGES + 1, topic_windows=CHANGES // 2)
    assert all_stages(tmp_path, archive, allowed) == ""


def test_the_settings_are_those_of_the_readers() -> None:
    assert load_settings().limits.of_captures() == DEFAULT_LIMITS == Limits()
