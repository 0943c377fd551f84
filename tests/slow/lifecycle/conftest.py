"""A lake of two captures of one cluster, made once; each test gets a copy."""

import shutil
from pathlib import Path

import pytest
from typer.testing import Result

from jobs.lake.lake import Lake
from tests.slow.test_crashes import run
from tests.support.invoked import invoke
from tests.support.small_captures import diverged


def command(lake: Lake | Path, *words: str) -> Result:
    """A command on a lake."""
    return invoke([*words, "--lake", str(lake.root if isinstance(lake, Lake) else lake)])


@pytest.fixture(scope="session")
def captures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(all controllers of a cluster, one of them)."""
    whole, alone, _ = diverged(tmp_path_factory.mktemp("captures"))
    return whole, alone


@pytest.fixture(scope="session")
def made(captures: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made") / "lake"
    for capture in reversed(captures):
        run(Lake(root), capture)
    return root


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Lake:
    shutil.copytree(made, tmp_path / "lake")
    return Lake(tmp_path / "lake")


@pytest.fixture
def cluster(lake: Lake) -> str:
    return lake.clusters()[0]
