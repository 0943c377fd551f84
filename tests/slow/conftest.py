"""The Spark session and the judged captures of tests/spark."""

import pytest

from tests.spark.conftest import job as job
from tests.spark.conftest import spark as spark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Few tests that take minutes begin first: begun last, one process would wait for the other."""
    items.sort(key=lambda item: "test_standalone.py" not in item.nodeid)
