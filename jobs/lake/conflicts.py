"""Two runs at once: a stage that finds that another run has changed what it read or replaces is done again.

Each commit names the version of the cluster's rows that the new ones were worked out from (`Lake.commit`), so no run
overwrites or repeats what another has committed. Whoever comes second starts the stage anew, from what is there then.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from jobs.lake.storage import LakeError

Result = TypeVar("Result")

_ROUNDS, _LONGEST_PAUSE_S = 20, 1.0


class ChangedMeanwhileError(LakeError):
    """Another run has changed rows of the same cluster."""


def undisturbed(stage: Callable[[], Result]) -> Result:
    """The result of a stage, which may be called several times. Errors: ChangedMeanwhileError if other runs disturbed
    all of its attempts."""
    for _ in range(_ROUNDS - 1):
        with suppress(ChangedMeanwhileError):
            return stage()
        time.sleep(random.uniform(0, _LONGEST_PAUSE_S))
    return stage()
