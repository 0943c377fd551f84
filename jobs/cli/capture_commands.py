"""Commands about captures themselves: `collect` makes one from live nodes, `check` says what one lacks. No JVM."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from evidence.errors import KraftForensicsError
from jobs.console.options import DocumentFormatOption, time_ms
from jobs.console.output import say

if TYPE_CHECKING:
    from jobs.collect.targets import Target

NodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="ID=WHERE",
        help="A node: 1=ssh:user@host, 2=kubectl:namespace/pod/container, 3=docker:container, 4=local:PATH, "
        "5=disk:PATH (its disk, mounted here), 6=via:host (with --via). A path on the node may follow, after a "
        "colon: 1=ssh:host:/etc/kafka. Repeatable.",
    ),
]
NodesOption = Annotated[Path | None, typer.Option("--nodes", help="A TOML file of nodes (docs/collect.md).")]
ViaOption = Annotated[
    str | None, typer.Option("--via", help="Your own command for via: nodes, e.g. 'ssh -p 2222 {host} sudo -n'.")
]


def named_nodes(
    node: list[str] | None, nodes: Path | None, via: str | None, **places: Any
) -> tuple[list[Target], str | None]:
    """(the nodes that the options name, the command of `via:` nodes). places: where files are on every --node.
    Errors: CollectError."""
    from jobs.collect.targets import parse_node, places_of, read_nodes

    listed, via_of_file = read_nodes(nodes) if nodes else ([], None)
    everywhere = places_of(**places)
    return [*listed, *(parse_node(text, everywhere) for text in node or ())], via or via_of_file


EXIT_MISSING = 3
# For a whole node; and how long one that is followed may be silent.
TIMEOUT_S, SILENCE_S = 600.0, 30.0


def collect(
    node: NodeOption = None,
    nodes: NodesOption = None,
    via: ViaOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="A new folder, .tar.gz or .tar.xz (default: capture-<time>.tar.gz here); the folder of --follow."
        ),
    ] = None,
    properties: Annotated[str | None, typer.Option(help="Path of the properties file on every node.")] = None,
    log_dir: Annotated[
        list[str] | None, typer.Option(help="A log directory on every node (log.dirs). Repeatable.")
    ] = None,
    metadata_log_dir: Annotated[str | None, typer.Option(help="The metadata log's directory on every node.")] = None,
    logs: Annotated[str | None, typer.Option(help="The folder with server.log on every node.")] = None,
    since: Annotated[
        int | None,
        typer.Option(
            parser=time_ms, metavar="TIME", help="Skip rotated logs that end before it, e.g. 2026-11-21T00:40Z."
        ),
    ] = None,
    replica_tails: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Also copy the last segment of each replica of this topic: producers' data. Repeatable.",
        ),
    ] = None,
    replica_logs: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC-N,...",
            help="Also copy these partitions' whole logs, for `salvage`: producers' data. Repeatable.",
        ),
    ] = None,
    light: Annotated[
        bool, typer.Option("--light", help="Only offset checkpoints, leader epochs and boot ids: for a schedule.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=1, help="Seconds for each node (default: 600); with --follow without an answer, until a new try (30)."
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Keep copies of the metadata logs in the folder --output up to date until Ctrl-C."
        ),
    ] = False,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between two looks of --follow.")] = 2.0,
    delete: Annotated[
        bool, typer.Option("--delete", help="With --follow: also delete old segments that the node has deleted.")
    ] = False,
) -> None:
    """Make a capture from live nodes, several at once. Nodes need nothing but sh; nothing is written there.

    Exit code 1 if a node failed or a file is missing: what was collected is a capture all the same.
    """
    targets, via = named_nodes(
        node, nodes, via, properties=properties, log_dirs=log_dir or (), metadata_log_dir=metadata_log_dir, logs=logs
    )
    if follow:
        if output is None or since or replica_tails or replica_logs or light:
            raise typer.BadParameter("--follow copies metadata logs only, into the folder --output, which it needs")
        _follow(targets, via, output, every, timeout or SILENCE_S, delete)
    from jobs.collect.stage import Wishes
    from jobs.collect.stage import collect as collect_nodes
    from jobs.collect.targets import check_replicas, check_topics

    now = datetime.now(UTC)
    replicas = check_replicas(replica_logs or ())
    wishes = Wishes(check_topics(replica_tails or ()), since, via, timeout or TIMEOUT_S, light, replicas)
    path = output or Path(f"capture-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    done = collect_nodes(targets, wishes, path, int(time.time() * 1000), say)
    for line in done.problems:
        say(line)
    if wishes.producers_data:
        say(f"{done.path} holds producers' data: only its owner can read it")
    typer.echo(done.path)
    if done.problems:
        raise typer.Exit(KraftForensicsError.exit_code)


def _follow(
    targets: list[Target], via: str | None, folder: Path, every_s: float, silence_s: float, delete: bool
) -> NoReturn:
    """Until a signal comes."""
    from jobs.collect.follow import Following

    with Following(targets, via, folder, every_s, silence_s, say, (lambda _: sys.maxsize) if delete else None):
        while True:
            time.sleep(3600)


def check(
    capture: Annotated[str, typer.Argument(help="A folder or an archive: a path or a URL.")],
    form: DocumentFormatOption = "table",
) -> None:
    """Say what a capture lacks, which verdicts that leaves open, and where to get it. Needs no lake.

    Exit codes: 0 nothing needed is missing, 3 something is, 1 it is no capture.
    """
    from evidence.capture.files import open_capture
    from evidence.capture.remote import location
    from evidence.completeness.facts import read_facts
    from evidence.completeness.lacks import lacks_of
    from jobs.config.settings import load_settings
    from jobs.report.rendering import environment, for_terminal
    from replay.plan.step import groups

    settings = load_settings()
    with open_capture(location(capture), settings.limits.of_captures()) as opened:
        assumed = settings.evidence
        facts = read_facts(
            opened,
            settings.metrics.names(),
            assumed.snapshot_duration_ms,
            assumed.log_patterns,
            assumed.clock_error_ms or None,
        )
        name, cluster = opened.name, opened.cluster_id
    lacks = lacks_of(facts)
    if form == "json":
        print(json.dumps({"capture": name, "cluster_id": cluster, "lacks": [asdict(lack) for lack in lacks]}))
    else:
        found = groups(lacks, attrgetter("needed", "what", "where", "rules"))
        print(environment(for_terminal).get_template("lacks.txt.j2").render(lacks=found), end="")
    if any(lack.needed for lack in lacks):
        raise typer.Exit(EXIT_MISSING)
