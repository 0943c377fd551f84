"""A lake of a real capture, made once; each test gets a copy."""

import shutil
from pathlib import Path

import pytest

from jobs.config.settings import load_settings
from jobs.detect.stage import run_detect
from jobs.lake.lake import Lake
from jobs.replay.stage import replay
from tests.support.judged import judged_lake
from tests.support.small_captures import with_rounds


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The lake's folder and the capture's."""
    folder = tmp_path_factory.mktemp("custody")
    capture = with_rounds("unclean", folder, 3)
    judged_lake(folder / "lake", capture)
    return folder / "lake", capture


def remake(lake: Lake, cluster: str) -> tuple[bool, bool]:
    """Replay and detect; whether each of them was up to date."""
    replayed = replay(lake, cluster, load_settings(), lambda _: None)
    detected = run_detect(lake, cluster, load_settings(), lambda _: None)
    return replayed.up_to_date, detected.up_to_date


@pytest.fixture
def lake(made: tuple[Path, Path], tmp_path: Path) -> Lake:
    shutil.copytree(made[0], tmp_path / "lake")
    return Lake(tmp_path / "lake")


@pytest.fixture
def cluster(lake: Lake) -> str:
    return lake.clusters()[0]


@pytest.fixture
def capture(made: tuple[Path, Path], tmp_path: Path) -> Path:
    shutil.copytree(made[1], tmp_path / "unclean")
    return tmp_path / "unclean"
