"""What all suites share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_terminal() -> Iterator[None]:
    """pytest-xdist gives its processes a terminal's width. A test that wants one sets it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("COLUMNS", raising=False)
        yield
