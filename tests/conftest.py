"""What all suites share."""

import gc
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from typer.main import get_command

pytest.register_assert_rewrite("tests.support.golden")

# A test that is about Spark, or about the default, says so. Programs that a test starts inherit it.
os.environ.setdefault("KRAFT_FORENSICS_ENGINE", "auto")


def pytest_collection_finish() -> None:
    """What is loaded by now stays: Python looked through it for garbage again and again, a quarter of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


# What uses the session of tests/spark/conftest.py.
IN_ONE_JVM = ("tests/spark/", "tests/slow/test_views.py", "tests/slow/test_cookbook.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """As --dist loadfile, but all tests of one Spark session come to one process: in a second one another JVM would
    start, and load and compile the same again."""
    from xdist.scheduler import LoadFileScheduling

    class OneJvm(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if nodeid.startswith(IN_ONE_JVM) else super()._split_scope(nodeid)

    return OneJvm(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_unconfigure() -> None:
    """At its end Python may look for all that is left: libraries complain of what stays."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _no_terminal() -> Iterator[None]:
    """pytest-xdist gives its processes a terminal's width. A test that wants one sets it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _commands_once() -> Iterator[None]:
    """typer makes the tree of all commands at each call, which takes longer than most commands do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", cache(get_command))
        yield
