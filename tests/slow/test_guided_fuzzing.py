"""The targets of `make fuzz-coverage`, without Atheris: their first inputs are read."""

from pathlib import Path

import pytest

from tests.fuzz import guided
from tests.fuzz.reading import read


@pytest.mark.parametrize("target", guided.TARGETS)
def test_the_first_inputs_of_each_target_are_read(target: str, tmp_path: Path) -> None:
    inputs = guided.inputs(target)
    assert all(len(data) <= guided.MAX_BYTES + 1 for data in inputs)
    assert {guided.file_of(target, data).name for data in inputs} <= set(guided.names(target))
    for data in (b"", *inputs[:4]):
        read(guided.file_of(target, data), tmp_path / "capture")
