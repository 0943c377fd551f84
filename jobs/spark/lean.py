"""What the command's own processes import first (jobs/spark/processes.py). numba looks for scipy when it loads its
first function, and does without: to import it takes a quarter of a second."""

import sys

from jobs.console import without_pandas  # noqa: F401

sys.modules.setdefault("scipy", None)  # type: ignore[arg-type]
