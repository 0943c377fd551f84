"""Great Expectations for a process that does nothing else (jobs/quality/library.py), without what is not needed
there."""

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

gc.disable()  # a fifth of the library's start, and the process ends soon


class _Later(ModuleType):
    """A module that is imported when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever looks at all modules uses none
            raise AttributeError(name)
        sys.modules.pop(self.__name__, None)
        return getattr(import_module(self.__name__), name)


for each in ("pyspark", "boto3"):  # the library does without them
    sys.modules[each] = None  # type: ignore[assignment]
for each in ("scipy.stats", "altair"):  # for expectations that are not used here
    sys.modules[each] = _Later(each)

from quality import suites  # noqa: E402, F401  # takes seconds
