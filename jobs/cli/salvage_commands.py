"""`salvage`: which records only an old leader's disk has, and how to get them back. No JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.console.log import WARNING
from jobs.console.options import ClusterOption, DocumentFormat, DocumentFormatOption
from jobs.console.output import printable, show_message


def salvage(
    source: Annotated[
        Path | None, typer.Option("--from", metavar="COPY", help="Folder with copies of the old leader's replicas.")
    ] = None,
    current: Annotated[
        Path | None, typer.Option("--current", metavar="COPY", help="The same of a replica of the log that won.")
    ] = None,
    lake: Annotated[
        Any, typer.Option("--lake", metavar="DIR|URL", help="Its windows bound the high watermark (default: none).")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="A new folder for the records: producers' data, readable by you alone."),
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option("--partition", metavar="TOPIC-N", help="Only this partition. Repeatable.")
    ] = None,
    cluster: ClusterOption = None,
    form: DocumentFormatOption = DocumentFormat.TABLE,
) -> None:
    """List and save the records that an old leader's log has and the log that won has not. Changes neither.

    Exit code 1 if a copy is damaged: what could be read is saved all the same.
    """
    from evidence.capture.remote import location
    from jobs.cli.reading import lake_to_show
    from jobs.salvage.stage import pairs_of
    from jobs.salvage.stage import salvage as salvage_pairs

    if source is None or current is None:
        raise typer.BadParameter("give --from and --current, the copies to compare (docs/howto/salvage.md)")
    files = lake_to_show(location(lake), cluster) if lake is not None else None
    known = (files, files.one_cluster(cluster)) if files else None
    pairs = pairs_of(source, current, partition or ())
    summary = salvage_pairs(pairs, known, output, lambda line: show_message(printable(line)))
    if form is DocumentFormat.JSON:
        print(json.dumps(summary))
    else:
        for row in summary["partitions"]:
            for line in _lines(row):
                print(printable(line))
        if output is not None:
            print(printable(f"{output} holds producers' data: only its owner can read it. Delete it when it is used."))
    for row in summary["partitions"]:
        for note in row["notes"]:
            show_message(printable(note), WARNING)
    if any(row["partial"] for row in summary["partitions"]):
        raise typer.Exit(1)


def _lines(row: dict[str, Any]) -> Iterator[str]:
    name, records = f"{row['topic']}-{row['partition']}", row["records"]
    if not records:
        yield f"{name}: the copy has no record that the current log has not."
    else:
        span = f"offsets {row['first_offset']} to {row['last_offset']}"
        yield f"{name}: {records} records are only in the copy: {span}. The logs part at {row['parting_offset']}."
        yield f"  shown by: {row['parted_by']}; last common leader epoch: {_known(row['common_leader_epoch'])}"
        if row["below_high_watermark"] is None:
            yield "  below the high watermark: not known (no window of the lake bounds it)"
        else:
            sides = row["below_high_watermark"]
            yield (
                f"  below the high watermark: {sides['below']} for certain, {sides['maybe']} maybe, "
                f"{sides['above']} not (window {row['window']['finding_id']}: {row['window']['verdict']})"
            )
        yield (
            f"  in aborted transactions: {row['aborted']}, in open ones: {row['open']}, key has a newer value: "
            f"{_known(row['newer_value'])}, sent again: {_known(row['sent_again'])}"
        )
    if row["offsets_not_compared"]:
        yield f"  {row['offsets_not_compared']} offsets are older than the current log's start: left out"
    if row["missing_before_parting"]:
        yield f"  {row['missing_before_parting']} records before that were removed from the current log: compaction"
    if row["partial"]:
        yield f"  PARTIAL: {row['bytes']['damaged']} bytes are damaged"


def _known(value: Any) -> Any:
    return "not known" if value is None else value
