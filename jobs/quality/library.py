"""Great Expectations in a process of its own. To import it takes seconds of computing: in a thread of this process, all
other threads would wait for the interpreter meanwhile."""

import sys
from typing import Any

from jobs.spark.processes import EndedError, Workers, started


def prepare() -> Workers | None:
    """Start the process, so that it imports while this one does other work; None if this one has imported the library
    anyway."""
    return None if "great_expectations" in sys.modules else started(1, ("quality.alone",))


def run_suites(*given: Any) -> dict[str, bool]:
    """quality/suites.py:run_suites, there. Errors: as there; ChildProcessError if the process ended."""
    if (there := prepare()) is None:
        return _here(*given)
    try:
        met: dict[str, bool] = there.call(_here, *given)
    except EndedError as ended:
        there.end()
        raise ChildProcessError(f"the process of Great Expectations ended with exit status {ended.status}") from None
    return met


def _here(*given: Any) -> dict[str, bool]:
    from quality import suites  # takes seconds

    return suites.run_suites(*given)
