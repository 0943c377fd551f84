"""Limits of what stages work on: refused with the topic, the figure and the setting's name."""

from __future__ import annotations

import re
import struct
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


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("limits")
    made = Lake(folder / "lake")
    ingest(made, capture(folder / "capture"), load_settings(), lambda _: None)
    return made


def test_rows_of_a_topic(lake: Lake) -> None:
    message = "topic orders: 41 partition records, limits.topic_rows = 40 allows fewer"
    with pytest.raises(KraftForensicsError, match=re.escape(message)):
        replay(lake, "limits", settings(topic_rows=CHANGES), lambda _: None)
    assert replay(lake, "limits", settings(topic_rows=CHANGES + 1), lambda _: None).rows == CHANGES + 1


@pytest.mark.parametrize(
    ("name", "most", "message"),
    [
        ("topic_windows", 19, "topic orders: 20 windows to judge, limits.topic_windows = 19 allows fewer"),
        ("findings", 39, "findings, limits.findings = 39 allows fewer"),
    ],
)
def test_windows_and_findings(lake: Lake, name: str, most: int, message: str) -> None:
    replay(lake, "limits", load_settings(), lambda _: None)
    with pytest.raises(KraftForensicsError, match=re.escape(message)):
        run_detect(lake, "limits", settings(**{name: most}), lambda _: None)
    assert not len(lake.read("findings", "limits"))


def test_the_settings_are_those_of_the_readers() -> None:
    assert load_settings().limits.of_captures() == DEFAULT_LIMITS == Limits()
