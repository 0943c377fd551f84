"""Commands about captures themselves: `collect` makes one from live nodes, `check` says what one lacks. No JVM."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from evidence.errors import KraftForensicsError
from jobs.console.output import printable, show_message

EXIT_MISSING = 3


def collect(
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="ID=WHERE",
            help="A node: 1=ssh:[user@]host, 2=kubectl:namespace/pod[/container], 3=docker:container, 4=local:[PATH], "
            "5=via:host (with --via); all but `local:` may end with :/PATH on the node. Repeatable.",
        ),
    ] = None,
    nodes: Annotated[Path | None, typer.Option("--nodes", help="A TOML file of nodes (docs/collect.md).")] = None,
    via: Annotated[
        str | None, typer.Option("--via", help="Your own command for via: nodes, e.g. 'ssh -p 2222 {host} sudo -n'.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", help="A new folder, .tar.gz or .tar.xz (default: capture-<time>.tar.gz here)."),
    ] = None,
    properties: Annotated[
        str | None, typer.Option("--properties", help="Path of the properties file on every node.")
    ] = None,
    log_dir: Annotated[
        list[str] | None, typer.Option("--log-dir", help="A log directory on every node (log.dirs). Repeatable.")
    ] = None,
    metadata_log_dir: Annotated[
        str | None, typer.Option("--metadata-log-dir", help="The metadata log's directory on every node.")
    ] = None,
    logs: Annotated[str | None, typer.Option("--logs", help="The folder with server.log on every node.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Skip rotated logs that end before it, e.g. 2026-11-21T00:40Z."),
    ] = None,
    replica_tails: Annotated[
        list[str] | None,
        typer.Option(
            "--replica-tails",
            metavar="TOPIC",
            help="Also copy the last segment of each replica of this topic: producers' data. Repeatable.",
        ),
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1, help="Seconds for each node.")] = 600,
) -> None:
    """Make a capture from live nodes, several at once. Nodes need nothing but sh; nothing is written there.

    Exit code 1 if a node failed or a file is missing: what was collected is a capture all the same.
    """
    from jobs.collect.stage import Wishes
    from jobs.collect.stage import collect as collect_nodes
    from jobs.collect.targets import check_topics, parse_node, places_of, read_nodes

    places = places_of(properties=properties, log_dirs=log_dir or (), metadata_log_dir=metadata_log_dir, logs=logs)
    listed, via_of_file = read_nodes(nodes) if nodes else ([], None)
    targets = [*listed, *(parse_node(text, places) for text in node or ())]
    now = datetime.now(UTC)
    wishes = Wishes(check_topics(replica_tails or ()), _time_ms(since), via or via_of_file, timeout)
    path = output or Path(f"capture-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    done = collect_nodes(targets, wishes, path, int(time.time() * 1000), lambda line: show_message(printable(line)))
    for line in done.problems:
        show_message(printable(line))
    typer.echo(done.path)
    if done.problems:
        raise typer.Exit(KraftForensicsError.exit_code)


def _time_ms(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a time, e.g. 2026-11-21T00:40Z") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
