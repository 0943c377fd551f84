"""The verdicts on a window, which way open ones lean, and the severities of findings. Imports nothing heavy: every
command needs them at its start."""

from collections.abc import Mapping
from typing import Any

PROVEN, POSSIBLE, EXCLUDED, UNDETERMINED = "proven", "possible", "excluded", "undetermined"
# Worst first.
VERDICTS = (PROVEN, POSSIBLE, UNDETERMINED, EXCLUDED)
SEVERITIES = ("critical", "high", "medium", "low", "info")
SEVERITY = {PROVEN: "critical", POSSIBLE: "medium", UNDETERMINED: "medium", EXCLUDED: "info"}
# Which way a window leans that is open (likely.py), in the order in which they are shown.
LEANINGS = (LOST, UNKNOWN, KEPT) = ("lost", "unknown", "kept")


def likely_text(finding: Mapping[str, Any]) -> str:
    """Which way an open window leans, with its rule's record: "likely lost (a rule that was right in 212 of 214
    cases)". Empty if it is decided, or if no rule says it. finding: with the columns `likely*` of schemas.FINDINGS."""
    if finding["likely"] not in (LOST, KEPT):
        return ""
    right, of = finding["likely_right"], finding["likely_of"]
    return f"likely {finding['likely']} (a rule that was right in {right} of {of} cases)"
