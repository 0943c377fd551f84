"""Check tables before a command shows them: that they are what this program wrote, and not older than the evidence.

The end of each table's log is read, and the files of small tables (docs/reliability.md). `kraft-forensics verify` reads
everything.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobs.lake.chain import changed
from jobs.lake.lake import Lake
from jobs.lake.storage import at_once
from jobs.lake.tables import DETECTED, INGESTED, REPLAYED
from jobs.provenance.fingerprint import goes_on_from, heads_of, require_bytes, require_newest_evidence

_DERIVED = {"replay": REPLAYED, "detect": DETECTED}


def require_as_written(lake: Lake, cluster: str) -> Iterator[str]:
    """Check a cluster's tables. Yields a warning for each stage whose tables are older than what they are made from.

    Errors: ChangedTableError if another program has changed a table.
    """
    every = (*INGESTED, *REPLAYED, *DETECTED)
    for name, is_there in zip(every, at_once(lake.has, every), strict=True):
        if not is_there:
            raise changed(lake.root, name, cluster, "the table is missing")
    # Before the heads: another run may commit both in between.
    made = {stage: lake.made(tables[-1], cluster) for stage, tables in _DERIVED.items()}
    heads = heads_of(lake, cluster, every)
    require_newest_evidence(lake, cluster, heads, [row.get("inputs", {}) for row in made.values()])
    require_bytes(lake, cluster, heads)
    for stage, row in made.items():
        last, recorded = _DERIVED[stage][-1], {**row.get("inputs", {}), **row.get("beside", {})}
        for name in set(recorded) & set(heads):
            if not goes_on_from(lake, name, cluster, heads[name], recorded[name]):
                raise changed(lake.root, last, cluster, f"it was made from another {name}")
        if newer := [name for name, head in recorded.items() if name in heads and heads[name] != head]:
            more = f" and {len(newer) - 1} more tables" if len(newer) > 1 else ""
            yield f"{cluster}: {last} is not of the newest {newer[0]}{more}: run `kraft-forensics {stage}`"
