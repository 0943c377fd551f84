"""Properties try the same examples on every machine, so that a red run says something about the change.

New examples: `pytest -p no:cacheprovider --hypothesis-profile=explore tests/unit`.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("suite")
