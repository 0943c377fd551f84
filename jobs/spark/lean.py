"""What a process that runs tasks imports first. numba looks for scipy when it loads its first function, and does
without."""

import sys

from jobs.console import without_pandas  # noqa: F401

sys.modules.setdefault("scipy", None)  # type: ignore[arg-type]
