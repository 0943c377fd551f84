"""Commands about nodes and captures themselves: `collect` makes one from live nodes, `watch` reports what happens on
them, `check` says what a capture lacks, `salvage` which records only an old leader's disk has. Only `watch` starts a
JVM."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from evidence.errors import KraftForensicsError
from jobs.console.log import WARNING, show_message
from jobs.console.options import DocumentFormat
from jobs.console.output import printable, say, utc

if TYPE_CHECKING:
    from jobs.collect.targets import Target

# For a whole node; and how long one that is followed may be silent.
TIMEOUT_S, SILENCE_S = 600.0, 30.0


def named_nodes(node: list[str] | None, nodes: Path | None, via: str | None) -> "tuple[list[Target], str | None]":
    """(the nodes that the options name, the command of `via:` nodes). Errors: UsageError."""
    from jobs.collect.targets import parse_node, read_nodes

    listed, via_of_file = read_nodes(nodes) if nodes else ([], None)
    return [*listed, *map(parse_node, node or ())], via or via_of_file


def collect(
    node: list[str] | None = None,
    nodes: Path | None = None,
    via: str | None = None,
    output: Path | None = None,
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
    targets, via = named_nodes(node, nodes, via)
    if follow:
        if output is None or since or replica_tails or replica_logs or light:
            raise typer.BadParameter("--follow copies metadata logs only, into the folder --output, which it needs")
        from jobs.collect.follow import Following

        with Following(
            targets, via, output, every, timeout or SILENCE_S, say, (lambda _: sys.maxsize) if delete else None
        ):
            while True:  # until a signal comes
                time.sleep(3600)
    from jobs.collect.stage import Wishes
    from jobs.collect.stage import collect as collect_nodes
    from jobs.collect.targets import check_replicas, check_topics

    now = datetime.now(UTC)
    replicas = check_replicas(replica_logs or ())
    wishes = Wishes(check_topics(replica_tails or ()), since, via, timeout or TIMEOUT_S, light, replicas)
    path = output or Path(f"capture-{now:%Y%m%dT%H%M%SZ}.tar.gz")
    problems = collect_nodes(targets, wishes, path, int(time.time() * 1000), say)
    for line in problems:
        say(line)
    if wishes.producers_data:
        say(f"{path} holds producers' data: only its owner can read it")
    typer.echo(path)
    if problems:
        raise typer.Exit(KraftForensicsError.exit_code)


def watch(
    folders: list[Path] | None = None,
    node: list[str] | None = None,
    nodes: Path | None = None,
    via: str | None = None,
    into: Path = Path("watch"),
    hook: str | None = None,
    every: float = 2.0,
    once: bool = False,
    form: DocumentFormat = "table",
) -> None:
    """Follow metadata logs and report windows that open, elections from outside ISR and ELR, partitions one failure
    from loss and a changed plan, within seconds. Ends with Ctrl-C and goes on where it was.

    With --node it reads the logs of nodes itself: copies of them are in the folder `copies` of --into.
    """
    from jobs.collect.follow import Following
    from jobs.config.settings import load_settings
    from jobs.watch.stream import load_hook, watch, watch_nodes

    called = load_hook(hook) if hook else None
    targets, via = named_nodes(node, nodes, via)
    spark, tell = load_settings().spark, _teller(form, called, into)
    if targets:
        copies = (into / "copies").absolute()
        following = Following(targets, via, copies, every, SILENCE_S, say, lambda _: 0)
        watch_nodes(following, folders or (), into, spark, tell, once)
    elif folders:
        watch(folders, into, spark, tell, every, once)
    else:
        raise typer.BadParameter("name at least one folder with a metadata log, or --node")


def _teller(
    form: DocumentFormat, hook: Callable[[dict[str, Any]], object] | None, into: Path
) -> Callable[[dict[str, Any]], None]:
    def tell(alarm: dict[str, Any]) -> None:
        text = _alarm_text(alarm)
        typer.echo(json.dumps(alarm) if form == "json" else printable(text))
        if hook is not None:
            try:
                hook({**alarm, "event": "alarm", "cluster": alarm["cluster_id"], "lake": str(into), "text": text})
            except Exception as error:  # noqa: BLE001 whatever the hook's module raises: the watch goes on
                show_message(f"the hook failed: {type(error).__name__}: {error}", WARNING)

    return tell


def _alarm_text(alarm: dict[str, Any]) -> str:
    place = f" {alarm['topic']}-{alarm['partition']}" if alarm["topic"] is not None else ""
    marks = [word for word in (alarm["status"], alarm["commit_state"]) if word in ("withdrawn", "uncommitted")]
    mark = f" [{', '.join(marks)}]" if marks else ""
    return f"{utc(alarm['timestamp_ms'])} {alarm['kind']}{place} at {alarm['offset']}{mark}: {alarm['text']}"


def check(capture: str, form: DocumentFormat = "table") -> None:
    """Say what a capture lacks, which verdicts that leaves open, and where to get it. Needs no lake.

    Exit codes: 0 nothing needed is missing, 3 something is, 1 it is no capture.
    """
    from evidence.capture.files import open_capture
    from evidence.capture.remote import location
    from evidence.completeness.facts import read_facts
    from evidence.completeness.lacks import lacks_of
    from jobs.config.settings import load_settings
    from jobs.report.rendering import prose
    from replay.arrow.runs import groups

    settings = load_settings()
    with open_capture(location(capture), settings.limits) as opened:
        assumed = settings.evidence
        facts = read_facts(
            opened,
            settings.metrics,
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
        print(prose("lacks.txt.j2", lacks=found), end="")
    if any(lack.needed for lack in lacks):
        raise typer.Exit(3)


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
    if source is not None:
        if current is not None and bootstrap is not None and produce_to is None:
            raise typer.BadParameter("give --current or --bootstrap, not both: the log is compared with one of them")
        if current is None and bootstrap is None:
            raise typer.BadParameter("give --current or --bootstrap, the log that won (docs/howto/salvage.md)")
        from evidence.capture.remote import location
        from jobs.cli.lakes import lake_to_show
        from jobs.config.settings import load_settings
        from jobs.report.rendering import prose
        from jobs.salvage import stage
        from jobs.salvage.live import LiveCluster

        won = current or LiveCluster(str(bootstrap), client_config)
        files = lake_to_show(location(lake), cluster) if lake is not None else None
        known = (files, files.one_cluster(cluster)) if files else None
        limits = load_settings().limits
        summary = stage.salvage(source, won, partition or (), known, output, say, limits)
        if form == "json":
            print(json.dumps(summary))
        else:
            print(prose("salvage.txt.j2", partitions=summary["partitions"], output=output), end="")
        for note in (note for row in summary["partitions"] for note in row["notes"]):
            show_message(printable(note), WARNING)
        if any(row["partial"] for row in summary["partitions"]):
            raise typer.Exit(1)
    elif produce_to is None:
        raise typer.BadParameter("give --from, the copy of the old leader's log (docs/howto/salvage.md)")
    if produce_to is not None and output is not None and bootstrap is not None:
        from jobs.salvage.live import LiveCluster
        from jobs.salvage.produce import produce

        done = produce(output, LiveCluster(bootstrap, client_config), produce_to, send, into_original, superseded)
        reasons = "".join(f", {count} left out: {why}" for why, count in sorted(done.left_out.items()))
        say(f"{produce_to}: {done.to_send} records, {done.before} sent before{reasons}")
        show_message(f"{done.sent} sent now" if send else "nothing was sent: --send does it")
