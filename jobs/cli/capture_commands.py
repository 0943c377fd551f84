"""Commands about captures themselves: `collect` makes one from live nodes, `check` says what one lacks. No JVM."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from evidence.errors import KraftForensicsError
from jobs.console.options import DocumentFormat
from jobs.console.output import say

if TYPE_CHECKING:
    from jobs.collect.targets import Target


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
    node: list[str] | None = None,
    nodes: Path | None = None,
    via: str | None = None,
    output: Path | None = None,
    properties: str | None = None,
    log_dir: list[str] | None = None,
    metadata_log_dir: str | None = None,
    logs: str | None = None,
    since: int | None = None,
    replica_tails: list[str] | None = None,
    replica_logs: list[str] | None = None,
    light: bool = False,
    timeout: float | None = None,
    follow: bool = False,
    every: float = 2.0,
    delete: bool = False,
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


def check(capture: str, form: DocumentFormat = "table") -> None:
    """Say what a capture lacks, which verdicts that leaves open, and where to get it. Needs no lake.

    Exit codes: 0 nothing needed is missing, 3 something is, 1 it is no capture.
    """
    from evidence.capture.files import open_capture
    from evidence.capture.remote import location
    from evidence.completeness.facts import read_facts
    from evidence.completeness.lacks import lacks_of
    from jobs.config.settings import load_settings
    from jobs.report.rendering import for_terminal, rendered
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
        print(rendered("lacks.txt.j2", for_terminal, lacks=found), end="")
    if any(lack.needed for lack in lacks):
        raise typer.Exit(EXIT_MISSING)
