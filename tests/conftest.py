"""What all suites share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

# A test that is about Spark, or about the default, says so. Programs that a test starts inherit it.
os.environ.setdefault("KRAFT_FORENSICS_ENGINE", "auto")


@pytest.fixture(scope="session", autouse=True)
def _no_terminal() -> Iterator[None]:
    """pytest-xdist gives its processes a terminal's width. A test that wants one sets it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield
