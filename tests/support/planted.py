"""Defects that are planted in the tables of real captures, each with the expectation that is meant for it."""

from __future__ import annotations

from tests.support import planted_evidence, planted_results
from tests.support.planting import keys_and_files

PLANTED = (*keys_and_files(), *planted_evidence.PLANTED, *planted_results.PLANTED)
