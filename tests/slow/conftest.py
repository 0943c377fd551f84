"""The Spark session and the judged captures of tests/spark, and a lake without Spark."""

import fcntl
import os
from pathlib import Path

import pytest

from jobs.pipeline import Pipeline
from tests.spark.conftest import job as job
from tests.spark.conftest import spark as spark
from tests.support.paths import capture


@pytest.fixture(scope="session")
def without_spark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of a run of the bundled capture without Spark, in one process, for tests that only read it. Processes of
    one run share it."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "without-spark"
    root.mkdir(exist_ok=True)
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / "done").exists():
            Pipeline(root / "lake", [capture("unclean")], engine_name="local").run()
            (root / "done").touch()
    return root / "lake"


# Those that take minutes: begun last, one process would wait for the other.
FIRST = ("test_standalone.py", "test_views.py", "test_connect.py", "test_forget.py", "test_captures.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: [name not in item.nodeid for name in FIRST])
