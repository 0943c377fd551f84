"""Great Expectations for a process that does nothing else (jobs/quality/library.py), without what is not needed
there."""

from __future__ import annotations

import sys
from importlib.util import LazyLoader, find_spec, module_from_spec


def _import_when_used(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = LazyLoader(spec.loader)
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    parent, _, own = name.rpartition(".")
    setattr(sys.modules[parent], own, module)


sys.modules["pyspark"] = None  # type: ignore[assignment]  # so that the library does without it
_import_when_used("scipy.stats")  # a quarter of the library's start, for expectations that are not used here

from quality import suites  # noqa: E402, F401  # takes seconds
