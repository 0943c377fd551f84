"""The public names of replay/ (docs/api.md). They stay from release to release; all other names may change."""

from replay.controller.conformance import CaseError, differences
from replay.controller.profiles import PROFILES, Profile
from replay.plan.clients import coordinator_partition

__all__ = ["PROFILES", "CaseError", "Profile", "coordinator_partition", "differences"]
