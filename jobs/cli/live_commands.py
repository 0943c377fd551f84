"""Commands about a cluster that lives: `watch` tells what happens, `ahead` what a step would do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.cli.capture_commands import SILENCE_S, NodeOption, NodesOption, ViaOption, named_nodes
from jobs.cli.lakes import lake_to_show
from jobs.cli.stage_commands import EXIT_FINDINGS
from jobs.console.log import WARNING
from jobs.console.options import DEFAULT_LAKE, ClusterOption, DocumentFormat, DocumentFormatOption, LakeOption
from jobs.console.output import printable, say, show_message, utc


def watch(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders with metadata logs that grow: of a controller itself, or copies; best of all."),
    ] = None,
    node: NodeOption = None,
    nodes: NodesOption = None,
    via: ViaOption = None,
    into: Annotated[Path, typer.Option(help="Folder for its tables and what a restart needs.")] = Path("watch"),
    hook: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Is called with each alarm, as the hook of the DAGs is."),
    ] = None,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds between two looks at the files.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, and end.")] = False,
    form: DocumentFormatOption = "table",
) -> None:
    """Follow metadata logs and tell of windows that open, elections from outside ISR and ELR, partitions one failure
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
        text = _line(alarm)
        typer.echo(json.dumps(alarm) if form == "json" else printable(text))
        if hook is not None:
            try:
                hook({**alarm, "event": "alarm", "cluster": alarm["cluster_id"], "lake": str(into), "text": text})
            except Exception as error:  # noqa: BLE001 whatever the hook's module raises: the watch goes on
                show_message(f"the hook failed: {type(error).__name__}: {error}", WARNING)

    return tell


def _line(alarm: dict[str, Any]) -> str:
    place = f" {alarm['topic']}-{alarm['partition']}" if alarm["topic"] is not None else ""
    marks = [word for word in (alarm["status"], alarm["commit_state"]) if word in ("withdrawn", "uncommitted")]
    mark = f" [{', '.join(marks)}]" if marks else ""
    return f"{utc(alarm['timestamp_ms'])} {alarm['kind']}{place} at {alarm['offset']}{mark}: {alarm['text']}"


def ahead(
    stop: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="Stop this broker (SIGTERM); repeatable.")
    ] = None,
    stop_all: Annotated[
        str, typer.Option("--stop-all-in-order", metavar="IDS", help="Stop these one after another, e.g. 1,2,3.")
    ] = "",
    start: Annotated[list[int] | None, typer.Option(metavar="ID", help="Start this broker; repeatable.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set min.insync.replicas or unclean.leader.election.enable, of --topic or of all brokers; repeatable.",
        ),
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="The topic of --set.")] = None,
    elect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARTITION=ID", help="Let an administrator elect this broker, e.g. orders-0=2; repeatable."
        ),
    ] = None,
    restart_all: Annotated[
        bool, typer.Option("--restart-all", help="Find a safe order to restart all brokers, one after the other.")
    ] = False,
    lake: LakeOption = DEFAULT_LAKE,
    cluster: ClusterOption = None,
    form: DocumentFormatOption = "table",
) -> None:
    """Predict what a step would do to the newest state, before you take it; exit code 3 if it is not safe. Several are
    taken in the order --set, --start, --elect, --stop, --stop-all-in-order."""
    from jobs.config.settings import load_settings
    from jobs.queries.ahead import ahead, parse_elect, parse_set, print_answer
    from replay.whatif.ahead import START, STOP, Step

    if topic is not None and not setting:
        raise typer.BadParameter("--topic belongs to --set")
    stops = [*(stop or ()), *_brokers(stop_all)]
    steps = [
        *(parse_set(text, topic) for text in setting or ()),
        *(Step(START, broker) for broker in start or ()),
        *(parse_elect(text) for text in elect or ()),
        *(Step(STOP, broker) for broker in stops),
    ]
    if not steps and not restart_all:
        raise typer.BadParameter("name at least one step, e.g. --stop 3, or --restart-all")
    files = lake_to_show(lake, cluster)
    answer = ahead(files, files.one_cluster(cluster), steps, restart_all, load_settings())
    print_answer(answer, form)
    if not answer.safe:
        raise typer.Exit(EXIT_FINDINGS)


def _brokers(text: str) -> list[int]:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if not all(entry.isdecimal() for entry in entries):
        raise typer.BadParameter(f"{text!r} is not a list of broker ids, e.g. 1,2,3")
    return [int(entry) for entry in entries]
