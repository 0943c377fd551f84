"""`salvage`: which records only an old leader's disk has, and how to get them back. No JVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jobs.console.log import WARNING
from jobs.console.options import ClusterOption, DocumentFormat, DocumentFormatOption
from jobs.console.output import printable, say, show_message

if TYPE_CHECKING:
    from jobs.salvage.live import LiveCluster


def salvage(
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="COPY", help="Folder or archive with copies of the old leader's replicas."),
    ] = None,
    current: Annotated[
        Path | None, typer.Option(metavar="COPY", help="The same of a replica of the log that won; or --bootstrap.")
    ] = None,
    lake: Annotated[
        Any, typer.Option(metavar="DIR|URL", help="Its windows bound the high watermark (default: none).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="A new folder for the records: producers' data, readable by you alone.")
    ] = None,
    partition: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC-N", help="Only this partition. Repeatable.")
    ] = None,
    produce_to: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Produce the records of --output to this topic.")
    ] = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Brokers of the running cluster: to compare with, instead of --current, and to produce to.",
        ),
    ] = None,
    client_config: Annotated[Path | None, typer.Option(help="Properties of librdkafka, e.g. for TLS and SASL.")] = None,
    send: Annotated[bool, typer.Option("--send", help="Send; without it, --produce-to only counts.")] = False,
    into_original: Annotated[
        bool, typer.Option("--into-original", help="Allow the topic that lost the records.")
    ] = False,
    superseded: Annotated[
        bool | None,
        typer.Option(
            "--superseded/--no-superseded",
            help="Also send what has a newer value for its key (default: unless the lake says: a compacted topic).",
        ),
    ] = None,
    cluster: ClusterOption = None,
    form: DocumentFormatOption = "table",
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
        from jobs.salvage.produce import Target, produce

        done = produce(output, Target(produce_to, bootstrap, client_config, into_original, superseded), send)
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
    from jobs.report.rendering import environment, for_terminal
    from jobs.salvage.stage import salvage as compare

    files = lake_to_show(location(lake), cluster) if lake is not None else None
    known = (files, files.one_cluster(cluster)) if files else None
    limits = load_settings().limits.of_captures()
    only = partition or ()
    summary = compare(source, current, only, known, output, say, limits)
    if form == "json":
        print(json.dumps(summary))
    else:
        template = environment(for_terminal).get_template("salvage.txt.j2")
        typer.echo(template.render(partitions=summary["partitions"], output=output), nl=False)
    for row in summary["partitions"]:
        for note in row["notes"]:
            show_message(printable(note), WARNING)
    if any(row["partial"] for row in summary["partitions"]):
        raise typer.Exit(1)
