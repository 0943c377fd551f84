"""The public names: each is documented, in docs/api.md too, and its examples run."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import ModuleType

import pytest

import evidence.api
import replay.api
from tests.support.page_examples import examples, failures
from tests.support.paths import ROOT, unpacked

PAGE = "docs/api.md"
PURE = [block for block in examples(PAGE) if "spark" not in block]


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked("unclean", tmp_path, "controllers", "disks")
    monkeypatch.chdir(tmp_path)
    assert failures(PURE, {}) == ""
    assert len(PURE) == len(examples(PAGE)) - 1 == 5


def test_a_wrong_example_fails() -> None:
    assert "Expected:\n    3" in failures([">>> 1 + 1\n3\n"], {})


@pytest.mark.parametrize("module", [evidence.api, replay.api])
def test_public_names_are_documented(module: ModuleType) -> None:
    public = [getattr(module, name) for name in module.__all__]
    assert [p.__name__ for p in public if callable(p) and not inspect.getdoc(p)] == []
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    functions = [p.__name__ for p in public if inspect.isfunction(p)]
    assert [name for name in functions if f"`{name}(" not in page] == []
