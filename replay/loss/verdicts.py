"""The verdicts on a window and the severities of findings. Imports nothing: every command needs them at its start."""

from __future__ import annotations

PROVEN, POSSIBLE, EXCLUDED, UNDETERMINED = "proven", "possible", "excluded", "undetermined"
# Worst first.
VERDICTS = (PROVEN, POSSIBLE, UNDETERMINED, EXCLUDED)
SEVERITIES = ("critical", "high", "medium", "low", "info")
SEVERITY = {PROVEN: "critical", POSSIBLE: "medium", UNDETERMINED: "medium", EXCLUDED: "info"}
