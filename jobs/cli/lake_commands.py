"""Commands about a lake as a whole: `status`, `maintain`. No JVM starts."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Annotated

import typer

from jobs.cli.recorded import recorded
from jobs.console.options import (
    DEFAULT_LAKE,
    DocumentFormat,
    DocumentFormatOption,
    FormatOption,
    LakeArgument,
    LakeOption,
    LakesArgument,
)
from jobs.console.output import Format, print_rows, show_message
from jobs.console.progress import progress_steps


def status(
    given: LakesArgument = None,
    lake: LakeOption = DEFAULT_LAKE,
    form: DocumentFormatOption = DocumentFormat.TABLE,
) -> None:
    """Show what lakes hold, how the last runs ended, how old the evidence is, and what is out of date."""
    from jobs.lake.lake import Lake
    from jobs.queries.status import status_of
    from jobs.queries.status_output import print_status

    now_ms = time.time_ns() // 1_000_000
    found = [status_of(Lake(root), now_ms) for root in given or [lake]]
    if form is DocumentFormat.JSON:
        print(json.dumps({"lakes": found}, indent=2))
    else:
        print_status(found)


def maintain(
    given: LakeArgument = None,
    retention_days: Annotated[
        int,
        typer.Option(
            "--retention-days",
            min=0,
            help="Delete files that no commit needs after so many days. 0: only if nothing else uses the lake.",
        ),
    ] = 7,
    lake: LakeOption = DEFAULT_LAKE,
    form: FormatOption = Format.TABLE,
) -> None:
    """Compact small files and delete those that no commit needs. No row changes (docs/operations.md)."""
    from jobs.lake.lake import Lake
    from jobs.lifecycle.maintain import Maintained, maintain

    files = Lake(given or lake)
    with recorded("maintain", files.root) as record, progress_steps(1) as (describe, _):
        done = maintain(files, retention_days, describe)
        for cluster in files.clusters():
            record.of(cluster)
    changed = [asdict(each) for each in done if each.before != each.after or each.deleted]
    if changed or form is not Format.TABLE:
        print_rows(list(Maintained.__dataclass_fields__), changed, form)
    compacted = sum(each.before - each.after for each in done)
    deleted, size = sum(each.deleted for each in done), sum(each.deleted_bytes for each in done)
    show_message(f"maintain: {compacted} fewer files in tables, {deleted} files deleted ({size} bytes)")
