"""Great Expectations for a process that does nothing else (jobs/quality/library.py), without what is not needed
there."""

import gc
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

gc.disable()  # a fifth of the library's start, and the process ends soon


class _Empty(ModuleType):
    """A module whose classes, whatever their names, are empty."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever looks at all modules uses none
            raise AttributeError(name)
        return self._get(name)

    def _get(self, name: str) -> Any:
        return type(name, (), {})


class _Later(_Empty):
    """A module that is imported when something of it is used."""

    def _get(self, name: str) -> Any:
        sys.modules.pop(self.__name__, None)
        return getattr(import_module(self.__name__), name)


for each in ("pyspark", "boto3", "botocore"):  # the library does without them
    sys.modules[each] = None  # type: ignore[assignment]
for each in ("scipy.stats", "altair", "jsonschema"):  # for expectations that are not used here
    sys.modules[each] = _Later(each)
# What reads databases, stores and files, and expectations that are not used: a third of its start. Here it is given
# frames.
library = find_spec("great_expectations")
assert library is not None
assert library.origin is not None
home = Path(library.origin).parent
for file in [*home.glob("datasource/fluent/*_datasource.py"), *home.glob("expectations/core/expect_*.py")]:
    if file.stem not in ("pandas_datasource", "expect_column_values_to_be_null"):
        each = ".".join((home.name, *file.relative_to(home).with_suffix("").parts))
        sys.modules[each] = _Empty(each)

from quality import suites  # noqa: E402, F401  # takes seconds
