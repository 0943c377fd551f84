"""The order of findings, for the report's sections and for the table of flagged windows.

All findings of a lake are sorted by a few columns; only the findings that are shown are then read completely.
"""

import numpy as np
import pyarrow as pa

from jobs.views.in_duckdb import ask_table
from replay.arrow.schemas import FINDINGS
from replay.findings.kinds import KINDS, Section
from replay.loss.verdicts import LEANINGS, SEVERITIES, VERDICTS

# The columns that determine sections and their order.
_KEYS = (
    *("finding_id", "kind", "verdict", "severity", "loss_min", "loss_max", "topic", "topic_id", "partition"),
    *("start_offset", "end_offset", "election_offset", "start_timestamp_ms", "end_timestamp_ms", "likely"),
    *("would_be_leader", "lasted_ms"),
)
KEYS = pa.schema([FINDINGS.field(name) for name in _KEYS])


def ordered(findings: pa.Table, *sections: Section) -> pa.Table:
    """The rows of some sections in order, one section after the other, with the column `section`. findings: with the
    columns KEYS, and any others."""
    keys = findings.select(_KEYS).append_column("row", pa.array(np.arange(len(findings))))
    kinds = pa.table({"kind": list(KINDS), "section": [kind.section.value for kind in KINDS.values()]})
    ranks = {"severities": SEVERITIES, "verdicts": VERDICTS, "leanings": LEANINGS, "sections": sections}
    values = {name: list(map(str, names)) for name, names in ranks.items()}
    found = ask_table("incident/order", values, given=keys, kinds=kinds)
    return findings.take(found["row"]).append_column("section", found["section"])
