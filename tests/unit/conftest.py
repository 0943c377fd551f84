"""Properties try the same examples on every machine, so that a red run says something about the change.

New examples, twice as many: `pytest -p no:cacheprovider --hypothesis-profile=explore tests/unit`. `make fuzz` reads
many more damaged files of every kind.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.pure import SHARED

settings.register_profile("suite", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("explore", deadline=None)
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def _decoded_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Processes of one run share what they decode."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SHARED, str(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base))
        yield
