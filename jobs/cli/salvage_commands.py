"""`salvage`: which records only an old leader's disk has, and how to get them back. No JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from jobs.console.log import WARNING
from jobs.console.options import DocumentFormat
from jobs.console.output import printable, say, show_message

if TYPE_CHECKING:
    from jobs.salvage.live import LiveCluster


def salvage(
    source: Path | None = None,
    current: Path | None = None,
    lake: Any = None,
    output: Path | None = None,
    partition: list[str] | None = None,
    produce_to: str | None = None,
    bootstrap: str | None = None,
    client_config: Path | None = None,
    send: bool = False,
    into_original: bool = False,
    superseded: bool | None = None,
    cluster: str | None = None,
    form: DocumentFormat = "table",
) -> None:
    """List and save the records that an old leader's log has and the log that won has not. Changes neither.

    The log that won is a copy (--current), or is read from the running cluster (--bootstrap): without a consumer group,
    and without what a consumer does not get: CRCs, producer ids and sequences, ends of transactions.
    With --produce-to, what is in --output is sent; it can be repeated, also without --from, and sends nothing twice.
    Exit code 1 if a copy is damaged: what could be read is saved all the same.
    """
    if produce_to is not None and (output is None or bootstrap is None):
        raise typer.BadParameter("--produce-to needs --output, the folder with the records, and --bootstrap")
    if source is not None or produce_to is None:
        if source is None:
            raise typer.BadParameter("give --from, the copy of the old leader's log (docs/howto/salvage.md)")
        if current is not None and bootstrap is not None and produce_to is None:
            raise typer.BadParameter("give --current or --bootstrap, not both: the log is compared with one of them")
        _save(source, current or _live(bootstrap, client_config), lake, output, partition, cluster, form)
    if produce_to is not None and output is not None and bootstrap is not None:
        from jobs.salvage.produce import ProduceOptions, produce

        done = produce(output, ProduceOptions(produce_to, bootstrap, client_config, into_original, superseded), send)
        reasons = "".join(f", {count} left out: {why}" for why, count in sorted(done.left_out.items()))
        say(f"{produce_to}: {done.to_send} records, {done.before} sent before{reasons}")
        show_message(f"{done.sent} sent now" if send else "nothing was sent: --send does it")


def _live(bootstrap: str | None, client_config: Path | None) -> LiveCluster:
    from jobs.salvage.live import LiveCluster

    if bootstrap is None:
        raise typer.BadParameter("give --current or --bootstrap, the log that won (docs/howto/salvage.md)")
    return LiveCluster(bootstrap, client_config)


def _save(
    source: Path,
    current: Path | LiveCluster,
    lake: Any,
    output: Path | None,
    partition: list[str] | None,
    cluster: str | None,
    form: DocumentFormat,
) -> None:
    from evidence.capture.remote import location
    from jobs.cli.lakes import lake_to_show
    from jobs.config.settings import load_settings
    from jobs.report.rendering import for_terminal, rendered
    from jobs.salvage.stage import salvage as compare

    files = lake_to_show(location(lake), cluster) if lake is not None else None
    known = (files, files.one_cluster(cluster)) if files else None
    limits = load_settings().limits.of_captures()
    only = partition or ()
    summary = compare(source, current, only, known, output, say, limits)
    if form == "json":
        print(json.dumps(summary))
    else:
        text = rendered("salvage.txt.j2", for_terminal, partitions=summary["partitions"], output=output)
        typer.echo(text, nl=False)
    for row in summary["partitions"]:
        for note in row["notes"]:
            show_message(printable(note), WARNING)
    if any(row["partial"] for row in summary["partitions"]):
        raise typer.Exit(1)
